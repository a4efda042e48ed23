"""Files and folders that appear whole or not at all, whatever kills the process or fills the disk; the cache of what can be made again."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bertcnn.errors import OutputError, one_line

if sys.platform != "win32":
    import fcntl

_SAVING = re.compile(r"\.(?P<target>.+)\.saving-[0-9a-f]{16}", re.DOTALL)
_OLD = "old"  # in a work folder: what stood at the target before, on systems that cannot exchange two folders in one step
_AT_CWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_EXCHANGE_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}  # EPERM: some sandboxes say so of calls they do not know
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}
MORE_ROOM = "free some space, or name another folder for temporary files in the variable TMPDIR"
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORGOTTEN_AFTER = 24 * 3600.0  # seconds; where folders cannot be locked, a work folder this old has no owner any more
_DIGEST_BYTES = 16  # before what is kept in the cache
_LARGEST_MANIFEST = 1 << 16  # bytes
NAME_CHARACTERS = 40  # of a file's name in that of its temporary one: with more, names near 255 bytes would be too long
_LONGEST_WRITE = 1 << 26  # bytes; one write call takes at most 2 GiB on Linux


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """Where encoders and compiled engines are kept: `cache`, else $BERTCNN_CACHE, else `bertcnn` in the user's cache folder.

    Raises:
        OutputError: the user has no home folder, or `~` stands before a name that is no user's.
    """
    given = cache or os.environ.get("BERTCNN_CACHE")
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    try:
        if given:
            return Path(given).expanduser().absolute()
        return Path(os.environ.get(variable) or Path.home() / ".cache") / "bertcnn"
    except RuntimeError as error:
        raise OutputError(
            f"no folder for encoders and compiled engines ({error})",
            expected="a home folder, or a folder named in the variable BERTCNN_CACHE",
            fix="set BERTCNN_CACHE to a folder you may write to",
        ) from None


def output_error(path: Path, error: OSError) -> OutputError:
    """`error`, met while writing `path`, as an error the user can act on."""
    if error.errno in DISK_FULL:
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


def check_file_target(
    path: str | os.PathLike[str], overwrite: bool, *, others: Iterable[str | os.PathLike[str] | None] = (), option: str = "--out"
) -> Path:
    """The place for a file to be written, refused before any work if it will not do.

    Args:
        path: where the file is to stand, in a folder that exists.
        overwrite: whether a file that is there may be replaced.
        others: files of the same command, which it must not be; None counts for nothing.
        option: what users name the place with.

    Raises:
        OutputError: it is one of `others`, a folder or in none, in a saved model, taken, or cannot be written.
    """
    target = Path(path).expanduser().absolute()
    try:
        check_outside_models(target)
        if any(given is not None and _is_same_file(target, Path(given)) for given in others):
            raise OutputError(
                f"{str(path)!r} for {option} and for another file of this command",
                expected="different files",
                fix=f"choose another name for {option}",
            )
        if target.is_dir() or not target.parent.is_dir():
            raise OutputError(
                f"{str(path)!r} is a folder, or in none", expected="the name of a file", fix="name a file in an existing folder"
            )
        if target.exists() and not overwrite:
            raise OutputError(f"{str(path)!r} exists", expected="a name that is free", fix="choose another name, or overwrite with --force")
        check_can_write(target)
    except OSError as error:
        raise output_error(target, error) from None
    return target


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def write_whole(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file, complete or not at all, down to the disk.

    Args:
        path: in a folder that exists.
        data: all of it.
        overwrite: whether a file that is there gives way; without, one that has appeared since `check_file_target` does not.

    Raises:
        OutputError: its place is taken or cannot be written.
    """
    temporary = path.with_name(f".{path.name[:NAME_CHARACTERS]}.{secrets.token_hex(8)}.writing")
    try:
        write_new(temporary, data)
        give_name(temporary, path, overwrite=overwrite)
        sync_folder(path.parent)
    except OSError as error:
        raise output_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def as_json(content: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """JSON for people and programs, in UTF-8; lone surrogates, which UTF-8 does not have, as JSON escapes them."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def give_name(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Rename a finished file; without `overwrite` never over another one, even one that appears at this moment.

    Raises:
        OutputError: the name is taken.
    """
    if overwrite:
        temporary.replace(path)
        return
    taken = OutputError(f"{str(path)!r} has appeared meanwhile", expected="a name that is free", fix="choose another name, or use --force")
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise taken from None
    except OSError:  # a file system without hard links
        if path.exists():
            raise taken from None
        temporary.replace(path)
    else:
        temporary.unlink()


def reserve(path: Path, size: int, *, what: str) -> None:
    """Write a new file of zeros whose room on the disk is taken: writing into a map of a file that has none kills the process.

    Args:
        path: in a folder for temporary files.
        size: bytes, at least 1.
        what: that is to be kept there, in the plural, for the error.

    Raises:
        OutputError: there is no room.
    """
    try:
        with path.open("xb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            elif shutil.disk_usage(path.parent).free < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            else:
                file.truncate(size)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise output_error(path, error) from error
        path.unlink()
        needed, free = (f"{number / 1e6:,.0f} MB" for number in (size, shutil.disk_usage(path.parent).free))
        raise OutputError(
            f"{what} take {needed} for a while, and the disk of {path.parent} has {free} left",
            expected="room for them",
            fix=MORE_ROOM,
        ) from error


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
    return _lock(handle) is not False


def _lock(handle: int) -> bool | None:
    """Whether the lock is ours now; None where the system or the file system has no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def check_can_write(target: Path) -> None:
    """Try to make and remove a work folder for `target`, in the nearest folder above it that is there.

    Raises:
        OSError: it cannot be made; asking for the rights alone would miss read-only mounts, /proc, full disks and long names.
    """
    above = next(path for path in target.parents if path.exists())
    probe = above / _work_name(target)
    probe.mkdir(mode=0o700)
    with suppress(OSError):  # a save at the same place may have cleaned it up
        probe.rmdir()


def real_folder(folder: str | os.PathLike[str]) -> Path:
    """Where a folder to be written really is: a link to one stays a link when the folder is replaced.

    Raises:
        OutputError: it is no name of a folder.
    """
    try:
        return Path(os.path.realpath(folder))
    except ValueError:  # a NUL character
        raise OutputError(f"{one_line(folder)} is no name of a folder", expected="a place to save in", fix="correct it") from None


def check_outside_models(path: Path) -> None:
    """Refuse a place in a folder that was sealed when it was saved, as models and encoders are: with a file more it could not be read.

    Raises:
        OutputError: `path` is in one.
    """
    for folder in path.resolve().parents:
        try:
            with (folder / "manifest.json").open("rb") as file:
                manifest = json.loads(file.read(_LARGEST_MANIFEST))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(manifest, dict) and str(manifest.get("format")).startswith("bertcnn "):
            raise OutputError(
                f"{str(path)!r} is in {str(folder)!r}, which bertcnn has saved and nothing may be added to",
                expected="another place",
                fix="choose one outside that folder",
            )


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
            raise OutputError(f"{above} is a file", expected=f"a folder to save {target.name} in", fix="choose another place")
        check_can_write(target)
    except OSError as error:
        raise output_error(target, error) from None


def check_replaceable(target: Path, overwrite: bool, *, holds: str, expected: str, stranger: Callable[[Path], str | None]) -> None:
    """Only an empty folder, or with `overwrite` one that we made and to which nothing was added, may give way.

    Args:
        target: where a folder is to stand.
        overwrite: whether an older one of the same kind may be replaced.
        holds: what such a folder holds, as "a saved model".
        expected: what may be replaced, as "a model saved by bertcnn".
        stranger: says of a folder that is not empty what keeps it from being of this kind, as "is not a saved model"; None if nothing does.

    Raises:
        OutputError: it may not give way.
    """
    place = resting_place(target)
    if not place.exists():
        return
    if not place.is_dir():
        raise OutputError(f"{target} is a file", expected="a folder that does not exist yet", fix="choose another name")
    if not any(os.scandir(place)):
        return
    what = stranger(place)
    if what is not None:
        raise OutputError(f"{target} {what}", expected=f"a new folder, or {expected}", fix="choose another place; it is never overwritten")
    if not overwrite:
        raise OutputError(
            f"{target} holds {holds} already",
            expected="a folder that does not exist yet",
            fix="choose another name, or overwrite it with --force",
        )


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
        _discard(folder, target)
        if lock is not None:
            os.close(lock)


@contextmanager
def held_folder(folder: Path, *, does: str) -> Iterator[Path]:
    """The folder in which a long run keeps what it goes on from, while no other run is at work there.

    Args:
        folder: made if it is not there, and the folders above it; those left empty are gone afterwards.
        does: what the other run does there, for the error, as "keeps its checkpoints in".

    Raises:
        OutputError: another run is at work there, or it cannot be made.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()] or [folder]
    lock = None
    try:
        lock = _locked_folder(folder, does)
        yield folder
    finally:
        if lock is not None:
            os.close(lock)
        with suppress(OSError):  # it is not empty
            for path in made:
                path.rmdir()


def _locked_folder(folder: Path, does: str) -> int | None:
    """The folder, made and locked; another run that ends may remove it between the two steps, then comes another."""
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
            raise OutputError(
                f"another run {does} {folder} right now",
                expected="one run at a time",
                fix="wait for it, stop it, or choose another place",
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), folder.stat()):
                return lock
        os.close(lock)


