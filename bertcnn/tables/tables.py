"""Tables in, in constant memory and with nothing lost silently.

CSV, TSV, JSONL, Parquet and Excel files become rows of text cells.
"""

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
_CELL_CHARACTERS = 8  # that a cell weighs even if it is empty
# that rows may lack, and 20 more for each one that they have; a header of 16,000 names over
_PADDED_CELLS = 4_000_000
_PADDED_SHARE = 20  # lines of one cell would make a thousand times as much of a file
# characters that a name in a repeated header may have around it: spaces, quotes, a byte order mark
_AROUND = 8
_MADE_UP = re.compile(r"column_\d+")
_CHARACTERS, _CHARACTERS_PER_BYTE = (
    96 * 1024**2,
    200,
)  # that a compressed file may swell to, and so many for each of its bytes
_MEMORY, _MEMORY_PER_BYTE = (
    300_000_000,
    64,
)  # bytes that a compressed file as a whole table in memory may swell to
_ROW_MEMORY, _CELL_MEMORY = (
    120,
    50,
)  # bytes that a row and each of its cells take there, besides their characters


def closest_name(name: str, columns: tuple[str, ...]) -> str | None:
    """The column that `name` may have meant.

    Equal but for case and spaces, else similar, else None.
    """
    import difflib

    plain = {column.strip().casefold(): column for column in reversed(columns)}
    close = difflib.get_close_matches(name.strip().casefold(), list(plain), n=1)
    return plain[close[0]] if close else None


def column_position(name: str, columns: tuple[str, ...]) -> int:
    """Where column `name` is; case, spaces around it, "_" and "-" make no difference where no column has the very name.

    Raises:
        ColumnError: if there is none; it lists the columns found and suggests the closest.
    """
    found = find_name(name, columns)
    if found is not None:
        return columns.index(found)
    close = closest_name(name, columns)
    raise ColumnError(
        f"there is no column {name!r}",
        expected=f"one of the columns found: {list_columns(columns)}",
        fix=f"did you mean {close!r}?" if close else "name one of them",
    )


