"""Folders that appear completely or not at all, even after a kill or on a full disk."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bertcnn.errors import OutputError, one_line
from bertcnn.storage.files import (
    check_can_write,
    check_outside_models,
    output_error,
    sync_folder,
    take_lock,
    temporary_name,
    temporary_stem,
    try_lock,
)

_TEMPORARY = re.compile(r"\.(?P<stem>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)
# in a work folder: the previous folder, where exchanging two folders is not supported
_OLD = "old"
_AT_CWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
# EPERM: some sandboxes return it for unknown system calls
_EXCHANGE_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}
_DEBRIS = {
    ".ds_store",
    ".localized",
    ".directory",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "icon\r",
    "@eadir",
    "__macosx",
}
_DEBRIS_BEGINS = ("._", ".nfs", ".fuse_hidden", ".smbdelete")
# seconds; where folders cannot be locked, an older work folder counts as abandoned
_FORGOTTEN_AFTER = 24 * 3600.0


class BusyError(OutputError):
    """Another run is using the folder."""


def real_folder(folder: str | os.PathLike[str]) -> Path:
    """Resolves links, so that a link to a folder stays a link when the folder is replaced.

    Raises:
        OutputError: it is not a valid folder path.
    """
    try:
        return Path(os.path.realpath(folder))
    except ValueError:  # a NUL character
        raise OutputError(
            f"{one_line(folder)} is not a valid folder path",
            expected="a place to save in",
            fix="correct it",
        ) from None


def check_target(folder: str | os.PathLike[str], check_replaceable: Callable[[Path], None]) -> None:
    """Checks, before any work, that a new folder can be written.

    Raises:
        OutputError: `check_replaceable` rejects it, it is in a saved model, or cannot be written.
    """
    target = real_folder(folder)
    check_outside_models(target)
    try:
        check_replaceable(target)
        above = next(path for path in target.parents if path.exists())
        if not above.is_dir():
            raise OutputError(
                f"{above} is a file",
                expected=f"a folder to save {target.name} in",
                fix="choose another place",
            )
        check_can_write(target)
    except OSError as error:
        raise output_error(target, error) from None


def check_replaceable(
    target: Path,
    overwrite: bool,
    *,
    holds: str,
    expected: str,
    stranger: Callable[[Path], str | None],
) -> None:
    """Rejects a folder that must not be replaced.

    Empty folders (see `is_debris`) may be replaced. With `overwrite`, so may folders that we wrote
    and that have no foreign files.

    Args:
        target: the output folder.
        overwrite: whether an older folder of the same kind may be replaced.
        holds: the content of such a folder, as "a saved model".
        expected: a replaceable folder, as "a model saved by bertcnn".
        stranger: returns why a folder is not of this kind, as "is not a saved model", or None.

    Raises:
        OutputError: it must not be replaced.
    """
    folder = resting_place(target)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OutputError(
            f"{target} is a file",
            expected="a folder that does not exist yet",
            fix="choose another name",
        )
    if all(is_debris(path.name) for path in folder.iterdir()):
        return
    what = stranger(folder)
    if what is not None:
        raise OutputError(
            f"{target} {what}",
            expected=f"a new folder, or {expected}",
            fix="choose another place; it is never overwritten",
        )
    if not overwrite:
        raise OutputError(
            f"{target} holds {holds} already",
            expected="a folder that does not exist yet",
            fix="choose another name, or overwrite it with --force",
        )


def is_debris(path: str) -> bool:
    """Whether a file manager or file server creates such a file (a relative path) in any folder.

    Example:
        >>> [is_debris(path) for path in (".DS_Store", "engine/._model.xml", "THUMBS.DB")]
        [True, True, True]
        >>> [is_debris(path) for path in ("notes.txt", ".gitattributes")]
        [False, False]
    """
    return any(
        part.casefold() in _DEBRIS or part.startswith(_DEBRIS_BEGINS) for part in Path(path).parts
    )


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A temporary folder, mode 0700, next to `target`; also removes those of killed processes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    clean_leftovers(target)
    folder, lock = _locked_new_folder(target)
    try:
        yield folder
    finally:
        _discard(folder, target)
        if lock is not None:
            os.close(lock)


@contextmanager
def new_folder(
    target: Path, *, overwrite: bool, check: Callable[[Path, bool], None]
) -> Iterator[Path]:
    """An empty folder that moves to `target` after the block, unless the block fails.

    Just before the move, `check(target, overwrite)` raises an OutputError if a folder that has
    appeared meanwhile must not be replaced. Missing parents are created.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with work_folder(target) as work:
            new = work / "new"
            new.mkdir()
            yield new
            check(target, overwrite)
            put_in_place(new, target, work, replace=overwrite)
    except OSError as error:
        raise output_error(target, error) from None


