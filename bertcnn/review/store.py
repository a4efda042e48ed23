"""The review store: one SQLite file, or a PostgreSQL database for teams with several servers."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast
from zoneinfo import available_timezones

from sqlalchemy import Connection, insert, inspect, select
from sqlalchemy.engine import Engine

from bertcnn.errors import SettingsError, StoreError, one_line
from bertcnn.review.databases import (
    clear_errors,
    connect,
    no_store,
    reading,
    writing,
)
from bertcnn.review.people import Person
from bertcnn.review.rows import upsert
from bertcnn.review.schema import APPEND_ONLY, VERSION, setting, tables
from bertcnn.review.search import FORGETTING, create_search, forget_words

Setting = str | float
SETTINGS: Mapping[str, Setting] = {
    "audit_share": 0.2,  # of audits among the tickets that people get
    "double_share": 0.05,  # of tickets that two people decide
    "time_zone": "UTC",
}
_HASH_BYTES = 16
_TEAM = "team."  # before the names of settings that people change


class ReviewStore:
    """Tickets, answers, decisions and models; see `open_review`. Threads may share it."""

    def __init__(self, engine: Engine, name: str, secret: bytes) -> None:
        self._engine, self.name, self.secret = engine, name, secret
        self._reading, self._writing = reading(engine), writing(engine)
        weakref.finalize(self, engine.dispose)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only connection to one snapshot; keep it short, because it blocks SQLite commits.

        Raises:
            StoreError: the store cannot be used, or was busy for 10 seconds.
            OutputError: its disk cannot be read.
        """
        with clear_errors(self.name), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """An exclusive, atomic write transaction; keep it short.

        Raises:
            StoreError: the store cannot be used, or was busy for 10 seconds.
            OutputError: its disk cannot be written.
        """
        with clear_errors(self.name), self._writing.begin() as connection:
            yield connection

    def hashed(self, text: str) -> str:
        """A keyed hash, 32 hexadecimal digits, meaningless without the store."""
        digest = hmac.new(self.secret, text.encode("utf-8", "replace"), hashlib.sha256)
        return digest.hexdigest()[: 2 * _HASH_BYTES]

    def setting(self, name: str, default: Setting | None = None) -> Setting:
        """A setting of the team, such as those in `SETTINGS`; `default` if nobody has set it."""
        with self.reading() as connection:
            return read_setting(connection, name, default)

    def set_setting(self, name: str, value: Setting, person: Person) -> None:
        """Change a setting of the team.

        Raises:
            RoleError: the person is not an admin.
            SettingsError: the value does not fit.
        """
        person.needs("admin", "change a setting")
        _check_setting(name, value)
        with self.writing() as connection:
            upsert(connection, setting, {"name": _TEAM + name, "value": json.dumps(value)})

    def close(self) -> None:
        """Close open connections, as the end of the program does."""
        self._engine.dispose()


def open_review(place: str | os.PathLike[str], *, create: bool = True) -> ReviewStore:
    """Open a review store, creating a missing one if `create` is set.

    `place` is a file, or a URL such as `postgresql://user@host/database`.

    Raises:
        StoreError: it is missing, of another version of bertcnn, or there is no such database.
        OutputError: its disk cannot be written.
        MissingPackageError: PostgreSQL's driver is not installed.
    """
    engine, name = connect(place, create)
    try:
        with clear_errors(name, opening=True):
            settings = _settings(engine, name)
            if settings is None:
                if not create:
                    raise no_store(f"{name} is not a review store")
                _create(engine, name)
                settings = _settings(engine, name) or {}
            if (version := int(settings["version"])) != VERSION:
                raise StoreError(
                    f"{name} has tables of version {version}",
                    expected=f"version {VERSION}, which this program knows",
                    fix=(
                        "install a newer bertcnn"
                        if version > VERSION
                        else "start a new store, and add the model and the tickets again"
                    ),
                )
    except BaseException:
        engine.dispose()
        raise
    store = ReviewStore(engine, name, bytes.fromhex(settings["secret"]))
    if FORGETTING in settings:
        forget_words(store.writing)
    return store


def now() -> float:
    """Seconds since 1970, UTC."""
    return time.time()


def read_setting(connection: Connection, name: str, default: Setting | None = None) -> Setting:
    """A setting of the team; `default`, or the value in `SETTINGS`, if nobody has set it."""
    value = connection.scalar(select(setting.c.value).where(setting.c.name == _TEAM + name))
    if value is not None:
        return cast("Setting", json.loads(value))
    return SETTINGS[name] if default is None else default


def _check_setting(name: str, value: Setting) -> None:
    if name == "time_zone":
        expected, fits = "a zone such as Europe/Berlin", value in available_timezones()
    else:
        expected = f"a value such as {SETTINGS.get(name, value)}"
        fits = name not in SETTINGS or (isinstance(value, float | int) and 0 <= value <= 1)
    if not fits or len(_TEAM + name) > setting.c.name.type.length:
        raise SettingsError(
            f"the setting {one_line(name)} with the value {one_line(value)}",
            expected=expected,
            fix="correct it",
        )


# === Tables ===


def _settings(engine: Engine, name: str) -> dict[str, str] | None:
    with engine.begin() as connection:
        names = inspect(connection).get_table_names()
        if not names:
            return None
        if setting.name in names:
            rows = connection.execute(select(setting.c.name, setting.c.value)).all()
            settings = {row.name: row.value for row in rows}
            if settings.keys() >= {"version", "secret"} and settings["version"].isdecimal():
                return settings
    raise StoreError(
        f"{name} is a database with tables of something else",
        expected="an empty one, or a review store",
        fix="give another file or database",
    )


def _create(engine: Engine, name: str) -> None:
    """Create all tables in one transaction."""
    with writing(engine).begin() as connection:
        if inspect(connection).has_table(setting.name):
            return  # another process was faster
        if connection.dialect.name == "postgresql":
            encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
            if encoding != "UTF8":
                raise StoreError(
                    f"{name} is a database in {encoding}, which cannot hold every text",
                    expected="one in UTF8",
                    fix="create it with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
                )
        tables.create_all(connection, checkfirst=False)
        for table in APPEND_ONLY:
            _forbid_changes(connection, table)
        create_search(connection)
        values = {"version": str(VERSION), "secret": secrets.token_hex(32)}
        connection.execute(
            insert(setting), [{"name": key, "value": value} for key, value in values.items()]
        )


def _forbid_changes(connection: Connection, table: str) -> None:
    """Add a trigger that refuses updates and deletions."""
    message = f"rows of {table} are never changed"
    if connection.dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    connection.exec_driver_sql(
        f"CREATE OR REPLACE FUNCTION {table}_is_append_only() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{message}'; END $$"
    )
    connection.exec_driver_sql(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {table}_is_append_only()"
    )
