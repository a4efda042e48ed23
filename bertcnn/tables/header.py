"""Finds the header of a table below a title, a date or other lines from reports and exporters.

A file whose first line is its header must never lose a row. So a later row is chosen only if the
rows above it are narrower than the table and the cells below it look different, if its names are
typical column names, or if it has the wanted columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bertcnn.errors import one_line
from bertcnn.tables.column_names import find_names
from bertcnn.tables.column_words import (
    ID_WORDS,
    LABEL_WORDS,
    LAST_LABEL_WORDS,
    TEXT_WORDS,
    TIME_WORDS,
    TITLE_WORDS,
    words_of,
)
from bertcnn.tables.delimited import BrokenRowError, Dialect, RowReader, spreadsheet_delimiter
from bertcnn.tables.dialect import DELIMITERS, sniff
from bertcnn.values import plain_text

ROWS_SEEN = 200  # rows used to find the header
_CHARACTERS_SEEN = 256 * 1024
_DEEPEST = 30  # rows above a header
_LONGEST_NAME, _MOST_WORDS = 60, 8  # characters and words of a column's name
_FITTING = 0.7  # share of rows below a header that have no more cells than it
_BROKEN = "?"  # in place of a line whose quoting is broken
_TEXTS = frozenset(TEXT_WORDS + TITLE_WORDS)
_OTHERS = frozenset(LABEL_WORDS + LAST_LABEL_WORDS + ID_WORDS + TIME_WORDS) - {
    "no"
}  # "no" is also a cell of yes and no
_VALUE = re.compile(
    r"[\W\d_]*\d[\W\d_]*|.*\b\d{4}-\d\d-\d\d\b.*|.*\b\d{1,2}:\d\d\b.*|\S+@\S+\.\S+|https?://.*",
    re.DOTALL,
)  # not a name
_HAS_TEXT = re.compile(r"\w")
_SENTENCE_END = re.compile(r"[.!?。！？]\s*\Z")


@dataclass(frozen=True)
class TextStart:
    """The start of the table in a text file; `above` is the number of lines above the header."""

    dialect: Dialect
    above: int = 0
    remark: str = ""


def find_start(
    text: str,
    is_tsv: bool,
    delimiter: str | None,
    quote: str | None,
    expected_columns: Sequence[str] = (),
) -> TextStart:
    r"""Detects the dialect of a text file and the number of lines above its header.

    `text` is the start of the file in whole lines; `is_tsv` if the extension promises tabs.

    Example:
        >>> rows = "1;the router is dead again\n2;no signal since Monday\n3;a wrong bill\n"
        >>> find_start("Tickets\nof May\nid;text\n" + rows, False, None, None).above
        2
    """
    lines = text[:_CHARACTERS_SEEN].replace("\r\n", "\n").split("\n")[: 2 * ROWS_SEEN]
    delimiter = delimiter or spreadsheet_delimiter(lines[0])
    first = sniff(text, is_tsv, delimiter, quote)
    best, best_share = TextStart(first), -1.0
    for one in dict.fromkeys(
        (first.delimiter, *([] if delimiter or _fits(lines, first) else DELIMITERS))
    ):
        rows, ends = _first_rows(
            lines,
            Dialect(
                one, first.quote if quote is None and one == first.delimiter else _given(quote)
            ),
        )
        index = header_place(rows, expected_columns)
        if index:
            width = extent(rows[index])
            share = (
                _share(rows[index + 1 :], lambda row, width=width: len(row) == width)  # type: ignore[misc]
                + 1e-3
            ) * (1 - 1 / (width + 1))
            if share > best_share:
                above, best_share = ends[index - 1], share
                skipped = [
                    line
                    for line in lines[:above]
                    if _HAS_TEXT.search(line) and not spreadsheet_delimiter(line)
                ]
                below = text.replace("\r\n", "\n").split("\n", above)[above]
                dialect = sniff(below, is_tsv, delimiter or (one or None), quote)
                best = TextStart(dialect, above, skipped_remark(skipped) if skipped else "")
    return best


def _given(quote: str | None) -> str:
    return '"' if quote is None else quote


def _fits(lines: Sequence[str], dialect: Dialect) -> bool:
    """Whether most of the first rows have as many cells as the first one, and more than one."""
    rows, _ = _first_rows(lines, dialect)
    return (
        bool(rows)
        and len(rows[0]) > 1
        and _share(rows[1:], lambda row: len(row) == len(rows[0])) >= 0.5
    )


def _first_rows(lines: Iterable[str], dialect: Dialect) -> tuple[list[tuple[str, ...]], list[int]]:
    """The first rows that are not blank, of any width, and the number of lines up to each end."""
    reader = RowReader(lines, dialect, lambda *_: None)
    rows: list[tuple[str, ...]] = []
    ends: list[int] = []
    while len(rows) < ROWS_SEEN:
        try:
            row = reader.header()
        except BrokenRowError:
            row = (_BROKEN,)
        if row is None:
            break
        rows.append(row)
        ends.append(reader.line)
    return rows, ends


def header_place(rows: Sequence[Sequence[str]], expected_columns: Sequence[str] = ()) -> int:
    """The index of the header among the first rows, none blank."""
    if expected_columns and (index := _row_with(expected_columns, rows)) is not None:
        return index
    start = next((index for index, row in enumerate(rows[: _DEEPEST + 1]) if not _is_none(row)), 0)
    if not rows or (_is_header(rows[start]) and extent(rows[start]) > 1):
        return start
    alone = _is_header(rows[start])  # the name of a single column, which may hold lists of words
    widest = extent(rows[start])  # of the rows above
    for index, row in enumerate(rows[start + 1 : _DEEPEST + 1], start + 1):
        if _are_names(row):
            looks_alike = extent(row) == extent(rows[start]) and _are_names(rows[start])
            if (
                not looks_alike
                and _names_itself(row)
                and not _recurs(row, [*rows[start:index], *rows[index + 1 :]])
            ):
                return index
            if (
                not alone
                and extent(row) > widest
                and _stands_above_other_cells(row, rows[index + 1 :], widest)
            ):
                return index
        widest = max(widest, extent(row))
    return start


def _is_none(row: Sequence[str]) -> bool:
    """Whether a row is neither header nor data: empty, or PowerShell's first line."""
    return not extent(row) or row[0].startswith("#TYPE ")


