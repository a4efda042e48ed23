"""A PostgreSQL session by ADBC, with rows in Arrow record batches.

It uses ADBC's low-level interface, because the DB-API would import pandas if installed, 60 MB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import adbc_driver_manager as adbc
import adbc_driver_postgresql as driver
import numpy as np
import pyarrow

# Arrow raises errors while reading a batch as OSError.
ERRORS: Final = (adbc.Error, pyarrow.ArrowException, OSError)
_BATCH_BYTES = 1 << 18  # of a batch that is read
_TO_TEMPORARY_TABLE = {
    adbc.StatementOptions.INGEST_MODE.value: adbc.INGEST_OPTION_MODE_APPEND,
    adbc.StatementOptions.INGEST_TEMPORARY.value: "true",
}


class Session:
    """A connection to an `address` of libpq; the caller begins and ends each transaction.

    Prepared statements of the driver have no name and end with the transaction, so that a pooler
    cannot mix them up with others.

    Raises:
        adbc_driver_manager.Error: there is no connection; or later, a statement failed.
    """

    def __init__(self, address: str) -> None:
        self._database = driver.connect(address)
        try:
            self._connection = adbc.AdbcConnection(self._database)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Closes the connection; uncommitted changes are rolled back."""
        self._connection.close()
        self._database.close()

    def execute(self, statement: str) -> None:
        """Runs one or more statements that return no rows."""
        with self._prepared(statement) as prepared:
            prepared.execute_update()

    @contextmanager
    def rows(self, query: str) -> Iterator[pyarrow.RecordBatchReader]:
        """Streams the rows of a query."""
        size = {driver.StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BATCH_BYTES)}
        with self._prepared(query, size) as prepared:
            stream, _ = prepared.execute_query()
            with pyarrow.RecordBatchReader.from_stream(stream) as reader:
                yield reader

    def append(self, table: str, batch: pyarrow.RecordBatch) -> None:
        """Loads rows into a temporary table."""
        options = {adbc.StatementOptions.INGEST_TARGET_TABLE.value: table, **_TO_TEMPORARY_TABLE}
        with self._prepared(None, options) as prepared:
            reader = pyarrow.RecordBatchReader.from_batches(batch.schema, [batch])
            prepared.bind_stream(reader.__arrow_c_stream__())
            prepared.execute_update()

    @contextmanager
    def _prepared(
        self, statement: str | None, options: dict[str, str] | None = None
    ) -> Iterator[Any]:
        with closing(adbc.AdbcStatement(self._connection)) as prepared:
            prepared.set_options(**(options or {}))
            if statement is not None:
                prepared.set_sql_query(statement)
            yield prepared


def record_batch(columns: Sequence[Sequence[Any]], numbers: Sequence[bool]) -> pyarrow.RecordBatch:
    """Builds a batch of texts or numbers, with None for nulls, named by `column_name`.

    `pyarrow.array` would import pandas.
    """
    arrays = [
        (_numbers if number else _texts)(cells)
        for cells, number in zip(columns, numbers, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, names=list(map(column_name, range(len(arrays)))))


def column_name(place: int) -> str:
    """The name of a column of a record batch."""
    return f"column_{place}"


def cells_of(column: pyarrow.Array) -> list[str | None]:
    """The texts of a column; invalid UTF-8, from a database without an encoding, is replaced."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [
            None if cell is None else cell.decode("utf-8", "replace")
            for cell in column.cast(pyarrow.binary()).to_pylist()
        ]


def _texts(cells: Sequence[str | None]) -> pyarrow.Array:
    encoded = [b"" if cell is None else cell.encode("utf-8", "replace") for cell in cells]
    offsets = np.zeros(len(cells) + 1, np.int32)
    np.cumsum([len(cell) for cell in encoded], out=offsets[1:])
    buffers = [_not_null(cells), pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"".join(encoded))]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(cells), buffers)


def _numbers(cells: Sequence[float | None]) -> pyarrow.Array:
    values = np.array([0.0 if cell is None else cell for cell in cells], np.float64)
    buffers = [_not_null(cells), pyarrow.py_buffer(values)]
    return pyarrow.Array.from_buffers(pyarrow.float64(), len(cells), buffers)


def _not_null(cells: Sequence[object]) -> pyarrow.Buffer:
    valid = np.array([cell is not None for cell in cells], bool)
    return pyarrow.py_buffer(np.packbits(valid, bitorder="little"))