def _work_name(target: Path) -> str:
    return f".{target.name}.saving-{secrets.token_hex(8)}"


def _locked_new_folder(target: Path) -> tuple[Path, int | None]:
    """A new work folder with its lock held; somebody cleaning up may catch it between the two steps, then comes another."""
    while True:
        folder = target.parent / _work_name(target)
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
        with suppress(OSError), _held(folder) as abandoned:  # it may be gone by now, or be another user's
            if abandoned:
                _discard(folder, target)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether the process that made a work folder is gone; its lock stays ours until the block ends, so no new owner can appear."""
    handle = None if os.name == "nt" else os.open(folder, os.O_RDONLY)
    try:
        lock = None if handle is None else _lock(handle)
        yield time.time() - folder.stat().st_mtime > _FORGOTTEN_AFTER if lock is None else lock
    finally:
        if handle is not None:
            os.close(handle)


def _discard(work: Path, target: Path) -> None:
    """Remove a work folder; what stood at `target` goes back there, or stays where `resting_place` finds it, but is never lost."""
    old = work / _OLD
    if old.is_dir() and _is_vacant(target):
        with suppress(OSError):
            old.rename(target)
    if not (old.is_dir() and _is_vacant(target)):
        shutil.rmtree(work, ignore_errors=True)


def _leftovers(target: Path) -> list[Path]:
    """The work folders beside `target`, in the order of their names."""
    found = []
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            name = _SAVING.fullmatch(entry.name)
            if name and name["target"] == target.name and entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
    return sorted(found)


def read_kept(path: Path) -> bytes | None:
    """What `keep` put there; None if there is nothing, or if it was changed since."""
    try:
        data = memoryview(path.read_bytes())
    except OSError:
        return None
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return bytes(content) if _digest(content) == digest else None


def keep(path: Path, content: bytes, most: int) -> None:
    """Put something into the cache that can be made again, behind its digest, and remove the oldest of its kind.

    Args:
        path: in a folder for things of this kind, which all have its extension.
        content: what to keep.
        most: how many files stay.

    Raises:
        OSError: the cache cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_bytes(_digest(content) + content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    for old in sorted(path.parent.glob(f"*{path.suffix}"), key=lambda file: file.stat().st_mtime, reverse=True)[most:]:
        old.unlink(missing_ok=True)


def _digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
