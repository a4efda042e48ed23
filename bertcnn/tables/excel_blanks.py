"""Reasons for blank cells of an Excel sheet: formulas without a saved value, and merged cells."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from bertcnn.errors import one_line
from bertcnn.wording import count

_BLOCK = 1024**2
_SMALL_FILE = (
    4 * 1024**2
    # bytes; a larger file is searched for formulas only if a whole column is blank
)
_NAMED = 3  # columns in a remark
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s[^>]*?\w:id\s*=\s*[\"']([^\"']+)")
_RELATIONSHIP = re.compile(rb"<(?:\w+:)?Relationship\s[^>]*>")
_FORMULA_ONLY = re.compile(
    rb"<(?:\w+:)?c\s(?:[^>]*?\s)?r\s*=\s*[\"']([A-Za-z]{1,3})\d+[\"'][^>]*+>\s*"
    rb"<(?:\w+:)?f(?:\s[^>]*+)?(?:/>|>[^<]*+</(?:\w+:)?f\s*>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>\s*|<(?:\w+:)?v\s*>\s*</(?:\w+:)?v\s*>\s*)?</(?:\w+:)?c\s*>"
)

Ranges = Iterable[tuple[tuple[int, int], tuple[int, int]]]


def blanks_remark(
    path: Path, sheet: int, columns: Sequence[str], blank: Sequence[int], rows: int, merged: Ranges
) -> str:
    """A remark about cells that are blank for one of these reasons, and the remedy, or "".

    `blank` counts blank cells by column; `merged` has first and last cells as (row, column) from 0.
    """
    remarks = []
    if any(blank) and (rows in blank or path.stat().st_size < _SMALL_FILE):
        formulas = _formulas_without_values(path, sheet)
        cells = {
            column: min(formulas[index], blank[index])
            for index, column in enumerate(columns)
            if formulas[index] and blank[index]
        }
        if cells:
            remarks.append(
                f"{_named(cells)} of {str(path)!r} hold formulas without a saved value and are read"
                " as blank: open the file in Excel or LibreOffice and save it again"
            )
    covered = Counter[int]()
    for (top, left), (bottom, right) in merged:
        for index in range(left, min(right + 1, len(columns))):
            covered[index] += bottom - top + (index > left)
    cells = {
        column: min(covered[index], blank[index])
        for index, column in enumerate(columns)
        if covered[index] and blank[index]
    }
    if cells:
        remarks.append(
            f"{_named(cells)} of {str(path)!r} are merged and read as blank, since only the first"
            " cell has the value: unmerge them and fill in the value"
        )
    return "; ".join(remarks)


def _named(cells: dict[str, int]) -> str:
    names = ", ".join(one_line(column, 40) for column in list(cells)[:_NAMED])
    more = f" and {len(cells) - _NAMED} more" if len(cells) > _NAMED else ""
    return (
        f"{count(sum(cells.values()), 'cell')} of the column{'s' * (len(cells) > 1)} {names}{more}"
    )


def _formulas_without_values(path: Path, sheet: int) -> Counter[int]:
    """Counts the cells of each column with a formula and no value; empty if unreadable."""
    counts = Counter[int]()
    try:
        with zipfile.ZipFile(path) as book:
            part = _sheet_part(book, sheet)
            if part is not None:
                with book.open(part) as stream:
                    for letters in _formula_cells(stream):
                        counts[_column(letters)] += 1
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ):
        # python_calamine accepts more files, so only the reason is missing
        return Counter()
    return counts


def _sheet_part(book: zipfile.ZipFile, sheet: int) -> str | None:
    with book.open("xl/workbook.xml") as stream:
        ids = _SHEET.findall(stream.read(_BLOCK))
    with book.open("xl/_rels/workbook.xml.rels") as stream:
        relationships = _RELATIONSHIP.findall(stream.read(_BLOCK))
    for relationship in relationships:
        attributes = dict(re.findall(rb"\s(\w+)\s*=\s*[\"']([^\"']*)", relationship))
        if sheet < len(ids) and attributes.get(b"Id") == ids[sheet]:
            target = attributes.get(b"Target", b"").decode("utf-8", "replace")
            return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    return None


def _formula_cells(stream: IO[bytes]) -> Iterable[bytes]:
    rest = b""
    while block := stream.read(_BLOCK):
        text = rest + block
        cut = text.rfind(b"</")
        yield from _FORMULA_ONLY.findall(text, 0, max(cut, 0))
        last = max(text.rfind(b"<c ", 0, cut), text.rfind(b":c ", 0, cut) - 10)
        rest = text[max(last, len(text) - _BLOCK, 0) :]


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number - 1