def _is_header(row: Sequence[str]) -> bool:
    return any(map(_is_telling, row)) and all(map(_could_be_name, row))


def extent(row: Sequence[str]) -> int:
    """Number of cells up to the last one with text."""
    return max((position for position, cell in enumerate(row, 1) if cell.strip()), default=0)


def skipped_remark(rows: Sequence[str]) -> str:
    """The remark about the lines above the header.

    Example:
        >>> skipped_remark(["Tickets of May", "", "secret"])
        "3 lines above the header are not read: 'Tickets of May', '', 'secret'"
    """
    shown = ", ".join(one_line(row, 40) for row in rows[:3])
    are = (
        "1 line above the header is"
        if len(rows) == 1
        else f"{len(rows)} lines above the header are"
    )
    return f"{are} not read: {shown}{' ...' if len(rows) > 3 else ''}"


def _row_with(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    """The first row with all these names; not below a typical name of a single column."""
    index = next(
        (index for index, row in enumerate(rows[: _DEEPEST + 1]) if _has_all(names, row)), None
    )
    if index and extent(rows[index]) == 1 and _is_header(rows[0]):
        return None
    return index


def _has_all(names: Sequence[str], row: Sequence[str]) -> bool:
    return find_names(names, [cell.strip() for cell in row]) is not None


def _is_telling(cell: str) -> bool:
    return "".join(words_of(cell)) in _TEXTS | _OTHERS


def _names_itself(row: Sequence[str]) -> bool:
    """Whether a row has typical names of a text and of another column, unlike any row of data."""
    names = ["".join(words_of(cell)) for cell in row]
    return (
        sum(name in _TEXTS | _OTHERS for name in names) >= 2
        and not _TEXTS.isdisjoint(names)
        and 2 * len(names) >= extent(row)
    )


def _recurs(row: Sequence[str], other_rows: Sequence[Sequence[str]]) -> bool:
    """Whether a cell recurs in its column, as values do; identical rows do not count."""
    return any(
        cell and cell == value
        for other_row in other_rows
        if list(other_row) != list(row)
        for cell, value in zip(row, other_row, strict=False)
    )


def _are_names(row: Sequence[str]) -> bool:
    names = [cell.strip() for cell in row[: extent(row)]]
    filled = [name for name in names if name]
    return (
        len(filled) > 1
        and len(filled) >= len(names) - 1
        and len({name.casefold() for name in filled}) == len(filled)
        and all(map(_could_be_name, filled))
    )


def _could_be_name(cell: str) -> bool:
    return (
        len(cell) <= _LONGEST_NAME
        and len(cell.split()) <= _MOST_WORDS
        and not _VALUE.fullmatch(cell)
        and not _SENTENCE_END.search(cell)
        and "\n" not in cell
    )


def _stands_above_other_cells(
    row: Sequence[str], below: Sequence[Sequence[str]], widest: int
) -> bool:
    """Whether most rows below are as wide as `row`, wider than those above, and hold values."""
    width = extent(row)
    if (
        len(below) < 2
        or _share(below, lambda lower: widest < len(lower) and extent(lower) <= width) < _FITTING
    ):
        return False
    if _share(below, lambda lower: extent(lower) > widest) < 0.5:
        return False
    telling = any(
        not _TEXTS.isdisjoint(words_of(cell)) or not _OTHERS.isdisjoint(words_of(cell))
        for cell in row
    )
    return (telling or (widest == 1 and width > 2)) and any(
        _differs(row[index], _column(below, index)) for index in range(width)
    )


def _column(rows: Sequence[Sequence[str]], index: int) -> list[str]:
    return [row[index] for row in rows if len(row) > index and row[index].strip()]


def _differs(name: str, cells: Sequence[str]) -> bool:
    """Whether most cells are values unlike a name, or much longer than the name above them."""
    if not name.strip() or not cells:
        return False
    if 2 * sum(any(char.isdigit() for char in cell[:_LONGEST_NAME]) for cell in cells) > len(cells):
        return True
    return sum(map(len, cells)) / len(cells) > max(20, 1.5 * len(name))


def _share(rows: Sequence[Sequence[str]], fits: Callable[[Sequence[str]], bool]) -> float:
    return sum(map(fits, rows)) / len(rows) if rows else 1.0


def below_header(
    rows: Iterator[tuple[int, Sequence[object]]], expected_columns: Sequence[str]
) -> tuple[list[tuple[int, Sequence[object]]], list[str]]:
    """The first rows of a sheet from its header on, and the text of each row above it."""
    first: list[tuple[int, Sequence[object]]] = []
    texts: list[list[str]] = []
    for number, row in rows:
        text = list(map(plain_text, row))
        if any(text):
            first.append((number, row))
            texts.append(text)
        if len(first) == ROWS_SEEN:
            break
    start = header_place(texts, expected_columns)
    return first[start:], [
        ", ".join(cell for cell in text if cell.strip()) for text in texts[:start]
    ]
