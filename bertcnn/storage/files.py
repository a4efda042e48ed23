"""Atomic writes of single files, and early checks of output paths."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import Any

from bertcnn.errors import OutputError, one_line

MORE_ROOM = "free some space, or name another folder for temporary files in the variable TMPDIR"
DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
LARGEST_MANIFEST = 1 << 16  # bytes
MANIFEST_KEYS = {"format", "schema_version", "members", "bundle_id"}
# a temporary name keeps this many characters of a file's name, so that it fits in 255 bytes
NAME_CHARACTERS = 40
_NAME_BYTES, _PATH_BYTES = 255, 4095  # limits of Linux for most file systems
_ROOM = 15  # minimum bytes left for a suffix
_LONGEST_WRITE = 1 << 26  # bytes; one write call takes at most 2 GiB on Linux


def output_error(path: Path, error: OSError) -> OutputError:
    """Converts an OSError while writing `path` into an error that users can act on."""
    if error.errno in DISK_FULL:
        return OutputError(
            f"no space left to write {path}",
            expected="room on the disk",
            fix="free some space or choose another disk",
            passes=True,
        )
    if error.errno == errno.ENAMETOOLONG:
        problem, expected = excess(path)
        return OutputError(problem, expected=expected, fix="choose a shorter name")
    reason = (error.strerror or str(error)).lower()
    return OutputError(
        f"{path} cannot be written ({reason})",
        expected="a folder you may write to",
        fix="choose another place or ask for the right to write there",
    )


def unreadable(path: Path, error: OSError) -> tuple[str, str]:
    """Describes an OSError while reading `path`: what was given, and what was expected."""
    return (
        excess(path)
        if error.errno == errno.ENAMETOOLONG
        else (f"{path} cannot be read ({error.strerror})", "one you may read")
    )


def excess(path: Path) -> tuple[str, str]:
    """Describes which part of a path is too long, and the limit."""
    # Path.is_dir would raise for such names
    parents = path.absolute().parents
    above = next((folder for folder in parents if os.path.isdir(folder)), Path("/"))  # noqa: PTH112
    try:
        most = os.pathconf(above, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):  # Windows, or a file system without this value
        most = _NAME_BYTES
    longest = max(path.parts, key=lambda part: len(os.fsencode(part)), default="")
    size = len(os.fsencode(longest))
    if size > most:
        return f"the name {one_line(longest)} is too long ({size:,} bytes)", f"at most {most} bytes"
    size = len(os.fsencode(path.absolute()))
    problem = f"the path {one_line(path)} is too long ({size:,} bytes)"
    return problem, f"at most {_PATH_BYTES:,} bytes, also with the longer name of a temporary file"


def open_regular(path: Path) -> BufferedReader:
    """Opens a file that another user may have created.

    Raises:
        OSError: it cannot be read, or is a pipe or device, which may block forever.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device", str(path))
    return os.fdopen(handle, "rb")


def sha256_of(path: Path) -> str:
    """The sha256 of a regular file, in hexadecimal like sha256sum."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: Path) -> str:
    """The UTF-8 text of a regular file, with its own line ends.

    Raises:
        OSError: it is not a regular file, or cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    with io.TextIOWrapper(open_regular(path), encoding="utf-8", newline="") as file:
        return file.read()


def write_new(path: Path, data: bytes | memoryview) -> None:
    """Writes a file that does not exist yet, and syncs it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while len(rest):
            rest = rest[os.write(handle, rest[:_LONGEST_WRITE]) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def expanded(path: str | os.PathLike[str]) -> Path:
    """Expands "~"; unchanged if there is no such user, as in a shell."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def check_file_target(
    path: str | os.PathLike[str],
    overwrite: bool,
    *,
    others: Iterable[str | os.PathLike[str] | None] = (),
    option: str = "--out",
) -> Path:
    """Checks, before any work, that a file can be written to `path`; returns its absolute path.

    Args:
        path: the output file, in an existing folder.
        overwrite: whether an existing file may be replaced.
        others: other files of the same command, which must differ from `path`; None is ignored.
        option: the name of the option, for the error.

    Raises:
        OutputError: the path is one of `others`, a folder, not in a folder, a pipe or a device, in
            a saved model, taken, or cannot be written.
    """
    target = expanded(path).absolute()
    try:
        real = Path(os.path.realpath(target))  # the target of a link
        check_outside_models(target)
        if any(other is not None and _is_same_file(target, Path(other)) for other in others):
            raise OutputError(
                f"{str(path)!r} for {option} and for another file of this command",
                expected="different files",
                fix=f"choose another name for {option}",
            )
        if real.is_dir() or not real.parent.is_dir():
            raise OutputError(
                f"{str(path)!r} is a folder, or in none",
                expected="the name of a file",
                fix="name a file in an existing folder",
            )
        check_regular(target)
        if target.exists() and not overwrite:
            raise OutputError(
                f"{str(path)!r} exists",
                expected="a name that is free",
                fix="choose another name, or overwrite with --force",
            )
        check_can_write(real)
    except OSError as error:
        raise output_error(target, error) from None
    return target


