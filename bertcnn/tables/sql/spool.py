"""Stores a query's rows and predictions on disk, so that no transaction stays open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from bertcnn.errors import DatabaseError, OutputError, one_line
from bertcnn.tables.tables import Chunk

COLUMN = "text"
_CHUNK_CHARACTERS = 16 * 1024**2  # as for files: a chunk ends early when it holds this much text
_PATIENCE = 10.0  # seconds to wait for the lock of a database file


class Spool:
    """A private database in an unnamed temporary file, which ends with the process.

    First `add` the rows, then read `chunks`, and `put` their predictions in the same order. Two
    threads may read and put.

    Args:
        answers: columns of the predictions.
        key_type: type and collation of the ids in SQLite.

    Attributes:
        connection: in a transaction; its tables `rows` and `answers` both have a `number`.
        columns: the only column of the chunks.
        rows: number of rows added.
        total_bytes: characters of their texts, for the progress.
        position: number of these characters read so far.

    Raises:
        OutputError: the disk of temporary files is full.
    """

    columns = (COLUMN,)

    def __init__(self, answers: Sequence[str], key_type: str = "") -> None:
        self.rows = self.total_bytes = self.position = 0
        self._answers = [f"answer_{index}" for index in range(len(answers))]
        self.connection = sqlite3.connect(
            "", timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=True
        )
        columns = ", ".join(self._answers)
        # SQLite would delete the file after a crash anyway, so no journal is needed
        self.connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;"
            f"CREATE TABLE rows (number INTEGER PRIMARY KEY, id {key_type}, text);"
            f"CREATE TABLE answers (number INTEGER PRIMARY KEY, {columns})"
        )
        placeholders = ", ".join("?" for _ in self._answers)
        self._insert = f"INSERT INTO answers ({columns}) VALUES ({placeholders})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    def add(self, rows: Sequence[tuple[Any, str]]) -> None:
        """Adds rows of an id and a text."""
        with _on_disk():
            self.connection.executemany("INSERT INTO rows (id, text) VALUES (?, ?)", rows)
        self.rows += len(rows)
        self.total_bytes += sum(len(text) for _, text in rows)

    def check_ids(self, column: str) -> None:
        """Raises DatabaseError if an id is null or repeated; `column` names it in the error."""
        with _on_disk():
            nulls = self._first("SELECT count(*) FROM rows WHERE id IS NULL")
            repeated = self._first(
                "SELECT id, count(*) FROM rows GROUP BY id HAVING count(*) > 1 LIMIT 1"
            )
        if nulls[0]:
            raise wrong_ids(f"a null {one_line(column, 40)} in {nulls[0]:,} of {self.rows:,} rows")
        if repeated:
            value, times = repeated
            raise wrong_ids(f"the {one_line(column, 40)} {one_line(value, 60)} in {times:,} rows")

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """The texts, at most `rows` at a time (fewer if they are long)."""
        with _on_disk():
            cursor = self.connection.execute("SELECT text FROM rows ORDER BY number")
            chunk, characters = Chunk(self.columns, [], []), 0
            for (text,) in cursor:
                chunk.rows.append((text,))
                characters += len(text)
                if len(chunk) == rows or characters >= _CHUNK_CHARACTERS:
                    yield self._passed(chunk)
                    chunk, characters = Chunk(self.columns, [], []), 0
            if chunk.rows:
                yield self._passed(chunk)

    def put(self, answers: Sequence[tuple[Any, ...]]) -> None:
        """Adds the predictions of the next rows."""
        with _on_disk():
            self.connection.executemany(self._insert, answers)

    @property
    def answered(self) -> str:
        """A SELECT of the id and the predictions of each row, in the order of the rows."""
        columns = ", ".join(f"answers.{name}" for name in self._answers)
        return (
            f"SELECT rows.id, {columns} FROM rows JOIN answers ON answers.number = rows.number"
            " WHERE true ORDER BY rows.number"
        )

    def batches(self, rows: int, *, only_ids: bool = False) -> Iterator[list[tuple[Any, ...]]]:
        """The ids with their predictions, `rows` at a time."""
        with _on_disk():
            cursor = self.connection.execute("SELECT id FROM rows" if only_ids else self.answered)
            while batch := cursor.fetchmany(rows):
                yield batch

    def _passed(self, chunk: Chunk) -> Chunk:
        self.position += sum(len(row[0]) for row in chunk.rows)
        return chunk

    def _first(self, statement: str) -> Any:  # noqa: ANN401 - a row
        return self.connection.execute(statement).fetchone()


def wrong_ids(fault: str) -> DatabaseError:
    """The error for ids that are not unique keys; `fault` describes them."""
    return DatabaseError(
        f"the query has {fault}; nothing was written",
        expected="an id that each row has, and no other row",
        fix="correct the query, as with DISTINCT, or name another column with --id",
    )


@contextmanager
def _on_disk() -> Iterator[None]:
    """Converts an error of SQLite during the block, such as a full disk."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OutputError(
            f"the rows of the query cannot be kept on disk ({error})",
            expected="room for all texts in the folder of temporary files",
            fix="make room, or name another folder in the variable SQLITE_TMPDIR",
            passes=True,
        ) from None
