"""Tables in, in constant memory and with nothing lost silently.

CSV, TSV, JSONL, Parquet and Excel files become rows of text cells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Self

from bertcnn.data.formats import Format, check_input
from bertcnn.data.lines import swollen
from bertcnn.data.sources import MAX_CELL_CHARACTERS, RowSource, open_source
from bertcnn.data.writing import TableWriter, check_output, clean_leftovers, explained
from bertcnn.disk.files import companion
from bertcnn.errors import ColumnError, OutputError, TableError, one_line
from bertcnn.progress import Progress, Silent

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
_CHARACTERS, _CHARACTERS_PER_BYTE = 96 * 1024**2, 200  # that a compressed file may swell to, and so many for each of its bytes
_MEMORY, _MEMORY_PER_BYTE = 300_000_000, 64  # bytes that a compressed file as a whole table in memory may swell to
_ROW_MEMORY, _CELL_MEMORY = 120, 50  # bytes that a row and each of its cells take there, besides their characters
_CONTENT_CHARACTERS = 200
_REJECT_COLUMNS = ("line", "reason", "content_start")


def closest_name(name: str, columns: tuple[str, ...]) -> str | None:
    """The column that `name` may have meant: equal but for case and spaces, else similar, else None."""
    import difflib

    plain = {column.strip().casefold(): column for column in reversed(columns)}
    close = difflib.get_close_matches(name.strip().casefold(), list(plain), n=1)
    return plain[close[0]] if close else None


def column_position(name: str, columns: tuple[str, ...]) -> int:
    """Where column `name` is.

    Raises:
        ColumnError: if there is none; it lists the columns found and suggests the closest.
    """
    if name in columns:
        return columns.index(name)
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
        line_numbers: where each row starts in the file: the line of a text file (the header is line 1), the row of an Excel sheet, or the
            row of a Parquet file, counted from 1.
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
        rejected: how many rows of the file could not be read.
        remark: which part of the file is not read, such as other sheets of a workbook; mostly empty.
    """

    path: Path = field(default=Path())
    rejected: int = 0
    remark: str = ""


