"""Folders that appear whole or not at all, whatever kills the process or fills the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bertcnn.errors import OutputError

if sys.platform != "win32":
    import fcntl

_SAVING = re.compile(r"\.(?P<target>.+)\.saving-[0-9a-f]{16}", re.DOTALL)
_OLD = "old"  # in a work folder: what stood at the target before, on systems that cannot exchange two folders in one step
_AT_CWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_EXCHANGE_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORGOTTEN_AFTER = 24 * 3600.0  # seconds; where folders cannot be locked, a work folder this old has no owner any more
_LONGEST_WRITE = 1 << 26  # bytes; one write call takes at most 2 GiB on Linux


def output_error(path: Path, error: OSError) -> OutputError:
    """`error`, met while writing `path`, as an error the user can act on."""
    if error.errno in _DISK_FULL:
        return OutputError(f"no space left to write {path}", expected="room on the disk", fix="free some space or choose another disk")
    reason = (error.strerror or str(error)).lower()
    return OutputError(
        f"{path} cannot be written ({reason})",
        expected="a folder you may write to",
        fix="choose another place or ask for the right to write there",
    )


def write_new(path: Path, data: bytes | memoryview) -> None:
    """Write a file that does not exist yet, down to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while len(rest):
            rest = rest[os.write(handle, rest[:_LONGEST_WRITE]) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names down to the disk; Windows has no such call."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Take the lock of an open file or folder; False when somebody else has it. It falls with the process, also by kill -9."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A private folder beside `target` to build its successor in; gone afterwards, and so are those of killed processes.

    Args:
        target: where the result will stand; missing folders above it are made.

    Yields:
        The work folder, mode 0700, on the same file system as `target`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    clean_leftovers(target)
    folder, lock = _locked_new_folder(target)
    try:
        yield folder
    finally:
        if not (folder / _OLD).exists() or target.exists():  # what stood here before is never lost
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked_new_folder(target: Path) -> tuple[Path, int | None]:
    """A new work folder with its lock held; somebody cleaning up may catch it between the two steps, then comes another."""
    while True:
        folder = target.parent / f".{target.name}.saving-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        if os.name == "nt":
            return folder, None
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if try_lock(lock) and folder.exists():
            return folder, lock
        os.close(lock)


def put_in_place(new: Path, target: Path, work: Path, *, replace: bool) -> None:
    """Make the folder `new` stand at `target`; at any moment `target` (or `resting_place`) holds all of the old or all of the new.

    Args:
        new: a finished folder inside `work`, its files already on the disk.
        target: where it goes; an empty folder may be there.
        work: the `work_folder` of this target; what stood at `target` ends up in it.
        replace: whether a folder with something in it may give way.

    Raises:
        FileExistsError: something is there, and `replace` is off.
    """
    sync_folder(new)
    try:
        new.rename(target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        if not replace and any(target.iterdir()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        if not exchange(new, target):
            target.rename(work / _OLD)
            new.rename(target)
    sync_folder(target.parent)


def exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False where the system or the file system cannot."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    sys.audit("bertcnn.exchange", str(first), str(second))
    if renameat2(_AT_CWD, os.fsencode(first), _AT_CWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _EXCHANGE_UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(second))


def _renameat2() -> Any:  # noqa: ANN401 - a foreign function
    """Linux' renameat2 (man 2 renameat2), or None."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


def resting_place(target: Path) -> Path:
    """Where the folder of `target` is to be read: there, or where a save killed between two renames left it."""
    if not os.path.lexists(target):
        for folder in _leftovers(target):
            if (folder / _OLD).is_dir():
                return folder / _OLD
    return target


def clean_leftovers(target: Path) -> None:
    """Remove what killed processes left beside `target`, putting back what they had moved away."""
    for folder in _leftovers(target):
        if not _abandoned(folder):
            continue
        if (folder / _OLD).is_dir() and not os.path.lexists(target):
            (folder / _OLD).rename(target)
        shutil.rmtree(folder, ignore_errors=True)


def _leftovers(target: Path) -> list[Path]:
    """The work folders beside `target`, in the order of their names."""
    found = []
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            name = _SAVING.fullmatch(entry.name)
            if name and name["target"] == target.name and entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
    return sorted(found)


def _abandoned(folder: Path) -> bool:
    """Whether the process that made a work folder is gone."""
    try:
        if os.name == "nt":
            return time.time() - folder.stat().st_mtime > _FORGOTTEN_AFTER
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        return try_lock(handle)
    finally:
        os.close(handle)