def check_regular(path: Path) -> None:
    """Raises OutputError for a path that a file cannot replace, such as /dev/stdout."""
    if path.exists() and not path.is_file():
        raise OutputError(
            f"the output {str(path)!r} is a pipe or a device",
            expected="the name of a file",
            fix="name a file",
        )


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (
        one.exists() and other.exists() and one.samefile(other)
    )


def write_whole(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Writes a file atomically and syncs it.

    An existing file keeps its permissions; a link stays a link. Without `overwrite`, a file that
    has appeared since `check_file_target` is also kept.

    Raises:
        OutputError: the path is taken or cannot be written.
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(temporary_name(path))
    try:
        write_new(temporary, data)
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        give_name(temporary, path, overwrite=overwrite)
        sync_folder(path.parent)
    except OSError as error:
        raise output_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def as_json(content: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Indented JSON in UTF-8, with lone surrogates as JSON escapes."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def give_name(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Renames a finished file; without `overwrite` it never replaces a file, not even in a race.

    Raises:
        OutputError: the name is taken.
    """
    if overwrite:
        temporary.replace(path)
        return
    taken = OutputError(
        f"{str(path)!r} has appeared meanwhile",
        expected="a name that is free",
        fix="choose another name, or use --force",
    )
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
    """Writes a file of zeros with its disk space allocated; `what` names it in the error.

    Without allocated space, writing to a memory map of the file could kill the process.

    Raises:
        OutputError: there is not enough disk space.
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
        needed, free = (
            f"{number / 1e6:,.0f} MB" for number in (size, shutil.disk_usage(path.parent).free)
        )
        raise OutputError(
            f"{what} take {needed} for a while, and the disk of {path.parent} has {free} left",
            expected="room for them",
            fix=MORE_ROOM,
        ) from error


def sync_folder(folder: Path) -> None:
    """Syncs a folder's directory entries to disk; not on Windows."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Locks an open file or folder until the process ends; False if another has the lock."""
    return take_lock(handle) is not False


def take_lock(handle: int) -> bool | None:
    """Like `try_lock`, but None if the system or the file system has no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def check_can_write(target: Path) -> None:
    """Creates and removes a work folder in the nearest existing folder above `target`.

    Permissions alone do not show read-only mounts, /proc, full disks and long names.

    Raises:
        OSError: it cannot be created.
    """
    above = next(path for path in target.parents if path.exists())
    probe = above / temporary_name(target)
    probe.mkdir(mode=0o700)
    with suppress(OSError):  # a save to the same path may have removed it
        probe.rmdir()


def check_outside_models(path: Path) -> None:
    """Rejects a path in a saved folder with a manifest, such as a model.

    With an extra file, that folder could not be overwritten by another save.

    Raises:
        OutputError: `path` is in such a folder.
    """
    for folder in path.resolve().parents:
        try:
            with open_regular(folder / "manifest.json") as file:
                manifest = json.loads(file.read(LARGEST_MANIFEST))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(manifest, dict) and manifest.keys() >= MANIFEST_KEYS:
            raise OutputError(
                f"{str(path)!r} is in {str(folder)!r}, which bertcnn has saved and nothing may be"
                " added to",
                expected="another place",
                fix="choose one outside that folder",
            )


def companion(path: Path, ending: str) -> Path:
    """The path of a file next to `path`: its `short_name` and `ending`.

    Example:
        >>> companion(Path("scored.csv"), ".rejects.csv").name
        'scored.csv.rejects.csv'
    """
    # only the real paths of "." and ".." have a name
    path = path if path.name not in ("", "..") else Path(os.path.realpath(path))
    return path.with_name(short_name(path.name, len(ending)) + ending)


def short_name(name: str, room: int) -> str:
    """A file's name with room for `room` more bytes; a long name is cut and gets a digest."""
    whole = os.fsencode(name)
    if len(whole) + max(room, _ROOM) <= _NAME_BYTES:
        return name
    return f"{name[:NAME_CHARACTERS]}-{blake2b(whole, digest_size=8).hexdigest()}"


def temporary_name(path: Path) -> str:
    """A unique name for a temporary file or folder next to `path`."""
    return f".{temporary_stem(path)}.{secrets.token_hex(8)}.tmp"


def temporary_stem(path: Path) -> str:
    """The common part of all temporary names of a path."""
    return short_name(path.name, len("..") + 16 + len(".tmp"))
