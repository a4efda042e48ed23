"""Lists of tickets: a view filters them, newest first, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    case,
    false,
    func,
    literal,
    select,
    tuple_,
)

from bertcnn.errors import SettingsError, one_line
from bertcnn.review.decisions import FIRST_WORDS
from bertcnn.review.people import name_key
from bertcnn.review.queue import skipped_by_all
from bertcnn.review.schema import (
    STATES,
    column_value,
    decision,
    mention,
    note,
    prediction,
    ticket,
    ticket_value,
    upload_ticket,
)
from bertcnn.review.search import has_words
from bertcnn.review.store import ReviewStore, now, read_setting
from bertcnn.review.tickets import named

PAGE = 50  # tickets
COUNTED = 10_000  # tickets of a view that are counted one by one
_OF_A_LABEL = 20_000  # tickets; other filters come first if they have fewer
SKIPPED_BY_ALL = "skipped_by_all"  # a state of views only: skipped by everybody at work
_COLUMN = "column."  # before the names of columns in an address
_YES = "yes"


@dataclass(frozen=True)
class TicketView:
    """Which tickets a list shows; each field narrows it, and by default there are all.

    Attributes:
        text: words that the text has; see `has_words`.
        number: the own id, SOURCE/ID, or the number in the store, such as #12.
        label: people's label, else the model's; tickets whose answer is hidden have none.
        reason: the model's decision, such as "review:ambiguous".
        columns: further columns and their values, for columns with few values (`column_values`).
        first_day: in the store's time zone.
        last_day: the same; included.
        person: who decided.
        assigned_to: a person.
        state: one of `STATES`, or "skipped_by_all".
        later: only what was put off.
        mentions: a person who is mentioned in a note.
        upload: number of the file that has the ticket.
    """

    text: str = ""
    number: str = ""
    label: str = ""
    reason: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    first_day: date | None = None
    last_day: date | None = None
    person: str = ""
    assigned_to: str = ""
    state: str = ""
    later: bool = False
    mentions: str = ""
    upload: int | None = None

    def __post_init__(self) -> None:
        if self.state not in ("", SKIPPED_BY_ALL, *STATES):
            raise SettingsError(
                f"the state {one_line(self.state)}",
                expected=f"one of {', '.join((*STATES, SKIPPED_BY_ALL))}",
                fix="give one of these, or none for all tickets",
            )

    def to_query(self) -> dict[str, str]:
        """The parts of an address, for `from_query`.

        Example:
            >>> TicketView(state="waiting", columns=(("channel", "mail"),)).to_query()
            {'state': 'waiting', 'column.channel': 'mail'}
        """
        parts: dict[str, str] = {}
        for name in (one.name for one in fields(self) if one.name != "columns"):
            value = getattr(self, name)
            if value not in ("", None, False):
                parts[name] = _YES if value is True else str(value)
        return parts | {_COLUMN + name: value for name, value in self.columns}

    @classmethod
    def from_query(cls, parts: Mapping[str, str]) -> TicketView:
        """The view with this address; parts that are no field are ignored.

        Raises:
            SettingsError: a part cannot be read.

        Example:
            >>> TicketView.from_query({"first_day": "2026-05-01", "page": "tickets"}).first_day
            datetime.date(2026, 5, 1)
        """
        given: dict[str, Any] = {}
        for one in fields(cls):
            if one.name not in parts or one.name == "columns":
                continue
            value = parts[one.name]
            try:
                if one.name.endswith("_day"):
                    given[one.name] = date.fromisoformat(value)
                elif one.name == "upload":
                    given[one.name] = int(value)
                else:
                    given[one.name] = value == _YES if one.name == "later" else value
            except ValueError:
                raise SettingsError(
                    f"{one.name}={one_line(value)} in the address of a list",
                    expected="a day such as 2026-05-01, or a number",
                    fix="correct the address",
                ) from None
        columns = tuple(
            (name.removeprefix(_COLUMN), value)
            for name, value in parts.items()
            if name.startswith(_COLUMN)
        )
        return cls(**given, columns=columns)


@dataclass(frozen=True)
class ListedTicket:
    """A row of a list.

    Attributes:
        id: number in the store.
        external_id: id in its source.
        received_at: seconds since 1970, UTC; None if unknown.
        label: people's label, else the model's; None for none of the labels, or if it is hidden.
        answer: the model's label; None if it is hidden.
        reason: the model's decision.
        words: the first ones; empty if the text was erased.
        later: whether it was put off.
        notes: number of notes.
    """

    id: int
    external_id: str
    source: str
    received_at: float | None
    label: str | None
    answer: str | None
    confidence: float | None
    state: str
    reason: str | None
    words: str
    assigned_to: str | None
    later: bool
    notes: int


@dataclass(frozen=True)
class TicketPage:
    """A page of a list; `after` asks for the next one, and is None on the last."""

    tickets: tuple[ListedTicket, ...]
    after: str | None


@dataclass(frozen=True)
class TicketCounts:
    """The number of tickets by state; `at_least` if there are more than were counted."""

    states: dict[str, int]
    at_least: bool


def list_tickets(
    store: ReviewStore, view: TicketView, limit: int = PAGE, after: str | None = None
) -> TicketPage:
    """A page of the tickets of a view, newest first; `after` is that of the page before.

    Raises:
        SettingsError: `after` is not from a page.
    """
    with store.reading() as connection:
        selected = _Selected.of(store, connection, view)
        statement = selected.statement(ticket).limit(limit + 1)
        if after is not None:
            place = tuple_(selected.arrived_at, selected.number)
            statement = statement.where(place < tuple_(*map(literal, _place(after))))
        rows = connection.execute(statement).all()
        shown = rows[:limit]
        numbers = [row.id for row in shown]
        notes = _notes(connection, numbers)
        answers = _answers(connection, numbers)
    page = tuple(
        ListedTicket(
            row.id,
            row.external_id,
            row.source,
            row.received_at,
            row.label,
            None if row.reason is None else answers.get(row.id),  # hidden together
            row.confidence,
            row.state,
            row.reason,
            row.text[:FIRST_WORDS],
            row.assigned_to,
            row.later_at is not None,
            notes.get(row.id, 0),
        )
        for row in shown
    )
    more = f"{shown[-1].arrived_at!r},{shown[-1].id}" if len(rows) > limit else None
    return TicketPage(page, more)


def count_tickets(store: ReviewStore, view: TicketView) -> TicketCounts:
    """Count the tickets of a view by state, whatever state the view itself has.

    All tickets are counted, and those of a filter up to 10,000.
    """
    view = replace(view, state="")
    with store.reading() as connection:
        by_all = case((skipped_by_all(connection, now()), 1), else_=0).label("by_all")
        tickets: FromClause = select(ticket.c.state, by_all).subquery()
        if view != TicketView():
            only_words = replace(view, text="") == TicketView()  # other filters need all of them
            most = COUNTED + 1 if only_words else None
            selected = _Selected.of(store, connection, view, most=most)
            tickets = selected.statement(ticket.c.state, by_all).limit(COUNTED + 1).subquery()
        rows = connection.execute(
            select(
                tickets.c.state,
                func.count().label("number"),
                func.sum(tickets.c.by_all).label("by_all"),
            ).group_by(tickets.c.state)
        ).all()
    states = dict.fromkeys(STATES, 0) | {row.state: int(row.number) for row in rows}
    states[SKIPPED_BY_ALL] = sum(int(row.by_all) for row in rows)
    at_least = view != TicketView() and sum(row.number for row in rows) > COUNTED
    return TicketCounts(states, at_least)


def selected_numbers(store: ReviewStore, view: TicketView) -> list[int]:
    """The numbers of all tickets of a view, in the order in which they were added."""
    with store.reading() as connection:
        statement = _Selected.of(store, connection, view).statement(ticket.c.id).order_by(None)
        return sorted(connection.scalars(statement))


@dataclass(frozen=True)
class _Selected:
    """The tables of a view, its conditions, and the columns of its order."""

    tables: FromClause
    conditions: list[ColumnElement[bool]]
    arrived_at: ColumnElement[float]
    number: ColumnElement[int]

    @classmethod
    def of(
        cls, store: ReviewStore, connection: Connection, view: TicketView, most: int | None = None
    ) -> _Selected:
        """The tickets of a view; the search may stop after `most`."""
        conditions = _conditions(store, connection, view)
        if view.text and (words := has_words(connection, view.text, most=most)) is not None:
            conditions.append(words)
        links = sorted(_links(connection, view), key=lambda link: link[0])
        first = None
        if links and not (view.label and links[0][0] > _OF_A_LABEL):
            _, first, condition = links.pop(0)  # the tickets are read in its order
            conditions.append(condition)
        for _, table, condition in links:
            here = (table.c.ticket == ticket.c.id) & (table.c.arrived_at == ticket.c.arrived_at)
            conditions.append(select(literal(1)).where(here, condition).exists())
        tables: FromClause = ticket
        arrived_at, number = ticket.c.arrived_at, ticket.c.id
        if first is not None:
            arrived_at, number = first.c.arrived_at, first.c.ticket
            tables = first.join(ticket, ticket.c.id == number)
        return cls(tables, [*conditions, *_days(connection, view, arrived_at)], arrived_at, number)

    def statement(self, *columns: Any) -> Select[Any]:  # noqa: ANN401 - as of `select`
        """Select columns of the tickets, newest first."""
        return (
            select(*columns)
            .select_from(self.tables)
            .where(*self.conditions)
            .order_by(self.arrived_at.desc(), self.number.desc())
        )


def _conditions(
    store: ReviewStore, connection: Connection, view: TicketView
) -> list[ColumnElement[bool]]:
    """The conditions on columns of `ticket`."""
    conditions: list[ColumnElement[bool]] = []
    if view.number:
        conditions.append(named(store, view.number))
    for name in ("label", "reason"):
        if value := getattr(view, name):
            conditions.append(ticket.c[name] == value)
    if view.assigned_to:
        conditions.append(ticket.c.assigned_to == name_key(view.assigned_to))
    if view.state:
        by_all = view.state == SKIPPED_BY_ALL
        conditions.append(
            skipped_by_all(connection, now()) if by_all else ticket.c.state == view.state
        )
    if view.later:
        conditions.append(ticket.c.later_at.is_not(None))
    if view.mentions:
        named_there = select(mention.c.ticket).where(mention.c.person == name_key(view.mentions))
        conditions.append(ticket.c.id.in_(named_there))
    return conditions


def _days(
    connection: Connection, view: TicketView, arrived_at: ColumnElement[float]
) -> list[ColumnElement[bool]]:
    """The conditions on the day of arrival."""
    zone = ZoneInfo(str(read_setting(connection, "time_zone")))
    conditions: list[ColumnElement[bool]] = []
    if view.first_day:
        conditions.append(arrived_at >= _midnight(view.first_day, zone))
    if view.last_day:
        conditions.append(arrived_at < _midnight(view.last_day + timedelta(days=1), zone))
    return conditions


def _links(
    connection: Connection, view: TicketView
) -> list[tuple[float, FromClause, ColumnElement[bool]]]:
    """Tables that link a filter's value to its tickets, with the condition and their number."""
    links: list[tuple[float, FromClause, ColumnElement[bool]]] = []
    for name, value in view.columns:
        row = connection.execute(
            select(column_value).where(column_value.c.name == name, column_value.c.value == value)
        ).first()
        table = ticket_value.alias()
        condition = false() if row is None else table.c.value == row.id
        links.append((row.tickets if row else 0, table, condition))
    if view.upload is not None:
        links.append((1e6, upload_ticket, upload_ticket.c.upload == view.upload))
    if view.person:
        made = (decision.c.actor == name_key(view.person)) & (decision.c.kind != "skip")
        links.append((1e5, decision, made))
    return links


def _midnight(day: date, zone: ZoneInfo) -> float:
    return datetime.combine(day, time(), zone).timestamp()


def _notes(connection: Connection, tickets: list[int]) -> dict[int, int]:
    rows = connection.execute(
        select(note.c.ticket, func.count().label("number"))
        .where(note.c.ticket.in_(tickets))
        .group_by(note.c.ticket)
    )
    return {row.ticket: int(row.number) for row in rows}


def _answers(connection: Connection, tickets: list[int]) -> dict[int, str | None]:
    """The label of the last answer to each ticket."""
    rows = connection.execute(
        select(prediction.c.ticket, prediction.c.label)
        .where(prediction.c.ticket.in_(tickets), prediction.c.predicted_at > 0)
        .order_by(prediction.c.predicted_at)
    )
    return {row.ticket: row.label for row in rows}


def _place(after: str) -> tuple[float, int]:
    moment, _, number = after.partition(",")
    try:
        return float(moment), int(number)
    except ValueError:
        raise SettingsError(
            f"the page after {one_line(after)}",
            expected="what a page gives as `after`",
            fix="begin with the first page",
        ) from None
