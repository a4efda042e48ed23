"""Search for words in tickets: SQLite's FTS5, PostgreSQL's text search."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

from sqlalchemy import (
    ColumnElement,
    Connection,
    any_,
    column,
    delete,
    func,
    literal_column,
    select,
    table,
    text,
)

from bertcnn.review.rows import upsert
from bertcnn.review.schema import setting, ticket

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

FORGETTING = "forgetting"  # a setting while deleted words are removed
_INDEX = "ticket_words"
_LONGEST = 100_000  # characters of a text that PostgreSQL indexes; its limit is one megabyte
_VECTOR = f"to_tsvector('simple', left(ticket.text, {_LONGEST}))"
_SQLITE = (
    # the texts stay in `ticket`; no ranking, so no sizes of columns
    f"CREATE VIRTUAL TABLE {_INDEX} USING fts5(text, content='ticket', content_rowid='id',"
    " columnsize=0, tokenize='unicode61 remove_diacritics 2')",
    f"CREATE TRIGGER {_INDEX}_insert AFTER INSERT ON ticket BEGIN"
    f" INSERT INTO {_INDEX}(rowid, text) VALUES (new.id, new.text); END",
    f"CREATE TRIGGER {_INDEX}_update AFTER UPDATE OF text ON ticket BEGIN"
    f" INSERT INTO {_INDEX}({_INDEX}, rowid, text) VALUES ('delete', old.id, old.text);"
    f" INSERT INTO {_INDEX}(rowid, text) VALUES (new.id, new.text); END",
)
_POSTGRESQL = (f"CREATE INDEX {_INDEX} ON ticket USING gin (({_VECTOR.replace('ticket.', '')}))",)
_WORD = re.compile(r'"([^"]*)"|(\S+)')
_DELETES = (3, 42, 0)  # from this version on, SQLite can delete words at once
_PAGES = 500  # of the index, rewritten in one transaction
_FEW, _MANY = 2000, 100_000  # tickets: sorted after the search; looked up one by one
_RARE = 20_000  # tickets that PostgreSQL finds by their words first
_EXPECTED = text(
    f"EXPLAIN (FORMAT JSON) SELECT id FROM ticket WHERE {_VECTOR} @@ to_tsquery('simple', :query)"
)


def create_search(connection: Connection) -> None:
    """Create the index of words."""
    lite = connection.dialect.name == "sqlite"
    for statement in _SQLITE if lite else _POSTGRESQL:
        connection.exec_driver_sql(statement)
    if lite and not _keeps_deleted(connection):
        connection.exec_driver_sql(
            f"INSERT INTO {_INDEX}({_INDEX}, rank) VALUES ('secure-delete', 1)"
        )


def note_forgetting(connection: Connection) -> None:
    """Note that words were deleted: `open_review` ends what a killed program has begun."""
    if _keeps_deleted(connection):
        upsert(connection, setting, {"name": FORGETTING, "value": "yes"})


def forget_words(writing: Callable[[], AbstractContextManager[Connection]]) -> None:
    """Remove deleted words from SQLite's index, in transactions of some tenths of a second.

    Earlier versions only mark them as deleted, until all parts of the index are merged into one.
    """
    pages = -_PAGES  # negative: also merge parts of equal size
    while True:
        with writing() as connection:
            if not _keeps_deleted(connection):
                return
            changes = text("SELECT total_changes()")
            before = int(connection.scalar(changes) or 0)
            connection.exec_driver_sql(
                f"INSERT INTO {_INDEX}({_INDEX}, rank) VALUES ('merge', ?)", (pages,)
            )
            if int(connection.scalar(changes) or 0) - before < 2:  # nothing left to merge
                connection.execute(delete(setting).where(setting.c.name == FORGETTING))
                return
        pages = _PAGES


def _keeps_deleted(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite" and sqlite3.sqlite_version_info < _DELETES


def has_words(
    connection: Connection, given: str, *, most: int | None = None
) -> ColumnElement[bool] | None:
    """The condition that a ticket has all words, without case and accents; None for no words.

    A word that ends with * stands for all words that begin so, and words in double quotes must
    follow each other. `most` is a limit for counting: SQLite stops after so many tickets.
    """
    words = [
        (phrase or word.rstrip("*"), word.endswith("*")) for phrase, word in _WORD.findall(given)
    ]
    words = [(word, begins) for word, begins in words if any(map(str.isalnum, word))]
    if not words:
        return None
    if connection.dialect.name == "postgresql":
        terms = [_quoted(word.replace("\\", " "), "'") + ":*" * begins for word, begins in words]
        query = " & ".join(terms)
        has = literal_column(_VECTOR).op("@@", is_comparison=True)(
            func.to_tsquery(literal_column("'simple'"), query)
        )
        [expected] = connection.execute(_EXPECTED, {"query": query}).scalar_one()
        if expected["Plan"]["Plan Rows"] > _RARE:
            return has
        # the planner takes comparing words for cheap, and would do so ticket by ticket, in order
        numbers = select(ticket.c.id).where(has).correlate(None).scalar_subquery()
        return ticket.c.id == any_(func.array(numbers))
    terms = [_quoted(word, '"') + " *" * begins for word, begins in words]
    index = table(_INDEX, column("rowid"), column(_INDEX))
    found = select(index.c.rowid).where(index.c[_INDEX].op("MATCH")(" AND ".join(terms)))
    if most is not None:
        return ticket.c.id.in_(found.order_by(index.c.rowid.desc()).limit(most))
    some = found.limit(_MANY).subquery()
    number = int(connection.scalar(select(func.count()).select_from(some)) or 0)
    if number < _FEW:
        return ticket.c.id.in_(found)
    if number < _MANY or any(begins for _, begins in words):
        return literal_column("+ticket.id").in_(found)  # + for no lookup by number
    return found.where(index.c.rowid == ticket.c.id).exists()


def _quoted(word: str, mark: str) -> str:
    return f"{mark}{word.replace(mark, 2 * mark)}{mark}"
