"""The interface of both databases, and their errors."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Protocol

from bertcnn.errors import DatabaseError, one_line
from bertcnn.progress import Progress
from bertcnn.tables.sql.spool import Spool
from bertcnn.tables.sql.targets import Target

Rows = list[tuple[Any, ...]]
_WORDS = 240  # maximum characters of a database's message


class Column(NamedTuple):
    """A column of a query and its SQL type.

    `is_text` says whether values can be read as text: texts, numbers and times; not bytes, JSON,
    lists and rows.
    """

    name: str
    type: str
    is_text: bool = True


class Database(Protocol):
    """A database with texts, and tables for the predictions.

    Every method opens and closes its own connections. `name` is the address without a password.
    """

    name: str

    def columns(self, query: str) -> list[Column]:
        """The columns of a query, which is not run.

        Raises:
            DatabaseError: it is not one SELECT, or the database cannot be used.
        """

    def rows(
        self, query: str, key: str | None, columns: Sequence[str], most: int | None = None
    ) -> Generator[Rows, None, None]:
        """The rows of one SELECT in batches: the unchanged key, if any, then the columns as text.

        `most` limits the number of rows. The query cannot change anything.

        Raises:
            DatabaseError: the database cannot run it.
        """

    def key_type(self, target: Target) -> str:
        """Type and collation of the ids in the spool, which decide which ids are equal."""

    def write(
        self, target: Target, spool: Spool, progress: Progress, *, rehearse: bool = False
    ) -> None:
        """Writes the predictions in `spool` to their table, created if missing, in one transaction.

        `rehearse` does the same without predictions, compares the ids, and rolls back.

        Raises:
            DatabaseError: the table has other columns or no such key, or cannot be written; or two
                ids are equal for its key.
        """


def refused(given: str, words: str, *, passes: bool = False) -> DatabaseError:
    """The error for a rejected action; `passes` says whether it may succeed later."""
    expected, fix = (
        ("a database that answers and is not busy", "run the same command again")
        if passes
        else (
            "one SELECT that this user may run, and a table that this user may write",
            "correct what the database names",
        )
    )
    said = one_line(" ".join(words.split()), _WORDS)
    return DatabaseError(f"{given}: {said}", expected=expected, fix=fix, passes=passes)


def one_select(query: str) -> str:
    """A query without a final semicolon, for use as a subquery.

    Raises:
        DatabaseError: it is empty or contains NUL.
    """
    bare = query.strip().rstrip(";").rstrip()
    if not bare or "\0" in bare:
        raise DatabaseError(
            f"the query {one_line(query)}",
            expected="one SELECT",
            fix='give one with --query, such as "select id, text from tickets"',
        )
    return bare
