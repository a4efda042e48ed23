"""What both databases can do, and how they say what is wrong."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Protocol

from bertcnn.errors import DatabaseError, one_line
from bertcnn.progress import Progress
from bertcnn.tables.sql.spool import Spool
from bertcnn.tables.sql.targets import Target

Rows = list[tuple[Any, ...]]
_WORDS = 240  # characters of a database's own words


class Column(NamedTuple):
    """A column of a query.

    Attributes:
        name: as the query has it.
        type: its SQL type.
        is_text: whether its values are texts, or numbers, times and the like, which can be read as
            such: no bytes, JSON, lists or rows.
    """

    name: str
    type: str
    is_text: bool = True


class Database(Protocol):
    """A database that holds texts and takes answers.

    Every method opens connections of its own and closes them.

    Attributes:
        name: its address, without a password.
    """

    name: str

    def columns(self, query: str) -> list[Column]:
        """The columns of a query; it is not run.

        Raises:
            DatabaseError: it is not one SELECT, or the database cannot be used.
        """

    def rows(
        self, query: str, key: str | None, columns: Sequence[str], most: int | None = None
    ) -> Generator[Rows, None, None]:
        """The rows of a query in batches: the key as it is, then the columns as text.

        Args:
            query: one SELECT; it can change nothing.
            key: the column with the ids; None if they are not wanted.
            columns: names of other columns.
            most: how many rows are wanted; all by default.

        Raises:
            DatabaseError: the database cannot run it.
        """

    def key_type(self, target: Target) -> str:
        """Type and collation of the ids in the spool, which decide which ids are equal."""

    def write(
        self, target: Target, spool: Spool, progress: Progress, *, rehearse: bool = False
    ) -> None:
        """Put the answers into their table, all of them in one transaction.

        Args:
            target: the table, which is made if there is none.
            spool: rows with their answers.
            progress: callback.
            rehearse: do the same without answers, and undo it; ids in the spool are compared.

        Raises:
            DatabaseError: the table has other columns or no such key, or cannot be written; or two
                ids are equal for its key.
        """


def refused(given: str, words: str, *, passes: bool = False) -> DatabaseError:
    """The error for what a database refuses, in its own words.

    Args:
        given: what was given or tried.
        words: those of the database.
        passes: whether the same call may succeed later.
    """
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
    """A query that may stand in brackets in another one: without what ends it.

    Raises:
        DatabaseError: nothing is left.
    """
    bare = query.strip().rstrip(";").rstrip()
    if not bare or "\0" in bare:
        raise DatabaseError(
            f"the query {one_line(query)}",
            expected="one SELECT",
            fix='give one with --query, such as "select id, text from tickets"',
        )
    return bare
