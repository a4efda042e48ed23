"""Writes each table format to an open binary file."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Protocol

from bertcnn.errors import OutputError, one_line
from bertcnn.tables.cells import well_formed
from bertcnn.tables.formats import Format

_EXCEL_ROWS = 1_048_575  # below the header
_EXCEL_COLUMNS = 16_384
_EXCEL_CELL = 32_767  # UTF-16 units
_NO_TIME = datetime(1980, 1, 1, tzinfo=UTC)  # as in the members of the ZIP archive
_PARQUET_GROUP = 32_768  # rows of a row group
_PARQUET_CHARACTERS = 32 * 1024**2  # or this much text


class FormatLimitError(OutputError):
    """A table that exceeds the limits of the output format."""


class Sink(Protocol):
    """Writes rows to an open binary file in one format."""

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """Append rows."""

    def finish(self) -> None:
        """Write everything to the file."""

    def abandon(self) -> None:
        """Release resources, after `finish` or instead of it."""


class _TextSink:
    def __init__(
        self, format_name: Format, gzipped: bool, stream: IO[bytes], columns: Sequence[str]
    ) -> None:
        self._columns = columns
        packed: Any = (
            gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0)
            if gzipped
            else None
        )
        self._packed = packed
        self._text = io.TextIOWrapper(
            packed or stream, encoding="utf-8", newline="", write_through=False
        )
        self._json = format_name == "jsonl"
        delimiter = "\t" if format_name == "tsv" else ","
        self._plain = csv.writer(self._text, delimiter=delimiter, lineterminator="\n")
        # before Python 3.13 a lone CR is not quoted where lines end with LF
        self._quoted = csv.writer(
            self._text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL
        )
        if not self._json:
            self._write_row(columns)

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            if self._json:
                self._text.write(
                    json.dumps(dict(zip(self._columns, row, strict=True)), ensure_ascii=False)
                    + "\n"
                )
            else:
                self._write_row(row)

    def _write_row(self, row: Sequence[str]) -> None:
        writer = self._quoted if "\r" in "".join(row) else self._plain
        writer.writerow(row)

    def finish(self) -> None:
        self._text.flush()
        if self._packed is not None:
            self._packed.close()

    def abandon(self) -> None:
        # unflushed data is discarded with the file
        with suppress(OSError, ValueError):
            self._text.close()


class _ParquetSink:
    def __init__(self, stream: IO[bytes], columns: Sequence[str]) -> None:
        import pyarrow
        import pyarrow.parquet

        self._arrow = pyarrow
        self._schema = pyarrow.schema([(name, pyarrow.string()) for name in columns])
        self._writer = pyarrow.parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._rows: list[Sequence[str]] = []
        self._characters = 0

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            self._rows.append(row)
            self._characters += sum(map(len, row))
            if len(self._rows) >= _PARQUET_GROUP or self._characters >= _PARQUET_CHARACTERS:
                self._write_group()

    def _write_group(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._schema)
        arrays = [self._arrow.array(column, self._arrow.string()) for column in columns]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows, self._characters = [], 0

    def finish(self) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        with suppress(OSError, ValueError):  # the footer can no longer be written
            self._writer.close()


class _ExcelSink:
    """One Excel sheet of plain strings; rows wait in the folder `scratch`, not in memory."""

    def __init__(self, stream: IO[bytes], columns: Sequence[str], scratch: Path) -> None:
        import xlsxwriter

        if len(columns) > _EXCEL_COLUMNS:
            raise FormatLimitError(
                f"{len(columns):,} columns",
                expected=f"at most {_EXCEL_COLUMNS:,} in Excel",
                fix="write a .csv file",
            )
        self._scratch = scratch
        self._scratch.mkdir(mode=0o700)
        options = {
            "constant_memory": True,
            "tmpdir": str(scratch),
            "strings_to_formulas": False,
            "strings_to_urls": False,
        }
        self._book = xlsxwriter.Workbook(stream, options)
        self._book.use_zip64()
        self._book.set_properties({"created": _NO_TIME})
        self._sheet = self._book.add_worksheet("table")
        self._next = 0
        self._write_row(columns)

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            if self._next > _EXCEL_ROWS:
                raise _too_many_rows()
            self._write_row(row)

    def _write_row(self, row: Sequence[str]) -> None:
        for column, cell in enumerate(row):
            if len(cell) > _EXCEL_CELL // 2:
                _check_cell(cell, f"row {self._next}")
            self._sheet.write_string(self._next, column, cell)
        self._next += 1

    def finish(self) -> None:
        import xlsxwriter.exceptions

        try:
            self._book.close()
        except xlsxwriter.exceptions.XlsxWriterException as error:
            raise next(
                (part for part in error.args if isinstance(part, OSError)), OSError(str(error))
            ) from None

    def abandon(self) -> None:
        handle = getattr(self._sheet, "row_data_fh", None)
        if handle is not None:
            with suppress(OSError):
                handle.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _too_many_rows() -> FormatLimitError:
    return FormatLimitError(
        f"more than {_EXCEL_ROWS:,} rows",
        expected=f"at most {_EXCEL_ROWS:,}, Excel's limit",
        fix="write a .csv or .parquet file",
    )


def _check_cell(cell: str, row_name: str) -> None:
    if len(well_formed(cell).encode("utf-16-le")) > 2 * _EXCEL_CELL:
        raise FormatLimitError(
            f"{row_name} has a cell of {len(cell):,} characters, {one_line(cell, 30)}",
            expected=f"at most {_EXCEL_CELL:,}, Excel's limit",
            fix="write a .csv or .parquet file",
        )


def check_fits_excel(chunks: Iterable[tuple[Sequence[int], Sequence[Sequence[str]]]]) -> None:
    """Checks, before any work, that chunks of line numbers and rows fit in an Excel sheet.

    Raises:
        FormatLimitError: it has too many rows or too long a cell.
    """
    count = 0
    for lines, rows in chunks:
        count += len(rows)
        if count > _EXCEL_ROWS:
            raise _too_many_rows()
        for line, row in zip(lines, rows, strict=True):
            for cell in row:
                if len(cell) > _EXCEL_CELL // 2:
                    _check_cell(cell, f"line {line} of the input")


def open_sink(
    format_name: Format, gzipped: bool, stream: IO[bytes], columns: Sequence[str], scratch: Path
) -> Sink:
    """The sink for a format; temporary files go to a new folder named `scratch`.

    No format stores the time of writing, so equal tables are equal files.
    """
    if format_name == "parquet":
        return _ParquetSink(stream, columns)
    if format_name == "xlsx":
        return _ExcelSink(stream, columns, scratch)
    return _TextSink(format_name, gzipped, stream, columns)
