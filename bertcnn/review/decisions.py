"""People's decisions on tickets: append-only events, and the current state derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from bertcnn.errors import BertCNNError, StoreError, one_line
from bertcnn.review.labels import LabelsInUse, read_labels
from bertcnn.review.people import Person
from bertcnn.review.queue import LEASE
from bertcnn.review.rows import upsert
from bertcnn.review.schema import decision, event, lease, queue, ticket
from bertcnn.review.states import Standing, keep_standing, read_standing, refresh
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import enqueue, row_of

Kind = Literal["label", "none", "skip", "undo"]
_KINDS = ("label", "none", "skip", "undo")
_LONGEST_KEY = 64
FIRST_WORDS = 200  # characters of a text in lists


@dataclass(frozen=True)
class NewDecision:
    """A person's decision; times are seconds since 1970, UTC.

    Attributes:
        key: random, chosen by the sender; the same decision sent twice counts once.
        kind: label; none, for a ticket that belongs to no label; skip; or undo.
        label: for kind label; several are joined in one string.
        undoes: for kind undo, the key of the decision to take back.
        model: id of the model whose answer was shown or hidden.
        blind: whether the model's answer was hidden.
        shown_at: when the ticket was first seen.
        decided_at: by the sender's clock; a future time counts as now.
    """

    key: str
    ticket: int
    kind: Kind
    label: str | None = None
    undoes: str | None = None
    model: str | None = None
    blind: bool = False
    shown_at: float | None = None
    decided_at: float | None = None


@dataclass(frozen=True)
class Recorded:
    """The result of `record`: keys in the store, and the reasons of permanently refused keys."""

    stored: tuple[str, ...]
    refused: dict[str, str]


@dataclass(frozen=True)
class Disagreement:
    """A ticket with different decisions by different people; "" stands for none of the labels."""

    ticket: int
    external_id: str
    source: str
    labels: dict[str, str]
    text: str = ""


@dataclass(frozen=True)
class LastDecision:
    """A current decision of a person.

    Attributes:
        key: to undo it.
        kind: label, none or skip.
        decided_at: seconds since 1970, UTC.
        words: the first ones of the ticket.
        state: of the ticket now, one of `STATES`.
    """

    key: str
    ticket: int
    external_id: str
    source: str
    kind: Kind
    label: str | None
    decided_at: float
    words: str
    state: str


def record(store: ReviewStore, person: Person, decisions: Sequence[NewDecision]) -> Recorded:
    """Store decisions in one transaction, refusing invalid ones; RoleError for a viewer."""
    person.needs("reviewer", "decide on tickets")
    stored, refused = [], {}
    with store.writing() as connection:
        labels = read_labels(connection)
        for one in decisions:
            try:
                _record(store, connection, person.name, one, labels)
                stored.append(one.key)
            except BertCNNError as error:
                refused[str(one.key)[:_LONGEST_KEY]] = str(error)
    return Recorded(tuple(stored), refused)


def history(store: ReviewStore, identity: int) -> list[Row[Any]]:
    """All events of a ticket, in order."""
    with store.reading() as connection:
        row_of(connection, identity)
        return list(
            connection.execute(select(event).where(event.c.ticket == identity).order_by(event.c.id))
        )


def last_decisions(store: ReviewStore, person: Person, most: int = 10) -> list[LastDecision]:
    """A person's last decisions that stand, newest first; see `open_ticket` to change one."""
    with store.reading() as connection:
        rows = connection.execute(
            select(
                decision.c.key,
                decision.c.ticket,
                ticket.c.external_id,
                ticket.c.source,
                decision.c.kind,
                decision.c.label,
                decision.c.decided_at,
                func.substr(ticket.c.text, 1, FIRST_WORDS),
                ticket.c.state,
            )
            .join(ticket, ticket.c.id == decision.c.ticket)
            .where(decision.c.actor == person.name)
            .order_by(decision.c.event.desc())
            .limit(most)
        )
        return [LastDecision(*row) for row in rows]


def disagreements(store: ReviewStore, *, most: int = 100) -> list[Disagreement]:
    """Tickets that people decided differently and nobody has settled, newest decision first."""
    made = decision.c.kind != "skip"
    with store.reading() as connection:
        tickets = connection.execute(
            select(ticket.c.id, ticket.c.external_id, ticket.c.source, ticket.c.text)
            .join(decision, decision.c.ticket == ticket.c.id)
            .where(ticket.c.state == "disagreement", made)
            .group_by(ticket.c.id)
            .order_by(func.max(decision.c.decided_at).desc())
            .limit(most)
        ).all()
        answers: dict[int, dict[str, str]] = {row.id: {} for row in tickets}
        for row in connection.execute(
            select(decision).where(decision.c.ticket.in_(answers), made).order_by(decision.c.event)
        ):
            answers[row.ticket][row.actor] = row.label or ""
    return [
        Disagreement(row.id, row.external_id, row.source, answers[row.id], row.text)
        for row in tickets
    ]


