"""Describes the real content of a file with the extension of an Excel, Parquet or gzip file."""

from __future__ import annotations

import codecs
import re
import zipfile
from pathlib import Path

from bertcnn.tables.not_tables import recognized

_LOOKED_AT = 64 * 1024  # bytes
# the first record of Excel 2 to 95
_OLD_EXCEL = re.compile(rb"\x09[\x00\x02\x04\x08][\x04-\x10]\x00")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ZIP_PARTS = {
    "word/": "a Word document",
    "ppt/": "a PowerPoint presentation",
    "content.xml": "an OpenDocument file, such as .ods",
    "xl/workbook.xml": "an Excel workbook",
    "xl/workbook.bin": "a binary Excel workbook, .xlsb",
    "Index/": "an Apple Numbers or Pages file",
}


def describe_text(path: Path) -> str | None:
    """A description of the text in a file, or None if it is not text.

    Example:
        >>> import tempfile
        >>> page = Path(tempfile.mkdtemp()) / "export.xlsx"
        >>> _ = page.write_text("<html><table><tr><td>text</td></tr></table></html>")
        >>> describe_text(page)
        'a web page (HTML)'
    """
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT)
    if _OLD_EXCEL.match(head):
        return "a very old Excel file"
    is_wide = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in head and not is_wide:
        return None
    text = head.decode("utf-16" if is_wide else "utf-8", "replace").lstrip("\ufeff \t\r\n")
    if problem := recognized(text):
        return problem[0]
    if text.startswith(("{", "[")):
        return "JSON"
    return "text, such as CSV" if text else "a file of blanks"


def is_encrypted(path: Path) -> bool:
    """Whether an Office file has a password; such files use the container of the old formats."""
    return _holds(path, _ENCRYPTED)


def describe_archive(path: Path) -> str | None:
    """A description of a ZIP archive, if it is a known kind."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return None
    return next(
        (
            words
            for part, words in _ZIP_PARTS.items()
            if any(name.startswith(part) for name in names)
        ),
        None,
    )


def _holds(path: Path, pattern: bytes) -> bool:
    with path.open("rb") as file:
        rest = b""
        while block := file.read(1024**2):
            if pattern in rest + block:
                return True
            rest = block[-len(pattern) :]
    return False