@contextmanager
def held_folder(folder: Path, *, does: str) -> Iterator[Path]:
    """The locked working folder of a long run; created if missing, removed afterwards if empty.

    `does` describes the other run's use of it in the error, as "keeps its checkpoints in".

    Raises:
        BusyError: another run has the lock.
        OutputError: it cannot be created.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()] or [folder]
    lock = None
    try:
        lock = _locked_folder(folder, does)
        yield folder
    except BusyError:
        made = []  # the other run needs them
        raise
    finally:
        with suppress(OSError):  # not empty
            for path in made:
                path.rmdir()
        # unlock last, or a waiting run would lock a removed folder
        if lock is not None:
            os.close(lock)


def _locked_folder(folder: Path, does: str) -> int | None:
    """Creates and locks the folder; tries again if another run removes it in between."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.name == "nt":
                return None
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise output_error(folder, error) from None
        if not try_lock(lock):
            os.close(lock)
            raise BusyError(
                f"another run {does} {folder} right now",
                expected="one run at a time",
                fix="wait for it, stop it, or choose another place",
                passes=True,
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), folder.stat()):
                return lock
        os.close(lock)


def _locked_new_folder(target: Path) -> tuple[Path, int | None]:
    """Creates and locks a work folder; tries again if a cleanup removes it in between."""
    while True:
        folder = target.parent / temporary_name(target)
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
    """Moves the finished, synced folder `new` to `target`, and the old folder to `work`.

    At any moment, `resting_place` finds the complete old or the complete new folder.

    Raises:
        FileExistsError: the target is not empty, and `replace` is off.
    """
    sync_folder(new)
    while not _renamed(new, target):
        if not replace and not all(is_debris(path.name) for path in target.iterdir()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        if exchange(new, target):
            break
        if (work / _OLD).exists():
            shutil.rmtree(work / _OLD)
        with suppress(FileNotFoundError):  # another save has just moved it away
            target.rename(work / _OLD)
    sync_folder(target.parent)


def _renamed(new: Path, target: Path) -> bool:
    try:
        new.rename(target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def exchange(first: Path, second: Path) -> bool:
    """Swaps two folders atomically; False if the system or the file system does not support it.

    With two renames instead, a program that knows only the path can find no folder in between (31
    of 750,000 looks during 151 saves; none with the exchange). Reading a model while two processes
    overwrote it also failed in five tries.
    """
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
        function.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
    return function


def resting_place(target: Path) -> Path:
    """The path to read `target` from, also after a save was killed between two renames."""
    if _is_vacant(target):
        for folder in _leftovers(target):
            if (folder / _OLD).is_dir():
                return folder / _OLD
    return target


def _is_vacant(target: Path) -> bool:
    try:
        with os.scandir(target) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:  # a file, or a folder we may not read
        return False


def clean_leftovers(target: Path) -> None:
    """Removes work folders of killed processes; folders they had moved away move back."""
    for folder in _leftovers(target):
        with (
            suppress(OSError),
            _held(folder) as abandoned,
        ):  # removed meanwhile, or another user's
            if abandoned:
                _discard(folder, target)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Locks a work folder during the block and yields whether its owner is gone."""
    handle = None if os.name == "nt" else os.open(folder, os.O_RDONLY)
    try:
        lock = None if handle is None else take_lock(handle)
        yield time.time() - folder.stat().st_mtime > _FORGOTTEN_AFTER if lock is None else lock
    finally:
        if handle is not None:
            os.close(handle)


def _discard(work: Path, target: Path) -> None:
    """Moves the old folder back to `target`, or leaves it for `resting_place`; removes the rest."""
    old = work / _OLD
    if old.is_dir() and _is_vacant(target):
        with suppress(OSError):
            old.rename(target)
    if not (old.is_dir() and _is_vacant(target)):
        shutil.rmtree(work, ignore_errors=True)


def _leftovers(target: Path) -> list[Path]:
    folders, stem = [], temporary_stem(target)
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            name = _TEMPORARY.fullmatch(entry.name)
            if name and name["stem"] == stem and entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
    return sorted(folders)
