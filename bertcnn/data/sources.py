"""One row source for each table format: rows of text cells, unreadable rows reported."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bertcnn.data.cells import MOST_COLUMNS, name_columns, plain_text, well_formed
from bertcnn.data.delimited import MAX_CELL_CHARACTERS, BrokenRowError, Reject, Row, RowReader, as_line, long_cell
from bertcnn.data.dialect import find_encoding, sample_bytes
from bertcnn.data.formats import FileKind
from bertcnn.data.formulas import unescape_formula
from bertcnn.data.header import below_header, find_start, skipped_remark
from bertcnn.data.json_lines import JsonLinesSource
from bertcnn.data.lines import TextFile, undecodable
from bertcnn.data.mixed_encoding import utf_8_remark
from bertcnn.data.not_tables import check_is_table
from bertcnn.errors import TableError, one_line

__all__ = ["MAX_CELL_CHARACTERS", "Reject", "Row", "RowSource", "open_source"]

_BATCH_ROWS = 1024
_LOOKED_AT = 64 * 1024  # bytes that tell whether a text is a table at all
_MOST_NAMELESS = 100  # columns of a sheet right of the last one with a name; with more, somebody has touched a cell far away
_QUOTED = re.compile('"[^"]*"')
_LONE_RETURN = re.compile("\r(?!\n)")  # ends lines in files from old Macintoshes, and in what Excel calls "CSV (Macintosh)"


class RowSource(Protocol):
    """An open file of rows."""

    columns: tuple[str, ...]  # different names, to choose by
    header: tuple[str, ...]  # the names as they stand in the file
    encoding: str | None
    delimiter: str | None
    remark: str  # which part of the file is not read, if so

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every row that can be read, with its line; `reject` hears of the others. A short one lacks its last cells."""

    def position(self) -> int:
        """Bytes of the file done."""

    def close(self) -> None:
        """Let go of the file."""


def open_source(
    path: Path,
    kind: FileKind,
    delimiter: str | None,
    encoding: str | None,
    quote: str | None,
    *,
    as_written: bool = False,
    known: Sequence[str] | None = None,
) -> RowSource:
    """The source for a file that `formats.check_input` has let pass; `known` are columns that it should have, if that is known."""
    if kind.format == "parquet":
        return _ParquetSource(path)
    if kind.format == "xlsx":
        return _ExcelSource(path, known or ())
    if kind.format == "jsonl":
        return JsonLinesSource(path, kind, encoding, known)
    return _DelimitedSource(path, kind, delimiter, encoding, quote, as_written, known or ())


def _unreadable(path: Path, wanted: str, error: Exception) -> TableError:
    return TableError(
        f"{str(path)!r} cannot be read as {wanted} ({one_line(error, 120)})", expected=f"a complete {wanted} file", fix="export it again"
    )


