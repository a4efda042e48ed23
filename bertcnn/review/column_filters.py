"""Values of the tickets' further columns, such as a channel, for columns that have few of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, delete, insert, select, update

from bertcnn.review.rows import insert_new
from bertcnn.review.schema import column_value, ticket_value
from bertcnn.review.store import ReviewStore

MOST_VALUES = 50  # of a column that lists can be filtered by
MOST_COLUMNS = 20
_LONGEST = 200  # characters of a name or a value

Cell = tuple[str, str]  # name of the column, value


def column_values(store: ReviewStore) -> dict[str, dict[str, int]]:
    """The columns with few values, and how many tickets have each value."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    with store.reading() as connection:
        for row in connection.execute(
            select(column_value)
            .where(column_value.c.value.is_not(None))
            .order_by(column_value.c.name, column_value.c.value)
        ):
            found[row.name][row.value] = row.tickets
    return dict(found)


def keep_values(
    connection: Connection, tickets: Sequence[tuple[int, float, Mapping[str, str]]]
) -> None:
    """Keep the values of new tickets, given their numbers, times of arrival and columns."""
    known, full = _known(connection)
    counts = Counter(cell for *_, columns in tickets for cell in _cells(columns))
    by_column: dict[str, set[str]] = defaultdict(set)
    for name, value in [*known, *counts]:
        by_column[name].add(value)
    for place, (name, values) in enumerate(by_column.items()):
        too_many = len(values) > MOST_VALUES or any(len(one) > _LONGEST for one in values)
        if name not in full and (too_many or place >= MOST_COLUMNS):
            _give_up(connection, name, [known[cell] for cell in known if cell[0] == name])
            full.add(name)
    kept = {cell: number for cell, number in counts.items() if cell[0] not in full}
    for (name, value), number in kept.items():
        here = (column_value.c.name == name) & (column_value.c.value == value)
        if (name, value) in known:
            more = {"tickets": column_value.c.tickets + number}
            connection.execute(update(column_value).where(here).values(**more))
        else:
            added = insert(column_value).values(name=name, value=value, tickets=number)
            identity = connection.scalar(added.returning(column_value.c.id))
            known[name, value] = int(identity or 0)
    rows = [
        {"value": known[cell], "arrived_at": arrived_at, "ticket": identity}
        for identity, arrived_at, columns in tickets
        for cell in _cells(columns)
        if cell in kept
    ]
    if rows:
        connection.execute(insert_new(connection, ticket_value), rows)


def forget_values(
    connection: Connection, identity: int, arrived_at: float, columns: Mapping[str, str]
) -> None:
    """Forget the values of a ticket, and those that no other ticket has."""
    known, _ = _known(connection)
    values = [known[cell] for cell in _cells(columns) if cell in known]
    connection.execute(
        delete(ticket_value).where(
            ticket_value.c.value.in_(values),
            ticket_value.c.arrived_at == arrived_at,
            ticket_value.c.ticket == identity,
        )
    )
    here = column_value.c.id.in_(values)
    connection.execute(update(column_value).where(here).values(tickets=column_value.c.tickets - 1))
    connection.execute(delete(column_value).where(here, column_value.c.tickets <= 0))


def _known(connection: Connection) -> tuple[dict[Cell, int], set[str]]:
    """The kept values with their numbers, and the columns with too many values."""
    rows = connection.execute(select(column_value).order_by(column_value.c.id)).all()
    known = {(row.name, row.value): row.id for row in rows if row.value is not None}
    return known, {row.name for row in rows if row.value is None}


def _cells(columns: Mapping[str, str]) -> Iterator[Cell]:
    for name, cell in columns.items():
        if (value := cell.strip()) and len(name) <= _LONGEST:
            yield name, value


def _give_up(connection: Connection, name: str, values: Sequence[int]) -> None:
    connection.execute(delete(ticket_value).where(ticket_value.c.value.in_(values)))
    connection.execute(delete(column_value).where(column_value.c.name == name))
    connection.execute(insert(column_value).values(name=name, value=None, tickets=0))