class TableReader:
    """An open table: `columns` at once, rows in chunks; see `open_table`.

    Attributes:
        columns: the header; a repeated name gets a number ("text_2"), an empty one its place ("column_3").
        format: csv, tsv, jsonl, parquet or xlsx.
        encoding: of a text file, None of others.
        delimiter: of a CSV or TSV file, empty if it has one column; None of others.
        accepted: rows read so far.
        rejected: rows refused so far.
        total_bytes: size of the file.
    """

    def __init__(self, path: Path, source: RowSource, format_name: Format, rejects: Path | None) -> None:
        self._path = path
        self._source = source
        self.columns = source.columns
        self.format = format_name
        self.encoding = source.encoding
        self.delimiter = source.delimiter
        self.total_bytes = path.stat().st_size
        self.accepted = 0
        self.rejected = 0
        self.first_reason = ""  # of the first rejected row
        self._rejects_path = rejects
        self._rejects: TableWriter | None = None
        self._rows = source.rows(self._reject)
        self._read_to_its_end = False
        self._peeked: deque[tuple[int, tuple[str, ...]]] = deque()
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
            if self._compressed and self._characters > _CHARACTERS + _CHARACTERS_PER_BYTE * self.total_bytes:
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
                objects += _ROW_MEMORY * len(chunk) + _CELL_MEMORY * sum(map(bool, chain.from_iterable(chunk.rows)))
                if objects + self._characters > _MEMORY + _MEMORY_PER_BYTE * self.total_bytes:
                    raise swollen(self._path)
            rows += chunk.rows
            line_numbers += chunk.line_numbers
            progress.advance(self.position - position)
            position = self.position
        self.close()
        if not rows and self.rejected:
            raise TableError(
                f"none of the {self.rejected:,} rows of {str(self._path)!r} could be read ({self.first_reason})",
                expected=f"rows of {len(self.columns)} cells, as the header {list_columns(self.columns, 6)} has",
                fix="correct the file, or save the table again as CSV in UTF-8",
            )
        if not rows:
            raise TableError(
                f"{str(self._path)!r} has a header and no rows (columns {list_columns(self.columns, 6)})",
                expected="at least 1 row below the header",
                fix="export the table again",
            )
        return Table(self.columns, rows, line_numbers, self._path, self.rejected, self.remark)

    def peek(self, rows: int = 1000) -> Chunk:
        """The next `rows` rows at most (fewer where cells are long), which `chunks` gives again: to guess columns from."""
        characters = sum(_size(row) for _, row in self._peeked)
        while len(self._peeked) < rows and characters < _CHUNK_CHARACTERS and (found := next(self._read(), None)):
            self._peeked.append(found)
            characters += _size(found[1])
        seen = list(islice(self._peeked, rows))
        return Chunk(self.columns, [row for _, row in seen], [line for line, _ in seen])

    def _next_rows(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        while self._peeked:
            yield self._peeked.popleft()
        yield from self._read()

    def _read(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        for row in self._rows:
            self.accepted += 1
            yield row
        self._read_to_its_end = True

    def _reject(self, line: int, reason: str, content: str) -> None:
        self.rejected += 1
        self.first_reason = self.first_reason or f"line {line}: {reason}"
        if self._rejects_path is None:
            return
        if self._rejects is None:
            self._rejects = TableWriter(self._rejects_path, _REJECT_COLUMNS, overwrite=True).__enter__()
        start = content[:_CONTENT_CHARACTERS].encode("utf-8", "backslashreplace").decode()
        self._rejects.write([(str(line), reason, start)])

    def close(self) -> None:
        """Close the file and complete that of rejected rows; without any in the whole table, an earlier one goes."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._source.close()
        rejects, self._rejects = self._rejects, None
        if rejects is not None:
            rejects.__exit__(kind, error, trace)
        elif error is None and self._rejects_path is not None and self._read_to_its_end and not self.rejected:
            with explained(self._rejects_path):
                self._rejects_path.unlink(missing_ok=True)


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
) -> TableReader:
    r"""Open a table for reading, in constant memory.

    Every cell is text: "NA", "null", "007" and "1e5" stay what they are; a null of JSON, Parquet or Excel is "". Numbers of JSON keep their
    spelling, those of Parquet and Excel become plain text ("7", "0.1"). Blank lines are not rows. Rows that cannot be read are counted and
    written to `rejects`; accepted + rejected = rows in the file. A CSV row with fewer cells than the header is rejected, since a row that
    was cut off looks the same as one whose last cells were left out; cells beyond the header's are dropped if all are empty.

    Objects in objects of JSONL, and the fields of Parquet's structures, are columns of their own, named "ticket.body"; lists are JSON, and
    so are objects of JSONL that have more than 1,000 different keys at one place, such as dates.

    Of an Excel file the first sheet is read that is neither hidden nor empty, decompressed as a whole by the library that reads it; a
    Parquet file needs memory for one row group. Both are read in a worker process that may use 350 MB and 10 bytes for each byte of the
    file. Such files, and gzipped ones, are refused if they hold many times what a table of their size can. JSONL files are read twice,
    first for their keys.

    Args:
        path: .csv, .tsv, .jsonl or .ndjson (each also with .gz), .parquet or .xlsx.
        delimiter: what separates cells; found out if not given.
        encoding: any text encoding that Python knows; found out if not given.
        quote: what encloses cells, "" for nothing; found out if not given.
        rejects: a .csv file for rows that cannot be read, with columns line, reason, content_start; made only if there are any, and
            complete when the reader is closed. An earlier one is replaced, or removed when the whole table was read.

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
        _check_rejects(Path(rejects))
    source = open_source(path, kind, delimiter, encoding, quote)
    return TableReader(path, source, kind.format, None if rejects is None else Path(rejects))


def _check_rejects(path: Path) -> None:
    """Refuse a place for rows that cannot be read where a file stands that is none of those.

    Raises:
        OutputError: there is one, or the place cannot be written.
    """
    check_output(path, overwrite=True)
    clean_leftovers(path)
    if path.exists():
        with path.open("rb") as file:
            if file.readline(200).strip() != ",".join(_REJECT_COLUMNS).encode():
                raise OutputError(
                    f"{str(path)!r}, where rows that cannot be read would go, is another file",
                    expected="a name that is free, or an earlier list of such rows",
                    fix="move it away, or choose another name for the output",
                )


def rejects_of(target: Path) -> Path:
    """Where the rows go that cannot be read of the table, or of the training data, that becomes `target`: beside it."""
    return companion(target, ".rejects.csv")


def check_outcome(source: Path, target: Path, *, overwrite: bool, option: str = "the output") -> None:
    """Find out, before any work is done, whether what becomes of the table `source` can be written to `target`.

    Args:
        source: the input.
        target: the table to be written; rows that cannot be read go beside it.
        overwrite: whether a file that is there may be replaced.
        option: what users name the place with.

    Raises:
        OutputError: it or the file of rejected rows is the input, or it exists or cannot be written; see `check_output`.
    """
    roles = {target: "input and output", rejects_of(target): "input, where rows that cannot be read would go"}
    for place, role in roles.items():
        if place.exists() and source.exists() and place.samefile(source):
            raise OutputError(f"{place} as {role}", expected="two different files", fix=f"choose another name for {option}")
    check_output(target, overwrite)


def read_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    rejects: str | Path | None = None,
) -> Table:
    """A whole table in memory, with at least one row; for the arguments see `open_table`.

    Raises:
        TableError: as `open_table`, and if the file has a header only, or if every row was rejected.
    """
    with open_table(path, delimiter=delimiter, encoding=encoding, quote=quote, rejects=rejects) as reader:
        return reader.whole()
