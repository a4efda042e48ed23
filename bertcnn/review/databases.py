"""Connections to a review store's database, SQLite or PostgreSQL, and its errors."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, event, make_url
from sqlalchemy.engine import Engine
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,
)
from sqlalchemy.pool import NullPool

from bertcnn.errors import BertCNNError, OutputError, StoreError, missing_package, one_line
from bertcnn.storage import check_file_target, expanded
from bertcnn.tables.sql import will_pass

PATIENCE = 10.0  # seconds that a transaction waits for another
_POLL = 0.01  # seconds
_IDLE = 60.0  # seconds until PostgreSQL ends the transaction of a stopped program
_WAL_FROM = (3, 51, 3)  # earlier versions can corrupt a file under several writers
_LOCK = 0x6265_7274  # PostgreSQL's advisory lock of the writer

# primary codes of SQLite, sqlite.org/rescode.html
_SQL_ERROR, _NOT_WRITABLE, _BUSY, _NO_STORE = {1}, {3, 8, 10, 13, 14}, {5, 6}, {11, 26}
# PostgreSQL's manual, appendix A: timeouts, and the exception of our trigger
_BUSY_SERVER, _OUR_TRIGGER = {"55P03", "57014", "25P03", "25P04"}, "P0001"


def connect(place: str | os.PathLike[str], create: bool) -> tuple[Engine, str]:
    """Create an engine without connecting; also returns its name without a password.

    `place` is a file, created if `create` is set, or a URL such as
    `postgresql://user@host/database`.

    Raises:
        StoreError: there is no such file, or the URL is not for PostgreSQL.
        OutputError: the file cannot be created.
        MissingPackageError: PostgreSQL's driver is not installed.
    """
    if isinstance(place, str) and "://" in place:
        return _postgresql(place)
    file = expanded(place).absolute()  # SQLite would interpret "file:a" and ":memory:"
    if not os.path.isfile(file):  # noqa: PTH113 - Path.is_file raises for some names
        if not create:
            raise no_store(f"no review store at {file}")
        check_file_target(file, overwrite=True)
    return _sqlite(file), str(file)


def reading(engine: Engine) -> Engine:
    """The engine with read-only transactions on one snapshot."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(reading=True)
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def writing(engine: Engine) -> Engine:
    """The engine with exclusive write transactions."""
    return engine.execution_options(writing=True)


def no_store(given: str) -> StoreError:
    """The error for a place without a store."""
    return StoreError(
        given,
        expected="a review store",
        fix="check the path, or make one: bertcnn models add MODEL --store FILE",
    )


@contextmanager
def clear_errors(name: str, *, opening: bool = False) -> Iterator[None]:
    """Convert database errors in the block into one-line messages.

    Violated constraints and changes to append-only tables are programming errors and pass
    unchanged. With `opening`, unknown tables may belong to another program.

    Raises:
        StoreError: the store cannot be used, or is busy.
        OutputError: its disk cannot be read or written.
    """
    try:
        yield
    except TimeoutError as error:  # of the pool
        raise _busy(name, "all connections are in use") from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        if isinstance(error, IntegrityError) or getattr(cause, "sqlstate", "") == _OUR_TRIGGER:
            raise
        is_lite = isinstance(cause, sqlite3.Error)
        raise (_of_sqlite(name, cause, opening) if is_lite else _of_others(name, cause)) from error


# === SQLite ===


def _sqlite(file: Path) -> Engine:
    """Short connections with explicit transactions, because the driver begins them too late."""
    _check_search()

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            file, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in (
                "synchronous = FULL",
                "foreign_keys = ON",
                "recursive_triggers = ON",  # else INSERT OR REPLACE would not fire the triggers
                "secure_delete = ON",
            ):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("reading"):
            connection.exec_driver_sql("PRAGMA query_only = ON")
        if options.get("writing"):  # not before: the file may belong to another program
            _set_journal(connection)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing") else "BEGIN")

    return engine


