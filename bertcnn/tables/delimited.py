"""Splits the lines of a CSV or TSV file into cells; broken quoting costs only one row.

The csv module and DuckDB's reader cannot resume at the line after a broken quote. DuckDB also gives
no line numbers of accepted rows, stops at a cell of 40 MB, keeps rejects in memory, and in its
lenient mode drops surplus cells. The csv module limits unclosed quotes only by a setting for the
whole process.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bertcnn.tables.formulas import unescape_formula
from bertcnn.tables.lines import LONGEST_LINE, undecodable
from bertcnn.wording import count

MAX_CELL_CHARACTERS = 1_000_000
# Longest row with a quoted cell, in characters, plus this many for each line. In a longer row the
# quote counts as broken. Accepted cells have at most a sixteenth of this.
_LONGEST_ROW, _LINE = 16_000_000, 50
# most characters to read again after broken quotes: this many, and 8 for each that a quoted cell
# spans
_READ_AGAIN = 250_000
_READ_AGAIN_SHARE = 8
_SPACES = re.compile(" *+")

Row = tuple[int, tuple[str, ...]]
Reject = Callable[[int, str, str], None]


@dataclass(frozen=True)
class Dialect:
    """How a file separates and quotes its cells.

    Attributes:
        delimiter: empty for a file of one column.
        quote: around cells with delimiters or line breaks, doubled inside; empty without quoting.
        escape: precedes a quote inside a cell, if quotes are not doubled; else empty.
        spaced: whether there may be spaces between a delimiter and a quote.
    """

    delimiter: str
    quote: str = '"'
    escape: str = ""
    spaced: bool = False


class BrokenRowError(Exception):
    """A row that cannot be read; the message is the reason."""


def spreadsheet_delimiter(line: str) -> str | None:
    """The delimiter in a first line such as "sep=;", which Excel reads and hides."""
    match = re.fullmatch(r"\s*sep=(.)\s*", line)
    return match[1] if match else None


class RowReader:
    r"""Parses the rows of a delimited file, with line numbers.

    Quoting is strict: a cell that starts with a quote must end with one before a delimiter or the
    end of a line. Otherwise only its first line is rejected, and reading resumes at the next one.

    Args:
        lines: lines without "\n".
        dialect: how they separate and quote cells.
        reject: called for each unreadable row with line, reason and content.
        as_written: keep the quotes that `formulas.escape_formula` put before cells.
    """

    def __init__(
        self, lines: Iterable[str], dialect: Dialect, reject: Reject, *, as_written: bool = False
    ) -> None:
        self._lines = iter(lines)
        self._again: deque[str] = deque()  # lines to read again after a broken quote
        self._budget = _READ_AGAIN  # keeps the time linear in a file of broken quotes
        self._as_written = as_written
        self._number = 0
        self._reject = reject
        self._dialect = dialect
        quote, escape = re.escape(dialect.quote), re.escape(dialect.escape)
        if not quote:
            pattern = ""
        elif escape:
            pattern = rf"(?:[^{quote}{escape}]++|{escape}.|{quote}{quote}|{escape}$)*+"
        else:
            pattern = rf"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+"
        self._inside = re.compile(pattern, re.DOTALL)
        self._escaped = re.compile(rf"{escape}([{quote}{escape}])") if quote and escape else None

    @property
    def line(self) -> int:
        """Number of lines read so far."""
        return self._number

    def skip(self, lines: int) -> None:
        """Skips lines, such as those above the header."""
        deque(islice(self._take(), lines), maxlen=0)

    def header(self) -> tuple[str, ...] | None:
        """The cells of the first line that is not blank, or None at the end of the file.

        Raises BrokenRowError if its quoting is broken.
        """
        for line in self._take():
            if line.strip() and not (self._number == 1 and spreadsheet_delimiter(line)):
                cells = self._cells(line, None)[0]
                return tuple(cells if self._as_written else map(unescape_formula, cells))
        return None

    def rows(self, width: int) -> Iterator[Row]:
        """Every row of at most `width` cells, with the number of its first line.

        Shorter rows are not padded; additional blank cells are dropped.
        """
        delimiter = self._dialect.delimiter
        quote = self._dialect.quote
        unescapes = not self._as_written
        behind_delimiter, behind_quote = f"{delimiter}'", f"{quote}'"
        for line in self._take():
            number, text = self._number, line
            if len(line) > LONGEST_LINE:
                self._reject(
                    number,
                    f"a line of more than {LONGEST_LINE:,} characters; a cell may have"
                    f" {MAX_CELL_CHARACTERS:,}",
                    line,
                )
                continue
            if quote and quote in line:
                try:
                    cells, text = self._cells(line, width)
                except BrokenRowError as broken:
                    self._reject(number, str(broken), line)
                    continue
            else:
                stripped = line.rstrip("\r")
                cells = stripped.split(delimiter) if delimiter else [stripped]
            if (
                "'" in text
                and unescapes
                and (text[0] == "'" or behind_delimiter in text or behind_quote in text)
            ):
                cells = [unescape_formula(cell) if cell.startswith("'") else cell for cell in cells]
            if (
                len(cells) == width > 1
                and len(text) <= MAX_CELL_CHARACTERS
                and text.isascii()
                and "\0" not in text
            ):
                yield number, tuple(cells)
            elif text.strip():
                fault = _fault(text, cells, width) or (
                    self._swallowed(text, cells, width) if len(cells) < width else None
                )
                if fault:
                    self._reject(number, fault, text)
                else:
                    yield number, tuple(cells[:width])
            elif len(cells) == width > 1:  # tabs only, between empty cells
                yield number, tuple(cells)

    def _take(self) -> Iterator[str]:
        """Yields and counts lines; lines to read again come first."""
        while True:
            line = self._again.popleft() if self._again else next(self._lines, None)
            if line is None:
                return
            self._number += 1
            yield line

    def _cells(self, first: str, width: int | None) -> tuple[list[str], str]:
        """The cells and the text of the row that starts with line `first`; no `width` for a header.

        With broken quoting it raises BrokenRowError, and the lines after the first are read again.
        """
        cells: list[str] = []
        open_cell: list[str] = []
        taken = [first]
        length, again = len(first), len(self._again)
        longest = min(_LONGEST_ROW, length + self._budget) if again else _LONGEST_ROW
        try:
            inside = self._split(first, cells, open_cell, inside=False)
            while inside:
                line = self._again.popleft() if self._again else next(self._lines, None)
                if line is None:
                    raise BrokenRowError("a quote that is never closed")
                taken.append(line)
                length += len(line) + _LINE
                if length > longest or len(line) > LONGEST_LINE:
                    raise BrokenRowError(
                        f"a quote that is not closed within {sum(map(len, taken)):,} characters"
                    )
                inside = self._split(line, cells, open_cell, inside=True)
                # limits the work for a file of broken quotes
                if width is not None and len(cells) > 2 * width + 8:
                    raise BrokenRowError(
                        "a quote that is still open after many more cells than the header has"
                    )
            if (
                width is not None
                and len(cells) != width
                and any(self._is_quoted_row(line, width) for line in taken[1:])
            ):
                raise BrokenRowError("a quote that is closed only by that of a later row")
        except BrokenRowError:
            self._again.extendleft(reversed(taken[1:]))
            new = sum(len(line) + _LINE for line in taken[1 + again :])
            self._budget = max(0, self._budget + _READ_AGAIN_SHARE * new - (length - len(first)))
            raise
        self._number += len(taken) - 1
        return cells, "\n".join(taken)

    def _is_quoted_row(self, line: str, width: int) -> bool:
        """Whether `line` is a full row with a quoted cell, unlike a line inside a quoted cell."""
        quote, delimiter = self._dialect.quote, self._dialect.delimiter
        if (
            not self._dialect.spaced
            and not line.startswith(quote)
            and (not delimiter or delimiter + quote not in line)
        ):
            return False
        cells: list[str] = []
        try:
            return not self._split(line, cells, [], inside=False) and len(cells) == width
        except BrokenRowError:
            return False

    def _swallowed(self, text: str, cells: Sequence[str], width: int) -> str | None:
        """The reason to reject a short row whose quote was probably closed by a later row's."""
        lines = text.split("\n")[1:]
        has_full_line = (
            any(line.count(self._dialect.delimiter) == width - 1 for line in lines)
            if self._dialect.delimiter
            else False
        )
        return wrong_width(cells, width) if has_full_line else None

    def _split(self, line: str, cells: list[str], open_cell: list[str], *, inside: bool) -> bool:
        """Appends the cells of `line`; takes and returns whether a quoted cell is open."""
        text = line.rstrip("\r")
        delimiter, quote = self._dialect.delimiter, self._dialect.quote
        position = 0
        while True:
            opening = self._after_spaces(text, position)
            if not inside and not (quote and text.startswith(quote, opening)):
                end = text.find(delimiter, position) if delimiter else -1
                if end < 0:
                    cells.append(text[position:])
                    return False
                cells.append(text[position:end])
                position = end + len(delimiter)
                continue
            start = position if inside else opening + 1
            match = self._inside.match(text, start)
            position = match.end() if match else start
            open_cell.append(text[start:position])
            if position == len(text):
                open_cell.append(line[len(text) :] + "\n")
                return True
            position = self._after_spaces(text, position + 1)
            cells.append(self._plain("".join(open_cell)))
            open_cell.clear()
            if position == len(text):
                return False
            if not delimiter or not text.startswith(delimiter, position):
                raise BrokenRowError("text after the quote that closes a cell")
            position += len(delimiter)
            inside = False

    def _after_spaces(self, text: str, position: int) -> int:
        return _SPACES.match(text, position).end() if self._dialect.spaced else position  # type: ignore[union-attr]

    def _plain(self, quoted: str) -> str:
        quote = self._dialect.quote
        text = quoted.replace(quote + quote, quote)
        return self._escaped.sub(r"\1", text) if self._escaped else text


def _fault(text: str, cells: Sequence[str], width: int) -> str | None:
    if not text.strip("\0 \t\r"):
        return "nothing but NUL characters"
    if undecodable(text):
        return "bytes that are not text in this encoding"
    if any(cell.strip() for cell in cells[width:]):
        return wrong_width(cells, width)
    return long_cell(cells)


def wrong_width(cells: Sequence[str], width: int) -> str:
    """The message about a row with more or fewer cells than the header."""
    return f"{count(len(cells), 'cell')} where the header has {width:,}"


def long_cell(cells: Sequence[str]) -> str | None:
    """The message about a cell that is too long, if any."""
    longest = max(map(len, cells), default=0)
    return (
        f"a cell of {longest:,} characters, more than {MAX_CELL_CHARACTERS:,}"
        if longest > MAX_CELL_CHARACTERS
        else None
    )


def as_line(cells: Iterable[str], delimiter: str | None = None) -> str:
    """`cells` as a line of a delimited file, for the list of rejected rows.

    Example:
        >>> as_line(["7", "no signal, again"])
        '7,"no signal, again"'
    """
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter or ",", lineterminator="").writerow(cells)
    return line.getvalue()
