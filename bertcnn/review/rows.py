"""Insertions that both databases know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_new(connection: Connection, table: Table) -> Insert:
    """An insertion that leaves out rows that are there already."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).on_conflict_do_nothing()


def upsert(connection: Connection, table: Table, *rows: Mapping[str, Any]) -> None:
    """Insert rows, or give those with their keys these values; all have the same columns."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table)
    others = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=others), [*map(dict, rows)]
    )
