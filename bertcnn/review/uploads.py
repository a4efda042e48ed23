"""The files that tickets came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from bertcnn.errors import StoreError
from bertcnn.review.people import Person
from bertcnn.review.rows import insert_new
from bertcnn.review.schema import upload, upload_ticket
from bertcnn.review.store import ReviewStore, now

_LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class Upload:
    """A file whose tickets were added.

    Attributes:
        at: seconds since 1970, UTC.
        columns: of the file, in its order.
        text_columns: the file's columns that the text came from.
        id_column: the column of the tickets' own ids, or None.
        time_column: the column of the times, or None.
        tickets: number of its tickets in the store.
    """

    id: int
    name: str
    actor: str
    at: float
    columns: tuple[str, ...]
    text_columns: tuple[str, ...]
    id_column: str | None
    time_column: str | None
    tickets: int


def list_uploads(store: ReviewStore) -> list[Upload]:
    """The files that tickets came from, newest first."""
    with store.reading() as connection:
        rows = connection.execute(select(upload).order_by(upload.c.id.desc()))
        return [_upload(row) for row in rows]


def find_upload(connection: Connection, identity: int) -> Upload:
    """A file by its number; StoreError if there is none."""
    row = connection.execute(select(upload).where(upload.c.id == identity)).first()
    if row is None:
        raise StoreError(
            f"no file with the number {identity}",
            expected="the number of a file whose tickets were added",
            fix="see list_uploads",
        )
    return _upload(row)


def _upload(row: Row[Any]) -> Upload:
    lists = {name: tuple(getattr(row, name)) for name in ("columns", "text_columns")}
    return Upload(**{**row._mapping, **lists})


def add_upload(
    store: ReviewStore,
    name: str,
    person: Person | None,
    *,
    columns: Sequence[str],
    text_columns: Sequence[str],
    id_column: str | None,
    time_column: str | None,
) -> int:
    """Add a file; returns its number."""
    values = {
        "name": name[-_LONGEST:],
        "actor": person.name if person else "",
        "at": now(),
        "columns": list(columns),
        "text_columns": list(text_columns),
        "id_column": id_column,
        "time_column": time_column,
    }
    with store.writing() as connection:
        added = insert(upload).values(**values).returning(upload.c.id)
        return int(connection.scalar(added) or 0)


def note_upload(
    connection: Connection, identity: int, tickets: Sequence[tuple[int, float]]
) -> None:
    """Add tickets to a file, given their numbers and times of arrival."""
    if not tickets:
        return
    added = connection.execute(
        insert_new(connection, upload_ticket).returning(upload_ticket.c.ticket),
        [
            {"upload": identity, "ticket": number, "arrived_at": arrived_at}
            for number, arrived_at in tickets
        ],
    ).all()
    more = {"tickets": upload.c.tickets + len(added)}
    connection.execute(update(upload).where(upload.c.id == identity).values(**more))
