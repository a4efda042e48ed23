"""The table formats, recognised by a file's extension and its first bytes."""

from __future__ import annotations

import difflib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertcnn.errors import TableError, one_line
from bertcnn.storage import excess

Format = Literal["csv", "tsv", "jsonl", "parquet", "xlsx"]

KNOWN_EXTENSIONS = ".csv, .tsv, .jsonl, .ndjson, .json (each also with .gz), .parquet or .xlsx"
OUTPUT_EXTENSIONS = ".csv, .tsv, .jsonl, .ndjson (each also with .gz), .parquet or .xlsx"
DELIMITED: frozenset[Format | None] = frozenset(("csv", "tsv"))
_LOOKED_AT = 4096  # bytes

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}
_OLD_OFFICE = "an old Excel .xls or Word .doc file"
_ENCRYPTED_OFFICE = "a workbook with a password"
_ZIP = "a ZIP archive, as Excel .xlsx and Word .docx files are"
_SAVE_AGAIN = "open it in Excel or LibreOffice and save it as .xlsx or .csv"
_WAYS = {
    "text, such as CSV": "name the file .csv",
    "JSON": "name the file .json or .jsonl",
    "an Excel workbook": "name the file .xlsx",
    "a Parquet file": "name the file .parquet",
    "a gzip file": "add .gz to the name that it had before",
    _ENCRYPTED_OFFICE: "save it without the password",
    _OLD_OFFICE: _SAVE_AGAIN,
}
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", _ZIP),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLD_OFFICE),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x7fELF", "a program"),
    (b"{\\rtf", "an RTF document"),
)


@dataclass(frozen=True)
class FileKind:
    """The table format of an extension, and whether the file is gzipped as a whole."""

    format: Format
    gzipped: bool


def kind_of(path: Path) -> FileKind | None:
    """The format of the extension of `path`, or None for an unknown one.

    Example:
        >>> kind_of(Path("inbox.CSV.gz"))
        FileKind(format='csv', gzipped=True)
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    gzipped = bool(suffixes) and suffixes[-1] == ".gz"
    if gzipped:
        suffixes.pop()
    format_name = _FORMATS.get(suffixes[-1]) if suffixes else None
    if format_name is None or (gzipped and format_name in ("parquet", "xlsx")):
        return None
    return FileKind(format_name, gzipped)


def output_kind(path: Path) -> FileKind | None:
    """The format to write for an extension; not .json, where programs expect a single value."""
    return None if is_json(path) else kind_of(path)


def is_json(path: Path) -> bool:
    """Whether the extension stands for one JSON value, not for JSON Lines."""
    return path.name.lower().removesuffix(".gz").endswith(".json")


def seems_to_be(head: bytes) -> str | None:
    """A description of the binary format of a file's first bytes, if they show one."""
    return next((words for signature, words in _SIGNATURES if head.startswith(signature)), None)


def check_input(path: Path) -> FileKind:
    """The format of an existing file; its first bytes must agree with its extension.

    Raises:
        TableError: the file is missing or a folder, its extension is unknown, or its content has
            another format.
    """
    head = read_head(path, "an existing table")
    kind = kind_of(path)
    if kind is None:
        seems, fix = _content(path, head) if head else ("an empty file", "export the table again")
        raise TableError(
            f"{str(path)!r} has the extension {''.join(path.suffixes[-2:]) or '(none)'}"
            f"{f' and seems to be {seems}' if seems else ''}",
            expected=KNOWN_EXTENSIONS,
            fix=fix,
        )
    if head:  # an empty file has no rows in any format
        _check_head(path, kind, head)
    return kind


def read_head(path: Path, expected: str) -> bytes:
    """The first bytes of a file.

    Raises:
        TableError: it is missing, a folder, a pipe or a device, or cannot be read.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        raise TableError(
            f"there is no file {str(path)!r}",
            expected=expected,
            fix="check the path" + _similar(path),
        ) from None
    except OSError as error:
        raise _closed(path, error) from None
    if stat.S_ISDIR(mode):
        raise TableError(f"{str(path)!r} is a folder", expected="one file", fix="name a file in it")
    if not stat.S_ISREG(mode):
        raise TableError(
            f"{str(path)!r} is a pipe or a device",
            expected="a file, which is read more than once",
            fix="save the table to a file first",
        )
    try:
        with path.open("rb") as stream:
            return stream.read(_LOOKED_AT)
    except OSError as error:
        raise _closed(path, error) from None


def unreadable(path: Path, wanted: str, error: Exception) -> TableError:
    """The error for a file that the library for its format cannot read."""
    return TableError(
        f"{str(path)!r} cannot be read as {wanted} ({one_line(error, 120)})",
        expected=f"a complete {wanted} file",
        fix="export it again",
    )


def _closed(path: Path, error: OSError) -> TableError:
    if error.errno == errno.ENAMETOOLONG:
        problem, expected = excess(path)
        return TableError(
            problem, expected=expected, fix="check the path, or give the file a shorter name"
        )
    return TableError(
        f"{str(path)!r} cannot be read ({error.strerror})",
        expected="a readable file",
        fix="check its name and permissions",
    )


def _check_head(path: Path, kind: FileKind, head: bytes) -> None:
    seems = seems_to_be(head)
    promised = {
        "parquet": "a Parquet file",
        "xlsx": _ZIP,
    }
    expected = "a gzip file" if kind.gzipped else promised.get(kind.format)
    if seems == expected:
        return
    seems, fix = _content(path, head)
    content = f"it seems to be {seems}" if seems else "its content is of an unknown kind"
    raise TableError(
        f"{str(path)!r} does not fit its extension: {content}",
        expected=(
            f"{expected or 'text'} for the extension"
            f" {''.join(path.suffixes[-2:] if kind.gzipped else path.suffixes[-1:])}"
        ),
        fix=fix,
    )


def _content(path: Path, head: bytes) -> tuple[str | None, str]:
    """A description of a file's real content, and what to do with it."""
    # imported here to avoid an import cycle
    from bertcnn.tables.misnamed import describe_archive, describe_text, is_encrypted

    seems = seems_to_be(head)
    if seems == _ZIP:
        seems = describe_archive(path) or _ZIP
    elif seems == _OLD_OFFICE and is_encrypted(path):
        seems = _ENCRYPTED_OFFICE
    seems = seems or describe_text(path)
    default_fix = _SAVE_AGAIN if ".xls" in path.suffix.lower() else "export the table as .csv"
    return seems, _WAYS.get(seems or "", default_fix)


def _similar(path: Path) -> str:
    try:
        names = (
            [entry.name for entry in path.parent.iterdir() if entry.is_file()]
            if path.parent.is_dir()
            else []
        )
    except (OSError, ValueError):
        return ""
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def tables_in(
    folder: Path, *, levels: int | None = None, without: Path | None = None
) -> Iterator[Path]:
    """The tables in a folder, sorted by name, then the tables in its subfolders.

    Hidden files and folders, links to folders, unreadable folders, and the resolved path `without`
    are skipped. By default all `levels` of subfolders are searched.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    shown = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    yield from (path for path in shown if path.is_file() and kind_of(path))
    if levels == 0:
        return
    for path in shown:
        if path.is_dir() and not path.is_symlink() and path.resolve() != without:
            deeper = None if levels is None else levels - 1
            yield from tables_in(path, levels=deeper, without=without)