class _DelimitedSource:
    """CSV and TSV."""

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        delimiter: str | None,
        encoding: str | None,
        quote: str | None,
        as_written: bool,
        known: Sequence[str] = (),
    ) -> None:
        blocks = sample_bytes(path, kind.gzipped)
        given, encoding = encoding, find_encoding(path, kind, blocks, encoding)
        mixed = "" if given else utf_8_remark(str(path), blocks, encoding)
        sample, newline = _decoded_start(blocks[0], encoding)
        check_is_table(path, codecs.getincrementaldecoder(encoding)("replace").decode(blocks[0][:_LOOKED_AT]))
        start = find_start(sample, kind.format == "tsv", delimiter, quote, known)
        dialect, self.remark = start.dialect, "; ".join(filter(None, (mixed, start.remark)))
        self.encoding: str | None = encoding
        self.delimiter: str | None = dialect.delimiter
        self._file = TextFile(path, kind.gzipped, encoding, newline, is_mixed=bool(mixed))
        self._early: list[tuple[int, str, str]] = []
        self._reject: Reject = lambda line, reason, content: self._early.append((line, reason, content))
        self._reader = RowReader(self._file, dialect, lambda *found: self._reject(*found), as_written=as_written)
        try:
            self._reader.skip(start.above)
            self.header = self._header(path)
        except BaseException:
            self.close()
            raise
        self.columns = name_columns(map(unescape_formula, self.header) if as_written else self.header)

    def _header(self, path: Path) -> tuple[str, ...]:
        try:
            header = self._reader.header()
        except BrokenRowError as broken:
            raise TableError(
                f"the header of {str(path)!r} cannot be read: {broken}", expected="a first line of column names", fix="correct that line"
            ) from None
        if header is None:
            raise TableError(f"{str(path)!r} holds blank lines only", expected="a header and at least 1 row", fix="export it again")
        if any(map(undecodable, header)):
            raise TableError(
                f"the header of {str(path)!r} is not text in the encoding {self.encoding}",
                expected="the encoding the file was saved in",
                fix="save the table again as CSV in UTF-8",
            )
        if len(header) > MOST_COLUMNS or long_cell(header):
            raise TableError(
                f"the first line of {str(path)!r} is no header: {len(header):,} cells, {one_line(header[0], 40)} ...",
                expected=f"at most {MOST_COLUMNS:,} column names",
                fix="put the names of the columns into the first line",
            )
        return header

    def rows(self, reject: Reject) -> Iterator[Row]:
        self._reject = reject
        return self._reader.rows(len(self.columns))

    def position(self) -> int:
        return self._file.position()

    def close(self) -> None:
        self._file.close()


