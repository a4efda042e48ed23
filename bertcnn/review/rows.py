"""SQL insertions and expressions for both databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Insert, Integer, Table, cast, func
from sqlalchemy.dialects import postgresql, sqlite


def insert_new(connection: Connection, table: Table) -> Insert:
    """An insertion that skips existing rows."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing()


def upsert(connection: Connection, table: Table, *rows: Mapping[str, Any]) -> None:
    """Insert rows or update those with the same keys; all have the same columns."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table)
    updates = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=updates), [*map(dict, rows)]
    )


def whole_number(connection: Connection, value: ColumnElement[Any]) -> ColumnElement[int]:
    """A non-negative number, rounded down."""
    if connection.dialect.name == "sqlite":
        return cast(value, Integer)  # truncates; `floor` may be missing
    return cast(func.floor(value), Integer)
