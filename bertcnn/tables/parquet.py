"""Reads the rows of a Parquet file, in a worker process (see `bertcnn.tables.worker`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.errors import TableError, one_line
from bertcnn.tables.cells import MOST_COLUMNS
from bertcnn.tables.delimited import Reject, Row, as_line, long_cell
from bertcnn.tables.formats import unreadable
from bertcnn.tables.lines import undecodable
from bertcnn.values import plain_text

_BATCH_ROWS = 1024


class ParquetSource:
    """Rows of a Parquet file by record batches; fields of structures are named "ticket.body"."""

    remark: str = ""

    def __init__(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self._errors = (
            pyarrow.ArrowException,
            OSError,
            UnicodeDecodeError,
        )  # for column names
        self._path = path
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except pyarrow.lib.ArrowMemoryError:  # a subclass of one of the others
            raise MemoryError from None
        except self._errors as error:
            raise unreadable(path, "Parquet", error) from None
        names = _flat(self._file.schema_arrow.empty_table()).column_names
        if len(names) > MOST_COLUMNS:
            raise TableError(
                f"{str(path)!r} has {len(names):,} columns",
                expected=f"at most {MOST_COLUMNS:,}",
                fix="export fewer columns",
            )
        self.header = tuple(names)
        self.total = self._file.metadata.num_rows
        self._not_text: dict[int, str] = {}

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every readable row with its number; calls `reject` for the others."""
        import pyarrow

        done = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
                table = _flat(pyarrow.Table.from_batches([batch]))
                columns = [list(map(plain_text, python_values(one))) for one in table.columns]
                self._empty_binary(table, columns)
                for row in zip(*columns, strict=True):
                    done += 1
                    fault = long_cell(row) or _bytes_in(row)
                    if fault:
                        reject(done, fault, as_line(row))
                    else:
                        yield done, row
        except pyarrow.lib.ArrowMemoryError:  # a subclass of one of the others
            raise MemoryError from None
        except self._errors as error:
            raise unreadable(self._path, "Parquet", error) from None

    def _empty_binary(self, table: Any, columns: list[list[str]]) -> None:  # noqa: ANN401
        """Empties columns of bytes that are not text, such as images."""
        for index, (kind, cells) in enumerate(zip(table.schema.types, columns, strict=True)):
            if "binary" not in str(kind):
                continue
            if index in self._not_text or sum(map(undecodable, cells)) > len(cells) / 2:
                self._not_text[index] = self.header[index]
                columns[index] = [""] * len(cells)

    def closing_remark(self) -> str:
        """The names of the emptied columns."""
        if not self._not_text:
            return ""
        shown = ", ".join(one_line(name, 40) for name in self._not_text.values())
        return f"bytes that are no text are left empty in {str(self._path)!r}: column {shown}"


def _flat(table: Any) -> Any:  # noqa: ANN401 - pyarrow tables
    """Replaces structures, also nested ones, by a column for each field."""
    while any(str(kind).startswith("struct<") for kind in table.schema.types):
        table = table.flatten()
    return table


def _bytes_in(row: tuple[str, ...]) -> str:
    return "bytes that are not text in UTF-8" if any(map(undecodable, row)) else ""


def python_values(column: Any) -> list[object]:  # noqa: ANN401 - a pyarrow array
    """The values of a column, for `plain_text`."""
    # float32: as 64 bits its shortest text would have spurious digits
    if str(column.type) == "float":
        return [
            (
                None
                if value is None or math.isnan(value)
                else str(np.float32(value)).removesuffix(".0")
            )
            for value in column.to_pylist()
        ]
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(map(_value, column))


def _value(cell: Any) -> object:  # noqa: ANN401 - a pyarrow scalar
    """The Python value of a cell; unknown time zones are UTC.

    Bytes in a string and dates beyond the year 9999 become text.
    """
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
