"""Search for words in tickets: SQLite's FTS5, PostgreSQL's text search."""

from __future__ import annotations

from sqlalchemy import Connection

_LONGEST = 100_000  # characters of a text that PostgreSQL indexes; its limit is one megabyte
WORDS = f"to_tsvector('simple', left(ticket.text, {_LONGEST}))"
_INDEX = "ticket_words"
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
_POSTGRESQL = (f"CREATE INDEX {_INDEX} ON ticket USING gin (({WORDS.replace('ticket.', '')}))",)


def create_search(connection: Connection) -> None:
    """Create the index of words."""
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.exec_driver_sql(statement)