def _decoded_start(block: bytes, encoding: str) -> tuple[str, str]:
    """The start of the file as text, up to its last line break, and what its lines end with."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(block[: 1024**2]).removeprefix("\ufeff")
    bare = _QUOTED.sub("", text)
    first, lone = re.search("[\r\n]", bare), len(_LONE_RETURN.findall(bare))
    newline = "\r" if first and _LONE_RETURN.match(bare, first.start()) and lone > bare.count("\n") else "\n"
    whole = text[: text.rfind(newline) + 1] or text
    return (whole.replace("\r", "\n") if newline == "\r" else whole), newline


class _ParquetSource:
    """Parquet, a record batch at a time; the fields of a structure are columns of their own, as "ticket.body"."""

    encoding: str | None = None
    delimiter: str | None = None
    remark: str = ""

    def __init__(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self._errors = (pyarrow.ArrowException, OSError, UnicodeDecodeError)  # the last one of names of columns
        self._path = path
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except self._errors as error:
            raise _unreadable(path, "Parquet", error) from None
        self.header = tuple(_flat(self._file.schema_arrow.empty_table()).column_names)
        self.columns = name_columns(self.header)
        self._size, self._done = path.stat().st_size, 0

    def rows(self, reject: Reject) -> Iterator[Row]:
        import pyarrow

        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS):
                columns = [
                    [well_formed(plain_text(value)) for value in _values(column)]
                    for column in _flat(pyarrow.Table.from_batches([batch])).columns
                ]
                for row in zip(*columns, strict=True):
                    self._done += 1
                    fault = long_cell(row)
                    if fault:
                        reject(self._done, fault, as_line(row))
                    else:
                        yield self._done, row
        except self._errors as error:
            raise _unreadable(self._path, "Parquet", error) from None

    def position(self) -> int:
        return self._size * self._done // max(1, self._file.metadata.num_rows)

    def close(self) -> None:
        self._file.close()


def _flat(table: Any) -> Any:  # noqa: ANN401 - pyarrow tables
    """The table with a column for each field of its structures, and of those in them."""
    while any(str(kind).startswith("struct<") for kind in table.schema.types):
        table = table.flatten()
    return table


def _values(column: Any) -> list[object]:  # noqa: ANN401 - a pyarrow array
    if str(column.type) == "float":  # 32 bits, whose shortest text as 64 bits has digits that nobody wrote
        return [None if value is None or math.isnan(value) else str(np.float32(value)).removesuffix(".0") for value in column.to_pylist()]
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(map(_value, column))


def _value(cell: Any) -> object:  # noqa: ANN401 - a pyarrow scalar
    """A value as Python has it; what it does not have as text: bytes in a string, dates beyond the year 9999, unknown time zones as UTC."""
    import pyarrow

    with suppress(OverflowError, ValueError):
        return cell.as_py()  # type: ignore[no-any-return]
    if isinstance(cell, pyarrow.StructScalar):
        return {name: _value(cell[name]) for name in cell}
    if isinstance(cell, pyarrow.ListScalar):  # maps, too
        return list(map(_value, cell.values))
    if isinstance(cell, pyarrow.TimestampScalar) and cell.type.tz:
        return _value(cell.cast(pyarrow.timestamp(cell.type.unit)))
    for kind in (pyarrow.binary(), pyarrow.string()):
        with suppress(OverflowError, ValueError, pyarrow.ArrowException):
            return cell.cast(kind).as_py()  # type: ignore[no-any-return]
    return str(cell)


class _ExcelSource:
    """The first sheet of an Excel workbook that is neither hidden nor empty; the library that reads it holds it in memory."""

    encoding: str | None = None
    delimiter: str | None = None
    remark: str = ""

    def __init__(self, path: Path, known: Sequence[str] = ()) -> None:
        import python_calamine

        try:
            workbook = python_calamine.load_workbook(str(path))
            seen = python_calamine.SheetVisibleEnum.Visible, python_calamine.SheetTypeEnum.WorkSheet
            names = [sheet.name for sheet in workbook.sheets_metadata if (sheet.visible, sheet.typ) == seen]
            sheets = [sheet for sheet in map(workbook.get_sheet_by_name, names) if any(_has_text(row) for row in sheet.iter_rows())]
        except (python_calamine.CalamineError, OSError, ValueError) as error:
            raise _unreadable(path, "Excel", error) from None
        if not sheets:
            raise TableError(
                f"{str(path)!r} has no sheet with anything in it, hidden ones not counted",
                expected="a header and at least 1 row",
                fix="save the workbook again with the table in its first sheet",
            )
        sheet, *others = sheets
        remarks = []
        if others:
            left_out = ", ".join(f"{one_line(other.name, 40)} ({other.height:,} rows)" for other in others)
            remarks.append(f"only the sheet {one_line(sheet.name, 40)} of {str(path)!r} is read; it has others: {left_out}")
        rows = enumerate(sheet.iter_rows(), 1)
        self._size, self._height, self._done = path.stat().st_size, max(1, sheet.total_height), 0
        first, above = below_header(rows, known)
        if above:
            remarks.append(skipped_remark(above))
        header = list(map(plain_text, first[0][1]))
        self._rows = chain(first[1:], rows)
        named = max(place for place, name in enumerate(header, 1) if name)
        self._width = named if len(header) - named > _MOST_NAMELESS else len(header)
        if self._width < len(header):
            remarks.append(
                f"{len(header) - named:,} columns without a name right of {one_line(header[named - 1], 40)} in {str(path)!r} are not read"
            )
        self.remark = "; ".join(remarks)
        self.header = tuple(header[: self._width])
        self.columns = name_columns(self.header)

    def rows(self, reject: Reject) -> Iterator[Row]:
        for number, values in self._rows:
            self._done = number
            row = tuple(map(plain_text, values[: self._width]))
            if not any(row):
                continue
            fault = long_cell(row)
            if fault:
                reject(number, fault, as_line(row))
            else:
                yield number, row

    def position(self) -> int:
        return self._size * self._done // self._height

    def close(self) -> None:
        self._rows = chain()


def _has_text(row: Iterable[object]) -> bool:
    return any(map(plain_text, row))
