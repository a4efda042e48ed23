"""A folder with a manifest of the length and hash of every file.

Changes of these files are detected; other files in the folder are ignored.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

from pydantic import Field

from bertcnn.errors import BundleError, SettingsError, one_line
from bertcnn.settings import Count, Settings, Whole
from bertcnn.storage.files import LARGEST_MANIFEST, excess
from bertcnn.storage.folders import check_replaceable, is_debris, resting_place

MANIFEST: Final = "manifest.json"

_TRIES = 5  # reads, if the folder is being overwritten
_LFS = b"version https://git-lfs.github.com/spec/"  # start of a pointer file
_POINTER = "a pointer of Git LFS in place of the file, which git lfs pull fetches"
_SAVE_AGAIN = "save the model again, or copy the whole folder again from where it came"

_MOST_VALUE_BYTES = 192 << 20  # memory for the values of a JSON file
_VALUE_BYTES = {
    b",": 40,
    b"[": 80,
    b"{": 80,
    b":": 200,
}  # of memory, for each of these signs outside strings
_STRING_BYTES = 30  # per quotation mark
# numbers that Python may read as infinity
_MAY_BE_INFINITE = re.compile(rb"[eE]\+?\d{3}|\d{300}")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_DEEPEST = 32
_OURS = "bertcnn "  # prefix of every format name
_LARGEST_MEMBER = 1 << 33  # bytes, in a folder of any format
_MEMBER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")

SettingsType = TypeVar("SettingsType", bound=Settings)
Result = TypeVar("Result")
CheckBulk = Callable[[Mapping[str, bytes], int], None]


@dataclass(frozen=True)
class Member:
    """A file of the folder, and the maximum bytes to read."""

    name: str
    largest: int


@dataclass(frozen=True)
class FolderFormat:
    """A kind of folder with a manifest; `bulk` is the largest member, which is read last."""

    name: str
    schema_version: int
    members: tuple[Member, ...]
    bulk: str | None = None

    @property
    def largest(self) -> dict[str, int]:
        """The maximum bytes of each member."""
        return {member.name: member.largest for member in self.members}


class FileRecord(Settings):
    """The hash and length of a file when it was saved."""

    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    bytes: Whole


class Manifest(Settings):
    """`manifest.json`; `bundle_id` is the sha256 of its canonical form without that key."""

    format: str
    schema_version: Count
    members: dict[str, FileRecord]
    bundle_id: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


# === JSON ===


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """Canonical JSON: sorted keys, an indent of two spaces, UTF-8, a final newline.

    Raises ValueError for a number that is not finite or a string that is not valid Unicode.
    """
    return (
        json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    ).encode("utf-8")


def parse_json(name: str, data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parses the JSON of a member.

    Duplicate keys, non-finite numbers, lone surrogates, deep nesting and huge values are rejected.
    """
    try:
        _check_extent(data)
        # Python's own parser is twice as fast
        number = _finite if _MAY_BE_INFINITE.search(data) else None
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_constant=_finite,
            parse_float=number,
        )
        if b"\\u" in data:  # lone surrogates can only come from escapes
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        refuse(f"{name} is not usable JSON ({error})", "the JSON that was saved")
    return value


def _check_extent(data: bytes) -> None:
    """Raises ValueError if parsing would take too much memory or depth; ignores invalid JSON."""
    if data.count(b'"') * _STRING_BYTES > _MOST_VALUE_BYTES:
        raise ValueError("more strings than a model has")
    # text outside strings
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    if sum(outside.count(sign) * size for sign, size in _VALUE_BYTES.items()) > _MOST_VALUE_BYTES:
        raise ValueError("more values than a model has")
    brackets = outside.translate(None, _NO_BRACKETS)
    for _ in range(_DEEPEST):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    if brackets.strip(b"]}"):  # the parser reports closing brackets without an opening one
        raise ValueError(f"more than {_DEEPEST} values in each other")


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"the number {number} is not finite")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} occurs twice")
        result[key] = value
    return result


def refuse(given: str, expected: str) -> NoReturn:
    """Raises a BundleError: the folder is not as it was saved."""
    raise BundleError(given, expected=expected, fix=_SAVE_AGAIN) from None


def object_of(name: str, value: Any, version: int) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """A member's JSON object; rejects other schema versions."""
    if not isinstance(value, dict):
        refuse(f"{name} holds a {type(value).__name__}", "a JSON object")
    saved_version = value.get("schema_version", version)
    if isinstance(saved_version, int) and saved_version != version:
        raise BundleError(
            f"{name} has schema version {saved_version}: another version of bertcnn wrote it",
            expected=f"schema version {version}",
            fix="use the version of bertcnn that wrote it, or train again with this one",
        )
    return value


def settings_of(name: str, schema: type[SettingsType], value: Any, version: int) -> SettingsType:  # noqa: ANN401 - any JSON value
    """Validates `value` against a closed schema."""
    try:
        return schema.of_json(object_of(name, value, version))
    except SettingsError as error:
        refuse(f"{name}: {error.given}", error.expected)