def _set_journal(connection: Connection) -> None:
    """Set the journal mode, with retries: SQLite does not wait while others change it."""
    wal = sqlite3.sqlite_version_info >= _WAL_FROM
    until = time.monotonic() + PATIENCE
    while True:
        try:
            connection.exec_driver_sql(f"PRAGMA journal_mode = {'WAL' if wal else 'TRUNCATE'}")
        except OperationalError as error:
            busy = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _BUSY
            if not busy or time.monotonic() > until:
                raise
            time.sleep(_POLL)
        else:
            return


def _check_search() -> None:
    """Raise StoreError if this process has an SQLite without the search for words (FTS5)."""
    with closing(sqlite3.connect(":memory:")) as connection:
        options = {row[0] for row in connection.execute("PRAGMA compile_options")}
    if "ENABLE_FTS5" not in options:
        raise StoreError(
            f"an SQLite without FTS5 ({sqlite3.sqlite_version}), such as TensorFlow's own",
            expected="an SQLite that can search for words",
            fix="import bertcnn before tensorflow, or use PostgreSQL",
        )


def _of_sqlite(name: str, cause: sqlite3.Error, opening: bool) -> BertCNNError:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return _busy(name, str(cause))
    if code in _NOT_WRITABLE:
        return OutputError(
            f"the review store {name} cannot be read or written ({cause})",
            expected="a file and a folder that you may write to, with room on the disk",
            fix="check the rights and the disk",
        )
    if code in _NO_STORE or (opening and code in _SQL_ERROR):
        return StoreError(
            f"{name} is not a review store, or is damaged ({cause})",
            expected="a review store",
            fix="check the path, or put a copy of the store there",
        )
    return _of_others(name, cause)


# === PostgreSQL ===


def _postgresql(address: str) -> tuple[Engine, str]:
    """A small pool of connections; one writes at a time, as in SQLite."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    usable = url is not None and url.get_backend_name() == "postgresql" and url.database
    if not usable or "@" in (url.host or ""):  # the end of a password
        kind = address.partition("://")[0]
        raise StoreError(
            f"a review store at an address that begins with {one_line(f'{kind}://')}",
            expected="a file, or postgresql://USER@HOST/DATABASE, with %40 for @ in a password",
            fix="correct the address",
        )
    try:
        import psycopg
    except ImportError:
        raise missing_package("psycopg") from None
    name = url.difference_update_query(["password", "sslpassword"]).render_as_string()
    query = {"connect_timeout": f"{PATIENCE:.0f}", **url.query}
    engine = create_engine(
        url.set(drivername="postgresql+psycopg", query=query),
        module=psycopg,
        client_encoding="utf8",
        connect_args={"prepare_threshold": None},  # a prepared statement outlives its transaction
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        pool_pre_ping=True,
        pool_timeout=PATIENCE,
    )
    # local: behind a pooler, the next transaction on the connection may be another client's
    limits = (
        f"SET LOCAL lock_timeout = '{PATIENCE:g}s';"
        f" SET LOCAL idle_in_transaction_session_timeout = '{_IDLE:g}s'"
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("writing")
        lock = f"; SELECT pg_advisory_xact_lock({_LOCK})" if writing else ""
        connection.exec_driver_sql(f"{limits}{lock}")

    return engine, name


def _of_others(name: str, cause: BaseException) -> StoreError:
    """The error for a message of PostgreSQL, a pooler, a driver or SQLAlchemy."""
    state = getattr(cause, "sqlstate", None)
    reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
    if state in _BUSY_SERVER:
        return _busy(name, reason)
    return StoreError(
        f"the review store {name} cannot be used ({reason})",
        expected="a database that runs, and that its user may read and change",
        fix="check the address, the password and the server, then try again",
        passes=will_pass(state, reason),
    )


def _busy(name: str, reason: str) -> StoreError:
    return StoreError(
        f"the review store {name} is busy ({reason})",
        expected=f"a store that no other program uses for {PATIENCE:g} s",
        fix="try again, or end the program that uses it",
        passes=True,
    )
