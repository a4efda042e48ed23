"""Reads CSV, TSV, JSONL, Parquet and Excel files as rows of text cells, in constant memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Self

from bertcnn.errors import ColumnError, OutputError, TableError, one_line
from bertcnn.progress import Progress, Silent
from bertcnn.tables.cells import name_columns
from bertcnn.tables.column_names import find_name
from bertcnn.tables.column_words import TEXT_WORDS, words_of
from bertcnn.tables.delimited import as_line, wrong_width
from bertcnn.tables.formats import Format, check_input
from bertcnn.tables.lines import swollen
from bertcnn.tables.rejects import RejectsFile, check_rejects, rejects_of
from bertcnn.tables.sources import MAX_CELL_CHARACTERS, Row, RowSource, open_source
from bertcnn.tables.writing import check_output
from bertcnn.wording import count

__all__ = [
    "MAX_CELL_CHARACTERS",
    "Chunk",
    "Table",
    "TableReader",
    "check_outcome",
    "closest_name",
    "column_position",
    "open_table",
    "read_table",
    "rejects_of",
]

_CHUNK_CHARACTERS = 16 * 1024**2  # a chunk ends early when its cells hold this much text
_CELL_CHARACTERS = 8  # counted for every cell, even an empty one
# Cells that all rows together may lack: this many, and 20 more for each cell that they have. Below
# a header of 16,000 names, lines of one cell would otherwise expand a thousandfold.
_PADDED_CELLS = 4_000_000
_PADDED_SHARE = 20
# characters around a name in a repeated header: spaces, quotes, a byte order mark
_AROUND = 8
_SAMPLED_CHARACTERS = 1000  # of a row in a sample, on average
_MADE_UP = re.compile(r"column_\d+")
# largest size of an unpacked file: this many characters, and more for each of its bytes
_CHARACTERS = 96 * 1024**2
_CHARACTERS_PER_BYTE = 200
# bytes, and bytes per byte: largest size of a compressed file as a table in memory
_MEMORY = 300_000_000
_MEMORY_PER_BYTE = 64
# bytes of a row and of each of its cells in memory, without their characters
_ROW_MEMORY = 120
_CELL_MEMORY = 50


def closest_name(name: str, columns: tuple[str, ...]) -> str | None:
    """The column that `name` may mean: equal but for case and spaces, or similar, else None."""
    import difflib

    plain = {column.strip().casefold(): column for column in reversed(columns)}
    close = difflib.get_close_matches(name.strip().casefold(), list(plain), n=1)
    return plain[close[0]] if close else None


def column_position(name: str, columns: tuple[str, ...]) -> int:
    """The position of a column.

    If no column has exactly this name, case, spaces around it, "_" and "-" are ignored.

    Raises:
        ColumnError: there is no such column; lists the columns and suggests the closest.
    """
    column = find_name(name, columns)
    if column is not None:
        return columns.index(column)
    close = closest_name(name, columns)
    raise ColumnError(
        f"there is no column {name!r}",
        expected=f"one of the columns found: {list_columns(columns)}",
        fix=f"did you mean {close!r}?" if close else "name one of them",
    )


def list_columns(columns: tuple[str, ...], most: int = 12) -> str:
    """The quoted names of the first `most` columns."""
    names = ", ".join(one_line(column, 40) for column in columns[:most])
    return names if len(columns) <= most else f"{names} and {len(columns) - most} more"


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    Attributes:
        line_numbers: position of each row in the file, from 1: the line of a text file (the header
            is line 1), or the row of an Excel sheet or a Parquet file.
    """

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    line_numbers: list[int]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        position = column_position(name, self.columns)
        return [row[position] for row in self.rows]


