"""PostgreSQL by ADBC, which reads and writes with COPY.

Only texts and numbers are transferred: the query casts other types to text, and the final statement
casts ids back to their type. A pooler may lend the connection to another program after each
transaction, so no setting, temporary table or prepared statement outlives one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from bertcnn.data import prefetch
from bertcnn.errors import DatabaseError, explain_missing_packages, one_line
from bertcnn.progress import Progress
from bertcnn.tables.sql.database import Column, Rows, one_select, refused
from bertcnn.tables.sql.identifiers import quoted
from bertcnn.tables.sql.spool import Spool, wrong_ids
from bertcnn.tables.sql.targets import Target

if TYPE_CHECKING:
    from bertcnn.tables.sql.adbc import Session

_TYPES = {True: "double precision", False: "text"}
# types that hold one character or bit if no length is given, and types of any length
_ANY_LENGTH = {"character": "bpchar", "bit": "bit varying"}
_STAGING = "bertcnn staging"  # a temporary table, dropped with the transaction
_KEYS = "bertcnn keys"
# types whose values are equal if, and only if, their texts are
_EQUAL_AS_TEXT = {"smallint", "integer", "bigint", "uuid", "text", "character varying"}
# bytes, JSON, bits, arrays, geometry, pseudo-types (rows), composites and ranges (typcategory)
_NO_TEXT, _NO_TEXT_KINDS = {"bytea", "json", "jsonb"}, "AGPRCV"
_LONGEST_NAME = 63  # bytes; PostgreSQL truncates longer names
_BATCH_ROWS = 4096
_PATIENCE = 10  # seconds for connecting, and for a lock
_SETTINGS = (
    "SET LOCAL client_encoding = 'UTF8'; SET LOCAL standard_conforming_strings = on;"
    f" SET LOCAL lock_timeout = '{_PATIENCE}s'"
)
_WRITING = f"BEGIN; {_SETTINGS}"
_READING = (  # a stable order of rows, so that a run can be resumed
    f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_SETTINGS};"
    " SET LOCAL synchronize_seqscans = off"
)
# appendix A of PostgreSQL's manual: connections, timeouts, rollbacks, resources, locks, shutdowns,
# the system
_PASSING = ("08", "25P03", "25P04", "40", "53", "55P03", "57", "58")
# errors while connecting, which have no code
_LASTING = re.compile(
    "password|does not exist|authentication|no pg_hba.conf entry|permission|no such|unsupported"
)
# errors of a broken connection, also without a code, from the driver, the server or a pooler
_LOST = re.compile(
    "server closed the connection|terminating connection|connection to (the )?server"
    "|canceling statement|query_wait_timeout|no more connections|too many|server_login_retry"
)
_PREFIX = re.compile(
    r"\A(?:[A-Z_]+: )?(?:\[libpq\] )?(?:Failed to connect: )?(?:.*?[A-Z]{4,}:  )?", re.S
)
_TAIL = re.compile(r"\n+(?:LINE \d+:|Query was:|CONTEXT:).*|\s*\. SQLSTATE: \w+\s*\Z", re.S)


class PostgreSQL:
    """A database on a server; see `bertcnn.tables.sql.database.Database`.

    `address` is `postgresql://...`, as libpq takes it, and `name` the same without a password.

    Raises:
        MissingPackageError: the driver is not installed.
    """

    def __init__(self, address: str, name: str) -> None:
        with explain_missing_packages():
            from bertcnn.tables.sql import adbc
        self._adbc, self._address, self.name = adbc, address, name
        if "connect_timeout=" not in address and "PGCONNECT_TIMEOUT" not in os.environ:
            self._address += f"{'&' if '?' in address else '?'}connect_timeout={_PATIENCE}"

    def columns(self, query: str) -> list[Column]:
        """See `Database`."""
        select = one_select(query)
        with self._reading() as session:
            with session.rows(f"SELECT * FROM ({select}\n) AS query LIMIT 0") as batches:
                names = batches.schema.names
            if not names:
                return []
            # by position, since names may be repeated; the outer join gives one row of nulls
            aliases = [self._adbc.column_name(index) for index in range(len(names))]
            types = ", ".join(f"pg_typeof({alias})::text" for alias in aliases)
            kinds = self._first_column(
                session,
                "SELECT (SELECT typcategory::text FROM pg_type WHERE oid = kind::regtype) || kind"
                f" FROM (SELECT unnest(ARRAY[{types}]) AS kind FROM (VALUES (1)) AS one LEFT JOIN"
                f" (SELECT * FROM ({select}\n) AS query LIMIT 0) AS found({', '.join(aliases)})"
                " ON true) AS kinds",
            )
        return [_column(name, kind[0], kind[1:]) for name, kind in zip(names, kinds, strict=True)]

    def rows(
        self, query: str, key: str | None, columns: Sequence[str], most: int | None = None
    ) -> Generator[Rows, None, None]:
        """See `Database`."""
        names = [*([] if key is None else [key]), *columns]
        selected = ", ".join(
            f"CAST({quoted(name)} AS text) AS column_{index}" for index, name in enumerate(names)
        )
        limit = "" if most is None else f" LIMIT {most}"
        statement = f"SELECT {selected} FROM ({one_select(query)}\n) AS query{limit}"
        with self._reading() as session, session.rows(statement) as batches:
            for batch in batches:
                keys, *text_columns = map(self._adbc.cells_of, batch.columns)
                if key is None:
                    keys = [cell or "" for cell in keys]
                texts = ([cell or "" for cell in cells] for cells in text_columns)
                yield list(zip(keys, *texts, strict=True))

    def key_type(self, target: Target) -> str:  # noqa: ARG002 - as `Database` has it
        """See `Database`: ids are texts, which `write` also compares as keys."""
        return ""

    def write(
        self, target: Target, spool: Spool, progress: Progress, *, rehearse: bool = False
    ) -> None:
        """See `Database`."""
        _check_lengths(target)
        table = target.table.sql
        numbers = [False, *target.columns.values()]
        staged = list(map(self._adbc.column_name, range(len(numbers))))
        end = "ROLLBACK" if rehearse else "COMMIT"
        problem = f"the table {target.table} cannot be written"
        with self._session(problem, _WRITING, end) as session:
            target.check_columns(self._first_column(session, _columns_of(table)))
            session.execute(target.create(table, _TYPES))
            columns = (
                f"{name} {_TYPES[number]}" for name, number in zip(staged, numbers, strict=True)
            )
            session.execute(
                f"CREATE TEMPORARY TABLE {quoted(_STAGING)} ({', '.join(columns)}) ON COMMIT DROP"
            )
            if not rehearse:
                self._stage(session, numbers, spool, progress)
            key, *answers = staged
            values = ", ".join((f"CAST({key} AS {target.id_type})", *answers))
            rows = f"SELECT {values} FROM pg_temp.{quoted(_STAGING)} WHERE true"
            session.execute(target.replace(table, rows))
            if rehearse and spool.rows:
                self._check_keys(session, target, spool)

    def _stage(
        self, session: Session, numbers: Sequence[bool], spool: Spool, progress: Progress
    ) -> None:
        progress.stage("writing the answers", spool.rows)
        batches = (
            self._adbc.record_batch(list(zip(*rows, strict=True)), numbers)
            for rows in spool.batches(_BATCH_ROWS)
        )
        for batch in prefetch(batches):
            session.append(_STAGING, batch)
            progress.advance(len(batch))

    def _check_keys(self, session: Session, target: Target, spool: Spool) -> None:
        """Raises DatabaseError if ids, whose texts all differ, are equal as keys of the table."""
        table, kind = target.table.sql, target.id_type
        staging, keys = quoted(_STAGING), quoted(_KEYS)
        equal_as_text = self._first_column(
            session,
            f"SELECT (format_type(atttypid, atttypmod) = {_literal(kind)}"
            " AND coalesce(collisdeterministic, true))::text"
            " FROM pg_attribute LEFT JOIN pg_collation ON pg_collation.oid = attcollation"
            f" WHERE attrelid = to_regclass({_literal(table)}) AND attname = {_literal(target.id)}",
        )
        if kind in _EQUAL_AS_TEXT and equal_as_text == ["true"]:
            return
        for rows in spool.batches(_BATCH_ROWS, only_ids=True):
            ids = self._adbc.record_batch(list(zip(*rows, strict=True)), [False])
            session.append(_STAGING, ids)
        id_name = self._adbc.column_name(0)
        session.execute(
            f"CREATE TEMPORARY TABLE {keys} ON COMMIT DROP AS"
            f" SELECT CAST(NULL AS text) AS given, {quoted(target.id)} AS key FROM {table} LIMIT 0;"
            f" INSERT INTO {keys} SELECT {id_name}, CAST({id_name} AS {kind})"
            f" FROM pg_temp.{staging}"
        )
        equal = self._first_column(
            session,
            f"SELECT unnest(ARRAY[min(given), max(given)]) FROM pg_temp.{keys}"
            " GROUP BY key HAVING count(*) > 1 LIMIT 2",
        )
        if equal:
            name, values = one_line(target.id, 40), [one_line(value, 60) for value in equal]
            raise wrong_ids(f"the {name} {' and '.join(values)}, which are equal in the table")

    def _first_column(self, session: Session, query: str) -> list[str]:
        with session.rows(query) as batches:
            return [str(cell) for batch in batches for cell in self._adbc.cells_of(batch.column(0))]

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        """A read-only session with one snapshot of the database."""
        with self._session("the query cannot be run", _READING) as session:
            yield session

    @contextmanager
    def _session(self, problem: str, begin: str, end: str = "ROLLBACK") -> Iterator[Session]:
        """A new session in a transaction; converts errors to DatabaseError and rolls back."""
        try:
            session = self._adbc.Session(self._address)
        except self._adbc.ERRORS as error:
            raise self._unreachable(str(error)) from None
        try:
            with closing(session):
                session.execute(begin)
                yield session
                session.execute(end)
        except self._adbc.ERRORS as error:
            words = _words(str(error))
            passes = will_pass(getattr(error, "sqlstate", None), words)
            raise refused(f"{problem} in {self.name}", words, passes=passes) from None

    def _unreachable(self, message: str) -> DatabaseError:
        words = _words(message)
        return DatabaseError(
            f"the database {self.name} cannot be reached: {one_line(' '.join(words.split()), 240)}",
            expected="a server that runs, and a user and a database that it knows",
            fix=(
                "check the address, and the password in it, in PGPASSWORD or in ~/.pgpass; then"
                " run the same command again"
            ),
            passes=_LASTING.search(words) is None,
        )


def will_pass(state: str | None, words: str) -> bool:
    """Whether the same call may succeed later, after an SQLSTATE code, if any, and a message."""
    passes = (state or "").startswith(_PASSING) or _LOST.search(words) is not None
    return passes and _LASTING.search(words) is None


def _columns_of(table: str) -> str:
    """The query of a table's columns; without such a table it returns no rows."""
    return (
        f"SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass({_literal(table)})"
        " AND attnum > 0 AND NOT attisdropped"
    )


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _column(name: str, category: str, kind: str) -> Column:
    is_text = category not in _NO_TEXT_KINDS and kind not in _NO_TEXT
    return Column(name, _ANY_LENGTH.get(kind, kind), is_text)


def _check_lengths(target: Target) -> None:
    for name in (target.table.table, *target.names):
        if len(name.encode()) > _LONGEST_NAME:
            raise DatabaseError(
                f"the name {one_line(name)} has {len(name.encode())} bytes",
                expected=f"at most {_LONGEST_NAME}, as PostgreSQL takes",
                fix="choose a shorter name, or leave out --probabilities if it is a label's",
            )


def _words(message: str) -> str:
    r"""The server's message, without the parts that the driver adds.

    Example:
        >>> _words("NOT_FOUND: Failed to prepare query: ERROR:  no table\nLINE 1: select")
        'no table'
    """
    return _TAIL.sub("", _PREFIX.sub("", message)).strip()