def list_columns(columns: tuple[str, ...], most: int = 12) -> str:
    """The names of the columns, quoted, the first `most` of them."""
    names = ", ".join(one_line(column, 40) for column in columns[:most])
    return names if len(columns) <= most else f"{names} and {len(columns) - most} more"


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    Attributes:
        columns: the header.
        rows: the cells, as text, in the order of the columns.
        line_numbers: where each row starts in the file: the line of a text file (the header is line
            1), the row of an Excel sheet, or the row of a Parquet file, counted from 1.
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
        path: the file it came from.
        header: the names of the columns as they stand in the file, where some may be empty or come
            twice.
        padded: rows that lack their last cells in the file; these are blank here.
        shortest: how many cells the shortest row has in the file.
        rejected: how many rows of the file could not be read, and how many repeat the header.
        remark: which part of the file is not read, such as other sheets of a workbook; mostly
            empty.
        format: csv, tsv, jsonl, parquet or xlsx.
        encoding: of a text file, None of others.
        delimiter: of a CSV or TSV file, None of others.
    """

    path: Path = field(default=Path())
    header: tuple[str, ...] = ()
    padded: int = 0
    shortest: int = 0
    rejected: int = 0
    remark: str = ""
    format: Format = "csv"
    encoding: str | None = None
    delimiter: str | None = None

    def is_cut(self, text_columns: Sequence[str]) -> bool:
        """Whether there is a row that ends before its text; see `TableReader.require`."""
        return self.shortest < _cells_up_to(text_columns, self.columns)


def _cells_up_to(names: Sequence[str], columns: tuple[str, ...]) -> int:
    """How many cells a row has at least that reaches one of these columns."""
    return min((column_position(name, columns) + 1 for name in names), default=0)


class TableReader:
    """An open table: `columns` at once, rows in chunks; see `open_table`.

    Attributes:
        columns: the names of the columns; a repeated one gets a number ("text_2"), an empty one its
            place ("column_3").
        header: the names as they stand in the file.
        format: csv, tsv, jsonl, parquet or xlsx.
        encoding: of a text file, None of others.
        delimiter: of a CSV or TSV file, empty if it has one column; None of others.
        accepted: rows read so far.
        padded: of these, rows that lack their last cells, which are blank here, as exporters leave
            them out.
        rejected: rows refused so far.
        repeated_headers: of these, rows that are the header once more, as in exports joined end to
            end.
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
        self.first_reason = ""  # of the first rejected row
        self._rejects = RejectsFile(rejects)
        self._rows = self._below_headers(source.rows(self._reject))
        self._telling = next(
            (place for place, name in enumerate(self.columns) if not _MADE_UP.fullmatch(name)), 0
        )
        self._read_to_its_end = False
        self._shortest = len(self.columns)
        self._needed = 0  # cells that a row has at least
        self._padding = _PADDED_CELLS
        self._peeking = False
        self._peeked: deque[Row] = deque()
        self._compressed = format_name in ("parquet", "xlsx") or path.suffix.lower() == ".gz"
        self._characters = 0  # read so far, with some for each cell

    @property
    def remark(self) -> str:
        """Which part of the file is not read, such as other sheets of a workbook, and what the rows have shown; mostly empty."""
        return self._source.remark

    @property
    def position(self) -> int:
        """How many of `total_bytes` have been read, for showing progress."""
        return min(self._source.position(), self.total_bytes)

    def require(self, text_columns: Sequence[str]) -> None:
        """Reject the rows that end before all of these columns from now on: they were cut off.

        Raises:
            ColumnError: if one of them is missing.
        """
        self._needed = _cells_up_to(text_columns, self.columns)

    @property
    def is_mostly_rejected(self) -> bool:
        """Whether more of the rows so far were refused than read.

        The header once more does not count.
        """
        return self.rejected - self.repeated_headers > self.accepted

    def chunks(self, rows: int = 4096) -> Iterator[Chunk]:
        """The rest of the table, at most `rows` rows at a time (fewer where cells are long)."""
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

    def whole(self, progress: Progress | None = None) -> Table:
        """The rest of the table in memory, at least one row; the reader is closed then.

        Args:
            progress: told how much of the file is read.

        Raises:
            TableError: the file has a header only, or every row was rejected.
        """
        progress = progress or Silent()
        rows: list[tuple[str, ...]] = []
        line_numbers: list[int] = []
        progress.stage("reading", self.total_bytes, "bytes")
        position, objects = 0, 0  # the latter in bytes, without the characters
        for chunk in self.chunks():
            if self._compressed:
                objects += _ROW_MEMORY * len(chunk) + _CELL_MEMORY * sum(
                    map(bool, chain.from_iterable(chunk.rows))
                )
                if objects + self._characters > _MEMORY + _MEMORY_PER_BYTE * self.total_bytes:
                    raise swollen(self._path)
            rows += chunk.rows
            line_numbers += chunk.line_numbers
            progress.advance(self.position - position)
            position = self.position
        self.close()
        if not rows and self.rejected:
            raise TableError(
                f"none of the {self.rejected:,} rows of {str(self._path)!r} could be read"
                f" ({self.first_reason})",
                expected=(
                    f"rows of {len(self.columns)} cells, as the header"
                    f" {list_columns(self.columns, 6)} has"
                ),
                fix="correct the file, or save the table again as CSV in UTF-8",
            )
        if not rows:
            raise TableError(
                f"{str(self._path)!r} has a header and no rows (columns"
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
            remark=self._remark_of_all(),
            format=self.format,
            encoding=self.encoding,
            delimiter=self.delimiter,
        )

    def _remark_of_all(self) -> str:
        """What is told of a table that was read to its end."""
        repeated = (
            f"{count(self.repeated_headers, 'row')} repeating the header left out"
            if self.repeated_headers
            else ""
        )
        return "; ".join(filter(None, (self.remark, repeated)))

    def peek(self, rows: int = 1000) -> Chunk:
        """The next `rows` rows at most (fewer where cells are long), which `chunks` gives again.

        To guess columns from.
        """
        characters, width = sum(_size(row) for _, row in self._peeked), len(self.columns)
        self._peeking = True
        while (
            len(self._peeked) < rows
            and characters < _CHUNK_CHARACTERS
            and (found := next(self._rows, None))
        ):
            self.accepted += 1
            self._peeked.append(found)
            characters += _size(found[1]) + _CELL_CHARACTERS * (width - len(found[1]))
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
        for found in self._rows:
            self.accepted += 1
            if len(found[1]) == width:
                yield found
            elif padded := self._padded(*found):
                yield found[0], padded
        self._read_to_its_end = True

    def _padded(self, line: int, row: tuple[str, ...]) -> tuple[str, ...] | None:
        """A short row with blank cells at its end.

        None if it ends before its text, and so is rejected.
        """
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
        """The rows but those that are the header once more."""
        place, name = self._telling, self.columns[self._telling] if self.columns else ""
        longest = len(name) + _AROUND if name else -1
        for row in rows:
            cells = row[1]
            if (
                place < len(cells)
                and len(cells[place]) <= longest
                and name in cells[place]
                and self._is_header(cells)
            ):
                self.repeated_headers += 1
                self._reject(row[0], "the header once more", as_line(cells, self.delimiter))
            else:
                yield row

    def _is_header(self, cells: Sequence[str]) -> bool:
        """Whether a row has the names of the columns as its cells, with the marks that files joined end to end have there.

        In a table of one column the name has to be that of a text: else a first message may have
        been taken for the header.
        """
        if len(cells) == 1 and "".join(words_of(self.columns[0])) not in TEXT_WORDS:
            return False
        return name_columns(cell.strip('\ufeff" ') for cell in cells) == self.columns

    def _reject(self, line: int, reason: str, content: str) -> None:
        self.rejected += 1
        self.first_reason = self.first_reason or f"line {line}: {reason}"
        (self._rejects.hold if self._peeking else self._rejects.write)(line, reason, content)

    def close(self) -> None:
        """Close the file and complete that of rejected rows.

        Without any in the whole table, an earlier one goes.
        """
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