@dataclass(frozen=True)
class Table(Chunk):
    """A whole table in memory.

    Attributes:
        header: the original column names; some may be empty or repeated.
        padded: number of rows that lack their last cells in the file; these are blank here.
        shortest: number of cells in the file's shortest row.
        rejected: number of rows that could not be read or repeat the header.
        left_out: number of rows that a sample omits.
        remark: unread parts of the file, such as other sheets of a workbook; mostly empty.
        encoding: encoding of a text file; None for others.
        delimiter: delimiter of a CSV or TSV file; None for others.
    """

    path: Path = field(default=Path())
    header: tuple[str, ...] = ()
    padded: int = 0
    shortest: int = 0
    rejected: int = 0
    left_out: int = 0
    remark: str = ""
    format: Format = "csv"
    encoding: str | None = None
    delimiter: str | None = None

    def is_cut(self, text_columns: Sequence[str]) -> bool:
        """Whether any row ends before its text; see `TableReader.require`."""
        return self.shortest < _cells_up_to(text_columns, self.columns)


def _cells_up_to(names: Sequence[str], columns: tuple[str, ...]) -> int:
    """Number of cells up to the first of these columns; a shorter row has none of them."""
    return min((column_position(name, columns) + 1 for name in names), default=0)


class TableReader:
    """An open table that is read in chunks; see `open_table`.

    Attributes:
        columns: unique names: a repeated one is numbered ("text_2"), an empty one is "column_3".
        header: the original column names.
        encoding: encoding of a text file, else None.
        delimiter: delimiter of a CSV or TSV file, empty if it has one column; else None.
        accepted: number of rows read so far.
        padded: number of these rows that lack their last cells, which are blank here.
        rejected: number of rows rejected so far.
        repeated_headers: number of these rows that repeat the header, as in concatenated exports.
        total_bytes: size of the file.
    """

    def __init__(
        self, path: Path, source: RowSource, format_name: Format, rejects: Path | None
    ) -> None:
        self._path = path
        self._source = source
        self.columns = source.columns
        self.header = source.header
        self.format = format_name
        self.encoding = source.encoding
        self.delimiter = source.delimiter
        self.total_bytes = path.stat().st_size
        self.accepted = 0
        self.padded = 0
        self.rejected = 0
        self.repeated_headers = 0
        self.first_reason = ""
        self._rejects = RejectsFile(rejects)
        self._rows = self._below_headers(source.rows(self._reject))
        self._named = next(
            (index for index, name in enumerate(self.columns) if not _MADE_UP.fullmatch(name)), 0
        )
        self._read_to_its_end = False
        self._shortest = len(self.columns)
        self._needed = 0  # fewest cells of an accepted row
        self._padding = _PADDED_CELLS
        self._peeking = False
        self._peeked: deque[Row] = deque()
        self._compressed = format_name in ("parquet", "xlsx") or path.suffix.lower() == ".gz"
        self._characters = 0  # read so far, with _CELL_CHARACTERS for each cell

    @property
    def remark(self) -> str:
        """The parts of the file that are not read, and remarks about its rows; mostly empty."""
        return self._source.remark

    @property
    def position(self) -> int:
        """Number of bytes read so far, of `total_bytes`."""
        return min(self._source.position(), self.total_bytes)

    def require(self, text_columns: Sequence[str]) -> None:
        """From now on, rejects rows that end before all of these columns, since they were cut off.

        Raises:
            ColumnError: one of the columns is missing.
        """
        self._needed = _cells_up_to(text_columns, self.columns)

    def reject(self, chunk: Chunk, row: int, reason: str) -> None:
        """Moves a row of a chunk to the rejected rows."""
        self.accepted -= 1
        self._reject(chunk.line_numbers[row], reason, as_line(chunk.rows[row], self.delimiter))

    @property
    def is_mostly_rejected(self) -> bool:
        """Whether more rows were rejected than read so far, not counting repeated headers."""
        return self.rejected - self.repeated_headers > self.accepted

    def chunks(self, rows: int = 4096) -> Iterator[Chunk]:
        """The rest of the table, at most `rows` rows at a time (fewer if cells are long)."""
        while True:
            chunk = Chunk(self.columns, [], [])
            characters = 0
            for line, row in self._next_rows():
                chunk.rows.append(row)
                chunk.line_numbers.append(line)
                characters += _size(row)
                if len(chunk.rows) >= rows or characters >= _CHUNK_CHARACTERS:
                    break
            if not chunk.rows:
                return
            self._characters += characters
            if (
                self._compressed
                and self._characters > _CHARACTERS + _CHARACTERS_PER_BYTE * self.total_bytes
            ):
                raise swollen(self._path)
            yield chunk

    def whole(self, progress: Progress | None = None, most: int | None = None) -> Table:
        """The rest of the table in memory, at least one row; this closes the reader.

        A table of more than `most` rows, or 1,000 times as many characters, is sampled: at least
        half as many rows stay, chosen by a hash of their line numbers.

        Raises:
            TableError: the file has only a header, or every row was rejected.
        """
        progress = progress or Silent()
        sample = _Sample(most)
        rows, line_numbers = sample.rows, sample.line_numbers
        progress.stage("reading", self.total_bytes, "bytes")
        position, objects = 0, 0  # objects: bytes, without the characters
        for chunk in self.chunks():
            if self._compressed:
                objects += _ROW_MEMORY * len(chunk) + _CELL_MEMORY * sum(
                    map(bool, chain.from_iterable(chunk.rows))
                )
                if objects + self._characters > _MEMORY + _MEMORY_PER_BYTE * self.total_bytes:
                    raise swollen(self._path)
            sample.add(chunk)
            progress.advance(self.position - position)
            position = self.position
        self.close()
        if not rows and self.rejected:
            raise TableError(
                f"none of the {self.rejected:,} rows of {str(self._path)!r} could be read"
                f" ({self.first_reason})",
                expected=(
                    f"rows of {len(self.columns)} cells, like the header"
                    f" {list_columns(self.columns, 6)}"
                ),
                fix="correct the file, or save the table again as CSV in UTF-8",
            )
        if not rows:
            raise TableError(
                f"{str(self._path)!r} has a header but no rows (columns"
                f" {list_columns(self.columns, 6)})",
                expected="at least 1 row below the header",
                fix="export the table again",
            )
        return Table(
            self.columns,
            rows,
            line_numbers,
            path=self._path,
            header=self.header,
            padded=self.padded,
            shortest=self._shortest,
            rejected=self.rejected,
            left_out=self.accepted - len(rows),
            remark=self._remark_of_all(),
            format=self.format,
            encoding=self.encoding,
            delimiter=self.delimiter,
        )

    def _remark_of_all(self) -> str:
        repeated = (
            f"{count(self.repeated_headers, 'row')} repeating the header left out"
            if self.repeated_headers
            else ""
        )
        return "; ".join(filter(None, (self.remark, repeated)))

    def peek(self, rows: int = 1000) -> Chunk:
        """At most `rows` next rows, for guessing columns; `chunks` returns them again."""
        characters, width = sum(_size(row) for _, row in self._peeked), len(self.columns)
        self._peeking = True
        while (
            len(self._peeked) < rows
            and characters < _CHUNK_CHARACTERS
            and (upcoming := next(self._rows, None))
        ):
            self.accepted += 1
            self._peeked.append(upcoming)
            characters += _size(upcoming[1]) + _CELL_CHARACTERS * (width - len(upcoming[1]))
        self._peeking = False
        seen = list(islice(self._peeked, rows))
        return Chunk(
            self.columns,
            [row + ("",) * (width - len(row)) for _, row in seen],
            [line for line, _ in seen],
        )

    def _next_rows(self) -> Iterator[Row]:
        width = len(self.columns)
        while self._peeked:
            line, row = self._peeked.popleft()
            self._rejects.release(before=line)
            if len(row) == width:
                yield line, row
            elif padded := self._padded(line, row):
                yield line, padded
        self._rejects.release()
        for line, row in self._rows:
            self.accepted += 1
            if len(row) == width:
                yield line, row
            elif padded := self._padded(line, row):
                yield line, padded
        self._read_to_its_end = True

    def _padded(self, line: int, row: tuple[str, ...]) -> tuple[str, ...] | None:
        """A short row with blank cells added; None if it ends before its text and is rejected."""
        width = len(self.columns)
        self._padding += _PADDED_SHARE * len(row) - (width - len(row))
        if len(row) >= self._needed and self._padding >= 0:
            self.padded += 1
            self._shortest = min(self._shortest, len(row))
            return row + ("",) * (width - len(row))
        self.accepted -= 1
        self._reject(line, wrong_width(row, width), as_line(row, self.delimiter))
        return None

    def _below_headers(self, rows: Iterator[Row]) -> Iterator[Row]:
        index, name = self._named, self.columns[self._named] if self.columns else ""
        longest = len(name) + _AROUND if name else -1
        for row in rows:
            cells = row[1]
            if (
                index < len(cells)
                and len(cells[index]) <= longest
                and name in cells[index]
                and self._is_header(cells)
            ):
                self.repeated_headers += 1
                self._reject(row[0], "the header once more", as_line(cells, self.delimiter))
            else:
                yield row

    def _is_header(self, cells: Sequence[str]) -> bool:
        """Whether a row repeats the header, apart from quotes and byte order marks.

        A single column needs a typical name of texts: its header may really be the first message.
        """
        if len(cells) == 1 and "".join(words_of(self.columns[0])) not in TEXT_WORDS:
            return False
        return name_columns(cell.strip('\ufeff" ') for cell in cells) == self.columns

    def _reject(self, line: int, reason: str, content: str) -> None:
        self.rejected += 1
        self.first_reason = self.first_reason or f"line {line}: {reason}"
        (self._rejects.hold if self._peeking else self._rejects.write)(line, reason, content)

    def close(self) -> None:
        """Closes the file and the list of rejected rows; removes an earlier list if none were."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.close()
        self._rejects.close(
            kind, error, trace, is_whole=self._read_to_its_end and not self.rejected
        )


class _Sample:
    """The rows that stay in memory: all, or an even sample of `most` rows of usual length."""

    def __init__(self, most: int | None) -> None:
        self.rows: list[tuple[str, ...]] = []
        self.line_numbers: list[int] = []
        self._most, self._characters, self._share = most, 0, 2**64

    def add(self, chunk: Chunk) -> None:
        """Adds the chosen rows of a chunk; with too many, half of all are dropped."""
        if self._most is None:
            self.rows += chunk.rows
            self.line_numbers += chunk.line_numbers
            return
        self._keep(chunk.rows, chunk.line_numbers)
        while len(self.rows) > self._most or (
            self._characters > self._most * _SAMPLED_CHARACTERS and len(self.rows) > 1
        ):
            self._share //= 2
            rows, line_numbers = self.rows[:], self.line_numbers[:]
            self.rows.clear()
            self.line_numbers.clear()
            self._characters = 0
            self._keep(rows, line_numbers)

    def _keep(self, rows: Sequence[tuple[str, ...]], line_numbers: Sequence[int]) -> None:
        import numpy as np

        from bertcnn.data import splitmix64

        order = splitmix64(np.array(line_numbers, np.uint64))
        for row, line, hashed in zip(rows, line_numbers, order.tolist(), strict=True):
            if hashed < self._share:
                self.rows.append(row)
                self.line_numbers.append(line)
                self._characters += _size(row)


def _size(row: Sequence[str]) -> int:
    return sum(map(len, row)) + _CELL_CHARACTERS * len(row)


def open_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    rejects: str | Path | None = None,
    as_written: bool = False,
    expected_columns: Sequence[str] | None = None,
) -> TableReader:
    r"""Opens a table for reading, in constant memory.

    Every cell is text. "NA", "null", "007" and "1e5" are kept; a null of JSON, Parquet or Excel is
    "". JSON numbers keep their spelling; numbers of Parquet and Excel become plain text ("7",
    "0.1"). The quotes of `formulas.escape_formula` in CSV and TSV are removed. Nested objects of
    JSON, and the fields of Parquet's structures, become columns, named "ticket.body". Lists become
    JSON, and so do objects of JSON with more than 1,000 different keys at one path, such as dates.

    Blank lines are not rows. Rows that cannot be read are counted and written to `rejects`;
    accepted + rejected = rows in the file. A CSV row may lack its last cells, which are then
    blank; such rows are counted (see `TableReader.require` for rows that were cut off). Surplus
    cells are dropped if all are blank.

    The header is the first line that is not blank. Lines above it, such as a title or a date, are
    skipped with a `remark`, and lines keep their numbers. A repeated header is rejected. JSON may
    be one object per line, a list of objects, or an object with one such list, as in {"data":
    [...]}. A file that is not a table, such as a web page or an error message, is rejected.

    Excel: the first sheet that is neither hidden nor empty is read and held in memory. Parquet
    needs memory for one row group. Both are read in a worker process that may use 350 MB and 10
    bytes for each byte of the file. Such files, and gzipped ones, are rejected if they expand far
    beyond the usual size. JSON files are read twice, first for their keys.

    Args:
        path: .csv, .tsv, .jsonl, .ndjson or .json (each also with .gz), .parquet or .xlsx.
        delimiter: separator of cells; detected by default.
        encoding: any text encoding that Python knows; detected by default.
        quote: quote around cells, "" for none; detected by default.
        rejects: a .csv file for unreadable rows, with the columns line, reason and content_start
            (the row's original text, at most 100,000 characters). It is created only if there are
            such rows, and complete when the reader is closed. An earlier one is replaced, or
            removed when the whole table was read.
        as_written: keep the quotes before cells of CSV and TSV.
        expected_columns: a line near the start with all of them is the header. If None, JSON
            without any object is rejected, since it has no columns.

    Raises:
        OutputError: `rejects` cannot be written, or is another kind of file.
        TableError: the file is missing, empty, binary or a folder, its extension is unknown, or its
            header cannot be read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "inbox.csv"
        >>> _ = path.write_text("text;label\n007;NA\n\nno signal;hardware\n")
        >>> with open_table(path) as table:
        ...     for chunk in table.chunks():
        ...         print(table.delimiter, chunk.line_numbers, chunk.column("text"))
        ; [2, 4] ['007', 'no signal']
    """
    path = Path(path)
    kind = check_input(path)
    if rejects is not None:
        check_rejects(Path(rejects))
    source = open_source(
        path,
        kind,
        delimiter,
        encoding,
        quote,
        as_written=as_written,
        expected_columns=expected_columns,
    )
    return TableReader(path, source, kind.format, None if rejects is None else Path(rejects))


def check_outcome(
    source: Path, target: Path, *, overwrite: bool, option: str = "the output"
) -> None:
    """Checks, before any work, that the result of processing `source` can be written to `target`.

    Unreadable rows go to a file next to `target`. `option` sets the target, for the message.

    Raises:
        OutputError: the target or the file of rejected rows is the input, exists, or cannot be
            written; see `check_output`.
    """
    roles = {
        target: "input and output",
        rejects_of(target): "input and file of rejected rows",
    }
    for path, role in roles.items():
        if path.exists() and source.exists() and path.samefile(source):
            raise OutputError(
                f"{path} as {role}",
                expected="two different files",
                fix=f"choose another name for {option}",
            )
    check_output(target, overwrite)


def read_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    rejects: str | Path | None = None,
    required: Sequence[str] = (),
    expected_columns: Sequence[str] | None = None,
) -> Table:
    """Reads a whole table into memory; see `open_table`, and `TableReader.require` for `required`.

    Raises:
        TableError: as in `open_table`; or the file has only a header, or every row was rejected.
    """
    with open_table(
        path,
        delimiter=delimiter,
        encoding=encoding,
        quote=quote,
        rejects=rejects,
        expected_columns=expected_columns,
    ) as reader:
        reader.require(required)
        return reader.whole()
