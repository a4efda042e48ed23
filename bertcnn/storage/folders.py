"""Folders that appear whole or not at all.

Whatever kills the process or fills the disk.
"""

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
# in a work folder: what stood at the target before, where two folders cannot be exchanged
_OLD = "old"
_AT_CWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
# EPERM: some sandboxes say so of calls they do not know
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
# seconds; where folders cannot be locked, a work folder this old has no owner any more
_FORGOTTEN_AFTER = 24 * 3600.0


class BusyError(OutputError):
    """A folder in which another run is at work."""


def real_folder(folder: str | os.PathLike[str]) -> Path:
    """Where a folder to be written really is.

    A link to one stays a link when the folder is replaced.

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
    """Refuse, before any work, a place where a new folder could not be put.

    Args:
        folder: where it is to stand.
        check_replaceable: raises an OutputError for what must not give way.

    Raises:
        OutputError: it is taken, is in a saved model, or cannot be written.
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
    """Refuse a folder that must not be replaced.

    Replaced are an empty folder (see `is_debris`) and, with `overwrite`, one that we made and that
    holds no file of anybody else.

    Args:
        target: where a folder is to stand.
        overwrite: whether an older one of the same kind may be replaced.
        holds: what such a folder holds, as "a saved model".
        expected: what may be replaced, as "a model saved by bertcnn".
        stranger: says of a folder that is not empty what keeps it from being of this kind, as "is
            not a saved model"; None if nothing does.

    Raises:
        OutputError: it may not give way.
    """
    place = resting_place(target)
    if not place.exists():
        return
    if not place.is_dir():
        raise OutputError(
            f"{target} is a file",
            expected="a folder that does not exist yet",
            fix="choose another name",
        )
    if all(is_debris(path.name) for path in place.iterdir()):
        return
    what = stranger(place)
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
    """Whether a file manager or a file server leaves such a file in any folder.

    Nobody misses it, and it comes again.

    Args:
        path: in the folder.

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
    """A private folder beside `target` to build its successor in.

    Gone afterwards, and so are those of killed processes.

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
        _discard(folder, target)
        if lock is not None:
            os.close(lock)


@contextmanager
def new_folder(
    target: Path, *, overwrite: bool, check: Callable[[Path, bool], None]
) -> Iterator[Path]:
    """An empty folder to fill: it stands at `target` after the block, and nowhere if it fails.

    Args:
        target: missing folders above it are made.
        overwrite: whether a folder with something in it gives way.
        check: given these two just before; raises an OutputError if what somebody may have put
            there meanwhile must not give way.

    Yields:
        The folder, on the same file system as `target`.

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
    """The folder of a long run's work, while no other run is at work there.

    Args:
        folder: made if it is not there, and the folders above it; those left empty are gone
            afterwards.
        does: what the other run does there, for the error, as "keeps its checkpoints in".

    Raises:
        BusyError: another run is at work there.
        OutputError: it cannot be made.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()] or [folder]
    lock = None
    try:
        lock = _locked_folder(folder, does)
        yield folder
    except BusyError:
        made = []  # the other run's
        raise
    finally:
        with suppress(OSError):  # it is not empty
            for path in made:
                path.rmdir()
        # only now, or a run that waits for it would hold a folder that is gone
        if lock is not None:
            os.close(lock)


def _locked_folder(folder: Path, does: str) -> int | None:
    """The folder, made and locked.

    Another run that ends may remove it between the two steps, then comes another.
    """
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
    """A new work folder with its lock held.

    Somebody cleaning up may catch it between the two steps, then comes another.
    """
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
    """Make the folder `new` stand at `target`.

    At any moment `target` (or `resting_place`) holds all of the old or all of the new.

    Args:
        new: a finished folder inside `work`, its files already on the disk.
        target: where it goes; an empty folder may be there.
        work: the `work_folder` of this target; what stood at `target` ends up in it.
        replace: whether a folder with something in it may give way.

    Raises:
        FileExistsError: something is there, and `replace` is off.
    """
    sync_folder(new)
    while not _renamed(new, target):
        if not replace and not all(is_debris(path.name) for path in target.iterdir()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        if exchange(new, target):
            break
        if (work / _OLD).exists():  # another save has replaced it since
            shutil.rmtree(work / _OLD)
        with suppress(FileNotFoundError):  # another save has just moved it away
            target.rename(work / _OLD)
    sync_folder(target.parent)


def _renamed(new: Path, target: Path) -> bool:
    """Rename a folder; False where a folder with something in it is in the way."""
    try:
        new.rename(target)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step.

    Two renames alone do not suffice where it can be had: between them a program that knows only
    the path finds no folder (31 of 750,000 looks during 151 saves, none with the exchange), and
    reading a model failed in five tries while two processes saved over it.

    Returns:
        False where the system or the file system cannot.
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
    """Where the folder of `target` is to be read.

    There, or where a save killed between two renames left it.
    """
    if _is_vacant(target):
        for folder in _leftovers(target):
            if (folder / _OLD).is_dir():
                return folder / _OLD
    return target


def _is_vacant(target: Path) -> bool:
    """Whether nothing stands there, or an empty folder."""
    try:
        with os.scandir(target) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:  # a file, or a folder we may not look into
        return False


def clean_leftovers(target: Path) -> None:
    """Remove what killed processes left beside `target`, putting back what they had moved away."""
    for folder in _leftovers(target):
        with (
            suppress(OSError),
            _held(folder) as abandoned,
        ):  # it may be gone by now, or be another user's
            if abandoned:
                _discard(folder, target)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether the process that made a work folder is gone.

    Its lock stays ours until the block ends, so no new owner can appear.
    """
    handle = None if os.name == "nt" else os.open(folder, os.O_RDONLY)
    try:
        lock = None if handle is None else take_lock(handle)
        yield time.time() - folder.stat().st_mtime > _FORGOTTEN_AFTER if lock is None else lock
    finally:
        if handle is not None:
            os.close(handle)


def _discard(work: Path, target: Path) -> None:
    """Remove a work folder.

    What stood at `target` goes back there, or stays where `resting_place` finds it.
    """
    old = work / _OLD
    if old.is_dir() and _is_vacant(target):
        with suppress(OSError):
            old.rename(target)
    if not (old.is_dir() and _is_vacant(target)):
        shutil.rmtree(work, ignore_errors=True)


def _leftovers(target: Path) -> list[Path]:
    """The work folders beside `target`, in the order of their names."""
    found, stem = [], temporary_stem(target)
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            name = _TEMPORARY.fullmatch(entry.name)
            if name and name["stem"] == stem and entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
    return sorted(found)