def _size(row: Sequence[str]) -> int:
    """Characters that a row weighs in memory, with some for each cell."""
    return sum(map(len, row)) + _CELL_CHARACTERS * len(row)


def open_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    rejects: str | Path | None = None,
    as_written: bool = False,
    known: Sequence[str] | None = None,
) -> TableReader:
    r"""Open a table for reading, in constant memory.

    Every cell is text: "NA", "null", "007" and "1e5" stay what they are; a null of JSON, Parquet or Excel is "". Numbers of JSON keep their
    spelling, those of Parquet and Excel become plain text ("7", "0.1"). Blank lines are not rows. Rows that cannot be read are counted and
    written to `rejects`; accepted + rejected = rows in the file. The last cells of a CSV row may be left out; they are blank then, and the
    rows are counted; see `TableReader.require` for rows that were cut off. Cells beyond the header's are dropped if all are blank. The
    quotes that `formulas.escape_formula` puts before cells of CSV and TSV are removed.

    The header is the first line that is not blank, unless a title, a date and the like stand above it; `remark` then says so, and lines
    keep their numbers. A row that is the header once more is rejected. JSON may be an object a line, a list of objects, or an object with
    one such list, as {"data": [...]}. What is no table, such as a web page or an error message under the name of one, is refused.

    Objects in objects of JSON, and the fields of Parquet's structures, are columns of their own, named "ticket.body"; lists are JSON, and
    so are objects of JSON that have more than 1,000 different keys at one place, such as dates.

    Of an Excel file the first sheet is read that is neither hidden nor empty, decompressed as a whole by the library that reads it; a
    Parquet file needs memory for one row group. Both are read in a worker process that may use 350 MB and 10 bytes for each byte of the
    file. Such files, and gzipped ones, are refused if they hold many times what a table of their size can. JSON files are read twice,
    first for their keys.

    Args:
        path: .csv, .tsv, .jsonl, .ndjson or .json (each also with .gz), .parquet or .xlsx.
        delimiter: what separates cells; found out if not given.
        encoding: any text encoding that Python knows; found out if not given.
        quote: what encloses cells, "" for nothing; found out if not given.
        rejects: a .csv file for rows that cannot be read, with columns line, reason, content_start (the row as it stands in the file, of
            a very long one the first 100,000 characters); made only if there are any, and complete when the reader is closed. An earlier
            one is replaced, or removed when the whole table was read.
        as_written: keep the quotes before cells of CSV and TSV.
        known: columns that the table should have: a line near the start that has them all is the header. None if that is not known; then
            JSON without any object is refused, since its columns cannot be told.

    Raises:
        OutputError: the place for `rejects` cannot be written, or holds another file.
        TableError: for a missing, empty or binary file, a folder, an unknown extension, or a header that cannot be read.

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
    source = open_source(path, kind, delimiter, encoding, quote, as_written=as_written, known=known)
    return TableReader(path, source, kind.format, None if rejects is None else Path(rejects))


def check_outcome(
    source: Path, target: Path, *, overwrite: bool, option: str = "the output"
) -> None:
    """Find out, before any work is done, whether what becomes of the table `source` can be written to `target`.

    Args:
        source: the input.
        target: the table to be written; rows that cannot be read go beside it.
        overwrite: whether a file that is there may be replaced.
        option: what users name the place with.

    Raises:
        OutputError: it or the file of rejected rows is the input, or it exists or cannot be
            written; see `check_output`.
    """
    roles = {
        target: "input and output",
        rejects_of(target): "input, where rows that cannot be read would go",
    }
    for place, role in roles.items():
        if place.exists() and source.exists() and place.samefile(source):
            raise OutputError(
                f"{place} as {role}",
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
    known: Sequence[str] | None = None,
) -> Table:
    """A whole table in memory, with at least one row.

    For the arguments see `open_table` and, of `required`, `TableReader.require`.

    Raises:
        TableError: as `open_table`, and if the file has a header only, or if every row was
            rejected.
    """
    with open_table(
        path, delimiter=delimiter, encoding=encoding, quote=quote, rejects=rejects, known=known
    ) as reader:
        reader.require(required)
        return reader.whole()
