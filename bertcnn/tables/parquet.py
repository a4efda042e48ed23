"""Rows of a Parquet file; read in a worker process, see `bertcnn.tables.worker`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.errors import TableError
from bertcnn.tables.cells import MOST_COLUMNS, plain_text, well_formed
from bertcnn.tables.delimited import Reject, Row, as_line, long_cell
from bertcnn.tables.formats import unreadable

_BATCH_ROWS = 1024


class ParquetSource:
    """Parquet, a record batch at a time.

    The fields of a structure are columns of their own, as "ticket.body".

    Attributes:
        header: the names of the columns as they stand in the file.
        remark: nothing.
        total: rows, as far as the file says.
    """

    remark: str = ""

    def __init__(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        self._errors = (
            pyarrow.ArrowException,
            OSError,
            UnicodeDecodeError,
        )  # the last one of names of columns
        self._path = path
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except pyarrow.lib.ArrowMemoryError:  # which is one of the others, too
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

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every row that can be read, with its number; `reject` hears of the others."""
        import pyarrow

        done = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
                columns = [
                    [well_formed(plain_text(value)) for value in _values(column)]
                    for column in _flat(pyarrow.Table.from_batches([batch])).columns
                ]
                for row in zip(*columns, strict=True):
                    done += 1
                    fault = long_cell(row)
                    if fault:
                        reject(done, fault, as_line(row))
                    else:
                        yield done, row
        except pyarrow.lib.ArrowMemoryError:  # which is one of the others, too
            raise MemoryError from None
        except self._errors as error:
            raise unreadable(self._path, "Parquet", error) from None

    def closing_remark(self) -> str:
        """Nothing."""
        return ""


def _flat(table: Any) -> Any:  # noqa: ANN401 - pyarrow tables
    """The table with a column for each field of its structures, and of those in them."""
    while any(str(kind).startswith("struct<") for kind in table.schema.types):
        table = table.flatten()
    return table


def _values(column: Any) -> list[object]:  # noqa: ANN401 - a pyarrow array
    # 32 bits, whose shortest text as 64 bits has digits that nobody wrote
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
    """A value as Python has it; what it does not have as text.

    Bytes in a string, dates beyond the year 9999, unknown time zones as UTC.
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
