"""Single files that appear whole or not at all; bad places are refused before any work."""

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
MANIFEST_KEYS = {"format", "schema_version", "members", "bundle_id"}  # as manifest.py writes them
# of a file's name in that of its temporary one: with more, names near 255 bytes would be too long
NAME_CHARACTERS = 40
_NAME_BYTES, _PATH_BYTES = 255, 4095  # that Linux allows, for most file systems
_ROOM = 15  # bytes kept for an ending, at least
_LONGEST_WRITE = 1 << 26  # bytes; one write call takes at most 2 GiB on Linux


def output_error(path: Path, error: OSError) -> OutputError:
    """`error`, met while writing `path`, as an error the user can act on."""
    if error.errno in DISK_FULL:
        return OutputError(
            f"no space left to write {path}",
            expected="room on the disk",
            fix="free some space or choose another disk",
            passes=True,
        )
    if error.errno == errno.ENAMETOOLONG:
        given, expected = excess(path)
        return OutputError(given, expected=expected, fix="choose a shorter name")
    reason = (error.strerror or str(error)).lower()
    return OutputError(
        f"{path} cannot be written ({reason})",
        expected="a folder you may write to",
        fix="choose another place or ask for the right to write there",
    )


def unreadable(path: Path, error: OSError) -> tuple[str, str]:
    """`error`, met while looking at `path`, and what was expected, as words for an error."""
    return (
        excess(path)
        if error.errno == errno.ENAMETOOLONG
        else (f"{path} cannot be read ({error.strerror})", "one you may read")
    )


def excess(path: Path) -> tuple[str, str]:
    """What is too long about a path, and how long it may be, as words for an error."""
    # not Path.is_dir, which raises for such names
    parents = path.absolute().parents
    above = next((folder for folder in parents if os.path.isdir(folder)), Path("/"))  # noqa: PTH112
    try:
        most = os.pathconf(above, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):  # Windows; a file system that does not say
        most = _NAME_BYTES
    longest = max(path.parts, key=lambda part: len(os.fsencode(part)), default="")
    size = len(os.fsencode(longest))
    if size > most:
        return f"the name {one_line(longest)} is too long ({size:,} bytes)", f"at most {most} bytes"
    size = len(os.fsencode(path.absolute()))
    given = f"the path {one_line(path)} is too long ({size:,} bytes)"
    return given, f"at most {_PATH_BYTES:,} bytes, also with the longer name of a temporary file"


def open_regular(path: Path) -> BufferedReader:
    """A file that somebody else may have put there, open for reading.

    A pipe or a device in its place, which may never answer, is refused.

    Raises:
        OSError: it is no file, or cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device", str(path))
    return os.fdopen(handle, "rb")


def sha256_of(path: Path) -> str:
    """The sha256 of a regular file, in hexadecimal, as sha256sum prints it."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: Path) -> str:
    """The UTF-8 text of such a file, with its own line ends.

    Raises:
        OSError: it is no file, or cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    with io.TextIOWrapper(open_regular(path), encoding="utf-8", newline="") as file:
        return file.read()


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


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with "~" as the home folder; as it is where there is no such user, as in a shell."""
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
    """The place for a file to be written, refused before any work if it will not do.

    Args:
        path: where the file is to stand, in a folder that exists.
        overwrite: whether a file that is there may be replaced.
        others: files of the same command, which it must not be; None counts for nothing.
        option: what users name the place with.

    Raises:
        OutputError: it is one of `others`, a folder or in none, a pipe or a device, in a saved
            model, taken, or cannot be written.
    """
    target = expanded(path).absolute()
    try:
        place = Path(os.path.realpath(target))  # where a link leads to
        check_outside_models(target)
        if any(given is not None and _is_same_file(target, Path(given)) for given in others):
            raise OutputError(
                f"{str(path)!r} for {option} and for another file of this command",
                expected="different files",
                fix=f"choose another name for {option}",
            )
        if place.is_dir() or not place.parent.is_dir():
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
        check_can_write(place)
    except OSError as error:
        raise output_error(target, error) from None
    return target


def check_regular(path: Path) -> None:
    """Refuse a place that holds what no file can take the place of, such as /dev/stdout.

    Raises:
        OutputError: it is a pipe or a device.
    """
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
    """Write a file, complete or not at all, down to the disk.

    One that is there passes its rights on, a link stays one.

    Args:
        path: in a folder that exists.
        data: all of it.
        overwrite: whether a file that is there gives way; without, one that has appeared since
            `check_file_target` does not.

    Raises:
        OutputError: its place is taken or cannot be written.
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
    """JSON for people and programs, in UTF-8.

    Lone surrogates, which UTF-8 does not have, as JSON escapes them.
    """
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(
        "utf-8", "backslashreplace"
    )


def give_name(temporary: Path, path: Path, *, overwrite: bool) -> None:
    """Rename a finished file.

    Without `overwrite` it never replaces another file, even one that appears at this moment.

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
    """Write a new file of zeros whose room on the disk is taken.

    Writing into a map of a file that has none kills the process.

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
        needed, free = (
            f"{number / 1e6:,.0f} MB" for number in (size, shutil.disk_usage(path.parent).free)
        )
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
    """Take the lock of an open file or folder; False when somebody else has it.

    It falls with the process, also by kill -9.
    """
    return take_lock(handle) is not False


def take_lock(handle: int) -> bool | None:
    """Whether the lock is ours now; None where the system or the file system has no locks."""
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
    """Try to make and remove a work folder for `target`, in the nearest folder above that exists.

    Raises:
        OSError: it cannot be made; asking for the rights alone would miss read-only mounts, /proc,
            full disks and long names.
    """
    above = next(path for path in target.parents if path.exists())
    probe = above / temporary_name(target)
    probe.mkdir(mode=0o700)
    with suppress(OSError):  # a save at the same place may have cleaned it up
        probe.rmdir()


def check_outside_models(path: Path) -> None:
    """Refuse a place in a folder whose manifest lists its files, as a saved model's does.

    With one more file in it, that folder could not be saved again.

    Raises:
        OutputError: `path` is in one.
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
    """The place of a file that belongs to `path` and lies beside it: its name and `ending`.

    See `short_name`.

    Example:
        >>> companion(Path("scored.csv"), ".rejects.csv").name
        'scored.csv.rejects.csv'
    """
    # "." and ".." have a name only there
    path = path if path.name not in ("", "..") else Path(os.path.realpath(path))
    return path.with_name(short_name(path.name, len(ending)) + ending)


def short_name(name: str, room: int) -> str:
    """A file's name, to which `room` bytes can be added.

    Of one too long for that, its start and a digest.
    """
    whole = os.fsencode(name)
    if len(whole) + max(room, _ROOM) <= _NAME_BYTES:
        return name
    return f"{name[:NAME_CHARACTERS]}-{blake2b(whole, digest_size=8).hexdigest()}"


def temporary_name(path: Path) -> str:
    """The name of a file or folder in which what will stand at `path` is made, beside it.

    No two are the same.
    """
    return f".{temporary_stem(path)}.{secrets.token_hex(8)}.tmp"


def temporary_stem(path: Path) -> str:
    """The part of `temporary_name` that all temporary names of this path have in common."""
    return short_name(path.name, len("..") + 16 + len(".tmp"))
