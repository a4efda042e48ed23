"""SQLite, by Python's own module.

ADBC's driver infers column types from the first rows, and fails on later rows of another type
(apache/arrow-adbc#2532).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

from bertcnn.errors import DatabaseError, one_line
from bertcnn.progress import Progress
from bertcnn.tables.cells import well_formed
from bertcnn.tables.sql.database import Column, Rows, one_select, refused
from bertcnn.tables.sql.identifiers import quoted
from bertcnn.tables.sql.spool import Spool
from bertcnn.tables.sql.targets import Target
from bertcnn.values import plain_text

_TYPES = {True: "REAL", False: "TEXT"}
_BATCH_ROWS = 4096
_PATIENCE = 10.0  # seconds to wait for another program's transaction
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL}


class SQLite:
    """A database in an existing file; see `bertcnn.tables.sql.database.Database`.

    Raises:
        DatabaseError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.name = f"sqlite:///{self._path}"
        if not self._path.is_file():
            raise DatabaseError(
                f"there is no database {str(path)!r}",
                expected="sqlite:///FILE, where a SQLite file is",
                fix="check the path: four slashes begin a path from the root",
            )

    def columns(self, query: str) -> list[Column]:
        """See `Database`; the type is empty for a column of any type."""
        with self._reading() as connection:
            connection.execute(
                f"CREATE TEMPORARY TABLE found AS SELECT * FROM ({one_select(query)}\n) LIMIT 0"
            )
            result = connection.execute("PRAGMA temp.table_info(found)")
            return [Column(str(name), str(kind)) for _, name, kind, *_ in result]

    def rows(
        self, query: str, key: str | None, columns: Sequence[str], most: int | None = None
    ) -> Generator[Rows, None, None]:
        """See `Database`."""
        keys = [] if key is None else [key]
        selected = ", ".join(map(quoted, (*keys, *columns)))
        limit = "" if most is None else f" LIMIT {most}"
        with self._reading() as connection:
            result = connection.execute(f"SELECT {selected} FROM ({one_select(query)}\n){limit}")
            while batch := result.fetchmany(_BATCH_ROWS):
                if key is not None and bytes in set(map(type, chain.from_iterable(batch))):
                    _check_no_blob(columns, batch)
                yield [
                    (
                        *row[: len(keys)],
                        *(well_formed(plain_text(value)) for value in row[len(keys) :]),
                    )
                    for row in batch
                ]

    def key_type(self, target: Target) -> str:
        """See `Database`; an existing table's key type, since the table converts ids to it."""
        table = target.table.table
        with self._reading() as connection:
            types = dict(
                connection.execute("SELECT name, type FROM pragma_table_info(?, 'main')", (table,))
            )
            collations = connection.execute(
                "SELECT coll FROM pragma_index_list(?, 'main') AS list,"
                " pragma_index_xinfo(list.name) AS part"
                ' WHERE list."unique" AND part.key AND part.name = ?',
                (table, target.id),
            ).fetchall()
        type_name = types.get(target.id, target.id_type)
        return " ".join((type_name, *(f"COLLATE {quoted(name)}" for (name,) in collations[:1])))

    def write(
        self, target: Target, spool: Spool, progress: Progress, *, rehearse: bool = False
    ) -> None:
        """See `Database`."""
        if target.table.schema not in (None, "main"):
            raise DatabaseError(
                f"the table {target.table}",
                expected="a name without a schema, which SQLite does not have",
                fix="name the table alone",
            )
        if rehearse and spool.rows:  # the spool has compared the ids
            return
        table = f"target.{quoted(target.table.table)}"
        connection = spool.connection
        with self._explained(f"the table {target.table} cannot be written"):
            connection.execute("COMMIT")  # the spool's, in which no file can be attached
            connection.execute("ATTACH DATABASE ? AS target", (f"{self._path.as_uri()}?mode=rw",))
            try:
                connection.execute("BEGIN IMMEDIATE")
                existing = connection.execute(
                    f"PRAGMA target.table_info({quoted(target.table.table)})"
                )
                target.check_columns([name for _, name, *_ in existing])
                connection.execute(target.create(table, _TYPES))
                progress.stage("writing the answers", spool.rows)
                connection.execute(target.replace(table, spool.answered))
                progress.advance(spool.rows)
                connection.execute("ROLLBACK" if rehearse else "COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                connection.execute("DETACH DATABASE target")
                connection.execute("BEGIN")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with (
            self._explained("the query cannot be run"),
            closing(
                sqlite3.connect(
                    f"{self._path.as_uri()}?mode=ro",
                    timeout=_PATIENCE,
                    isolation_level=None,
                    check_same_thread=False,
                    uri=True,
                )
            ) as connection,
        ):
            connection.text_factory = lambda value: value.decode("utf-8", "replace")
            yield connection

    @contextmanager
    def _explained(self, problem: str) -> Iterator[None]:
        """Converts errors of SQLite during the block to a DatabaseError."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            problem = f"{problem} in {self.name}"
            raise refused(problem, str(error), passes=code in _BUSY) from None


def _check_no_blob(columns: Sequence[str], batch: Rows) -> None:
    for key, *cells in batch:
        for name, cell in zip(columns, cells, strict=True):
            if isinstance(cell, bytes):
                raise DatabaseError(
                    f"the column {one_line(name, 40)} has a BLOB in the row of {one_line(key, 60)}",
                    expected="texts",
                    fix="name a column of texts with --text, or use CAST(... AS TEXT) in the query",
                )