def _record(
    store: ReviewStore,
    connection: Connection,
    actor: str,
    one: NewDecision,
    labels: LabelsInUse,
) -> None:
    """Store one decision, unless it already exists."""
    _check(one)
    if connection.scalar(select(event.c.id).where(event.c.key == one.key)) is not None:
        return
    row_of(connection, one.ticket)
    label = labels.checked(one.label) if one.kind == "label" else None
    if one.kind == "undo":
        _check_undo(connection, actor, one)
    moment = now()
    add_event(
        connection,
        actor,
        one.ticket,
        one.kind,
        key=one.key,
        label=label,
        undoes=one.undoes if one.kind == "undo" else None,
        model=one.model,
        blind=one.blind,
        shown_at=one.shown_at,
        decided_at=_time_of(one, moment),
        stored_at=moment,
    )
    standing = derive(store, connection, one.ticket)
    if actor in standing.people:
        connection.execute(
            delete(lease).where(lease.c.ticket == one.ticket, lease.c.actor == actor)
        )
    else:
        _lease(connection, actor, one.ticket)


def add_event(
    connection: Connection,
    actor: str,
    identity: int,
    kind: str,
    **columns: Any,  # noqa: ANN401 - of the table
) -> None:
    """Add an event on a ticket, by default not blind and now."""
    moment = now()
    common = {"blind": False, "decided_at": moment, "stored_at": moment}
    connection.execute(
        insert(event).values(
            **common | columns | {"actor": actor, "ticket": identity, "kind": kind}
        )
    )


def derive(store: ReviewStore, connection: Connection, identity: int) -> Standing:
    """Bring all that is derived from a ticket's events up to date."""
    standing = read_standing(connection, identity)
    keep_standing(connection, identity, standing)
    _keep_in_queue(store, connection, identity, standing)
    refresh(connection, [identity])
    return standing


def _keep_in_queue(
    store: ReviewStore, connection: Connection, identity: int, standing: Standing
) -> None:
    """Let a ticket wait until it is decided, by two people if it was chosen for them."""
    here, doubled = queue.c.ticket == identity, ticket.c.id == identity
    if standing.settled is None and len(standing.deciders) < 2:
        if standing.deciders:
            chosen = select(queue.c.double).where(here)
            before = select(ticket.c.doubled_at).where(doubled)
            if not connection.scalar(chosen) and connection.scalar(before) is None:
                connection.execute(delete(queue).where(here))
                return
            connection.execute(
                update(ticket)
                .where(doubled, ticket.c.doubled_at.is_(None))
                .values(doubled_at=now())
            )
        enqueue(store, connection, identity, back=standing.back)
        second = bool(standing.deciders)
        values = {"second": second, **({"double": True, "blind": True} if second else {})}
        connection.execute(update(queue).where(here).values(**values))
    else:
        connection.execute(delete(queue).where(here))


def _check(one: NewDecision) -> None:
    if not one.key or len(one.key) > _LONGEST_KEY or one.kind not in _KINDS:
        raise StoreError(
            f"a decision of the kind {one_line(one.kind)} with the key {one_line(one.key)}",
            expected=f"{', '.join(_KINDS)}, and a key of 1 to {_LONGEST_KEY} characters",
            fix="send it as the desk does",
        )


def _time_of(one: NewDecision, moment: float) -> float:
    decided_at = one.decided_at
    return decided_at if decided_at is not None and 0 <= decided_at <= moment else moment


def _check_undo(connection: Connection, actor: str, one: NewDecision) -> None:
    row = connection.execute(
        select(event.c.actor, event.c.ticket, event.c.kind).where(event.c.key == one.undoes)
    ).first()
    if row is None or (row.actor, row.ticket) != (actor, one.ticket) or row.kind == "undo":
        raise StoreError(
            f"nothing of {one_line(actor)} to undo with the key {one_line(one.undoes)}",
            expected="the key of a decision of the same person on the same ticket",
            fix="undo your own decisions only",
        )


def _lease(connection: Connection, actor: str, identity: int) -> None:
    """Lease a ticket again to the person who undid a decision, unless somebody else holds it."""
    holder = select(lease.c.actor).where(lease.c.ticket == identity, lease.c.until > now())
    waits = select(queue.c.ticket).where(queue.c.ticket == identity)
    if connection.scalar(waits) is not None and connection.scalar(holder) in (None, actor):
        row = {"ticket": identity, "actor": actor, "tab": "", "until": now() + LEASE}
        upsert(connection, lease, row)


@dataclass(frozen=True)
class Decided:
    """Counts of decided tickets, of only skipped ones, and of each person's decisions."""

    tickets: int
    skipped: int
    people: dict[str, int]


def decided(store: ReviewStore, *, since: float = 0.0) -> Decided:
    """Count current decisions made since a time (seconds since 1970, UTC)."""
    recent = decision.c.decided_at >= since
    made = decision.c.kind != "skip"
    with store.reading() as connection:
        tickets = connection.scalar(
            select(func.count(func.distinct(decision.c.ticket))).where(recent, made)
        )
        every = connection.scalar(
            select(func.count(func.distinct(decision.c.ticket))).where(recent)
        )
        people = connection.execute(
            select(decision.c.actor, func.count().label("number"))
            .where(recent, made)
            .group_by(decision.c.actor)
            .order_by(func.count().desc(), decision.c.actor)
        )
        return Decided(
            int(tickets or 0),
            int(every or 0) - int(tickets or 0),
            {row.actor: row.number for row in people},
        )