# === The manifest ===


def write_manifest(form: FolderFormat, members: Mapping[str, bytes]) -> tuple[str, bytes]:
    """The id and the manifest of a folder with these members."""
    records = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    manifest: dict[str, Any] = {
        "format": form.name,
        "schema_version": form.schema_version,
        "members": records,
    }
    manifest["bundle_id"] = hashlib.sha256(canonical_json(manifest)).hexdigest()
    return manifest["bundle_id"], canonical_json(manifest)


def claims_to_be(form: FolderFormat, place: Path) -> bool:
    """Whether a folder's manifest names this format; the rest may be damaged."""
    try:
        manifest = json.loads(_read_file(place, MANIFEST, LARGEST_MANIFEST))
    except (BundleError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == form.name


def check_saved_target(
    form: FolderFormat, kind: str, target: Path, overwrite: bool, *, more: Collection[str] = ()
) -> None:
    """Rejects a folder that a model of this format must not replace; see `check_replaceable`.

    `kind` is the name of such a model, as "translator". With `overwrite`, older models may be
    replaced, damaged or not. `more` are names in such a folder that are not members.

    Raises:
        OutputError: it must not be replaced.
    """

    def stranger(folder: Path) -> str | None:
        names = {entry.name for entry in os.scandir(folder) if not is_debris(entry.name)}
        foreign = sorted(names - {*form.largest, MANIFEST, *more})
        if foreign:
            return f"holds {one_line(foreign[0])}, which is no part of a {kind}"
        return None if claims_to_be(form, folder) else f"is not a saved {kind}"

    check_replaceable(
        target,
        overwrite,
        holds=f"a saved {kind}",
        expected=f"a {kind} saved by bertcnn",
        stranger=stranger,
    )


def read_members(
    target: Path,
    form: FolderFormat,
    wanted: Collection[str] | None = None,
    check: CheckBulk | None = None,
) -> tuple[str, dict[str, bytes]]:
    """The id of the folder and the verified bytes of its `wanted` members, by default all.

    For other members only the length is checked. `check` is called with the members read so far and
    the length of the bulk before the bulk is read; it may raise.

    Raises:
        BundleError: not such a folder, of another schema version, or changed since it was saved.
    """
    return _retried(target, lambda folder: _read_members(target, folder, form, wanted, check))


def _retried(target: Path, read: Callable[[Path], Result]) -> Result:
    """Reads again if the folder was replaced during the read."""
    try:
        real = Path(os.path.realpath(target))
    except ValueError:  # a NUL character
        raise BundleError(
            f"{one_line(target)} is not a valid folder path",
            expected="a folder saved by bertcnn",
            fix="correct it",
        ) from None
    for _ in range(_TRIES):
        folder = resting_place(real)
        identity = _identity(folder)
        try:
            return read(folder)
        except BundleError as error:
            if identity == _identity(resting_place(real)):
                raise
            latest = error
    raise latest


def _identity(folder: Path) -> tuple[int, int, int] | None:
    """Distinguishes a folder from its successor by time too: inode numbers are reused."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _read_members(
    target: Path,
    folder: Path,
    form: FolderFormat,
    selected: Collection[str] | None,
    check: CheckBulk | None,
) -> tuple[str, dict[str, bytes]]:
    names = _names(target, folder)
    manifest = _parse_manifest(form, _read_file(folder, MANIFEST, LARGEST_MANIFEST))
    missing = sorted(set(manifest.members) - names)
    if missing:
        _changed(missing[0], "it is missing")
    members: dict[str, bytes] = {}
    for name, record in sorted(manifest.members.items(), key=lambda item: item[0] == form.bulk):
        if check is not None and name == form.bulk:
            check(members, record.bytes)
        if selected is not None and name not in selected:
            _check_length(folder, name, record.bytes)
        else:
            members[name] = _read_file(folder, name, form.largest[name], record.bytes)
            if hashlib.sha256(members[name]).hexdigest() != record.sha256:
                _changed(name, "its content is not what was saved")
    return manifest.bundle_id, members


def _names(target: Path, folder: Path) -> set[str]:
    expected = "a folder saved by bertcnn"
    fix = "give the folder that `bertcnn train --out` or `save` wrote"
    try:
        if not folder.exists():
            raise BundleError(f"{target} does not exist", expected=expected, fix=fix)
        if not folder.is_dir():
            raise BundleError(f"{target} is a file", expected=expected, fix=fix)
        names = {entry.name for entry in os.scandir(folder)}
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            problem, expected = excess(target)
            raise BundleError(problem, expected=expected, fix=fix) from None
        raise BundleError(
            f"{target} cannot be read ({error.strerror})",
            expected=expected,
            fix="ask for the right to read it",
        ) from None
    if not names:
        raise BundleError(f"{target} is an empty folder", expected=expected, fix=fix)
    if MANIFEST not in names:
        some = ", ".join(sorted(names)[:3])
        raise BundleError(
            f"{target} is not a model: it has no {MANIFEST} (it holds {one_line(some)})",
            expected=expected,
            fix=fix,
        )
    return names


def _changed(name: str, what: str) -> NoReturn:
    refuse(
        f"{name} was changed after the model was saved: {what}",
        "the files exactly as they were saved",
    )


def _check_length(folder: Path, name: str, expected: int) -> None:
    """Checks the length of a member that is not read, to detect an incomplete copy."""
    size = _status(folder, name).st_size
    if size != expected:
        _changed(name, f"it has {size:,} bytes instead of {expected:,}{_pointer(folder, name)}")


def _status(folder: Path, name: str) -> os.stat_result:
    """The file status of a member, following links; only regular files are accepted."""
    try:
        status = (folder / name).stat()
    except OSError as error:
        if (folder / name).is_symlink():
            refuse(
                f"{name} is a link that leads to no file ({error.strerror})",
                "the file itself, or a link to it",
            )
        refuse(f"{name} cannot be read ({error.strerror})", "a file you may read")
    if not stat.S_ISREG(status.st_mode):
        _changed(name, "it is not a file")
    return status


def _pointer(folder: Path, name: str) -> str:
    """Explains a wrong length if the file is a pointer of Git LFS."""
    with suppress(OSError), (folder / name).open("rb") as file:
        if file.read(len(_LFS)) == _LFS:
            return f": {_POINTER}"
    return ""


def _read_file(folder: Path, name: str, largest: int, expected: int | None = None) -> bytes:
    """Reads a member through one open, at most `largest` bytes."""
    _status(folder, name)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(folder / name, flags)
    except OSError as error:
        refuse(f"{name} cannot be read ({error.strerror})", "a file you may read")
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            _changed(name, "it is not a file")
        if expected is not None and status.st_size != expected:
            _changed(
                name,
                f"it has {status.st_size:,} bytes instead of {expected:,}{_pointer(folder, name)}",
            )
        if status.st_size > largest:
            refuse(f"{name} has {status.st_size:,} bytes", f"at most {largest:,}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(status.st_size + 1)
    except OSError as error:
        refuse(f"{name} cannot be read ({error.strerror})", "a file you may read")
    finally:
        os.close(handle)
    if len(data) != status.st_size:
        _changed(name, "its size changed while it was being read")
    if data.startswith(_LFS):
        _changed(name, f"it is {_POINTER}")
    return data


def _parse_manifest(form: FolderFormat, data: bytes) -> Manifest:
    value = parse_json(MANIFEST, data)
    if not isinstance(value, dict) or value.get("format") != form.name:
        kind = value.get("format") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind.startswith(_OURS):
            raise BundleError(
                f"the {MANIFEST} of a folder that holds a {one_line(kind)}",
                expected=f"a {form.name}",
                fix="give the folder of the right kind",
            )
        refuse(f"{MANIFEST} is not that of a bertcnn model", f"the format {form.name!r}")
    manifest = _checked_manifest(data, value, form.schema_version)
    odd = sorted(manifest.members.keys() ^ form.largest.keys())
    if odd:
        refuse(
            f"{MANIFEST} lists other members than a model has ({one_line(odd[0])})",
            ", ".join(sorted(form.largest)),
        )
    return manifest


def parse_manifest(data: bytes) -> Manifest:
    """The manifest of a folder of any format, for example to copy it unchanged.

    Raises:
        BundleError: it is not our manifest, does not match its id, or lists members that are not
            files directly in the folder.
    """
    value = parse_json(MANIFEST, data)
    form = value.get("format") if isinstance(value, dict) else None
    if not isinstance(form, str) or not form.startswith(_OURS):
        refuse(f"{MANIFEST} is not that of a bertcnn model", f"a format that begins {_OURS!r}")
    manifest = _checked_manifest(data, value, None)
    odd = [name for name in manifest.members if not _MEMBER_NAME.fullmatch(name)]
    if odd or MANIFEST in manifest.members:
        refuse(
            f"{MANIFEST} lists {one_line((*odd, MANIFEST)[0])} as a member",
            "the plain names of other files",
        )
    largest = max((record.bytes for record in manifest.members.values()), default=0)
    if largest > _LARGEST_MEMBER:
        refuse(f"{MANIFEST} lists a file of {largest:,} bytes", f"at most {_LARGEST_MEMBER:,}")
    return manifest


def _checked_manifest(data: bytes, value: dict[str, Any], version: int | None) -> Manifest:
    """The manifest, if it is in canonical form and matches its id."""
    saved_version = value.get("schema_version") if version is None else version
    manifest = settings_of(
        MANIFEST, Manifest, value, saved_version if isinstance(saved_version, int) else 1
    )
    rest = {key: part for key, part in value.items() if key != "bundle_id"}
    if (
        data != canonical_json(value)
        or hashlib.sha256(canonical_json(rest)).hexdigest() != manifest.bundle_id
    ):
        _changed(MANIFEST, "it no longer agrees with the id it carries")
    return manifest
