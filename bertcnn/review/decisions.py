"""People's decisions on tickets: append-only events, and the current state derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, func, insert, select

from bertcnn.errors import BertCNNError, StoreError, one_line
from bertcnn.review.labels import LabelsInUse, read_labels
from bertcnn.review.people import Person
from bertcnn.review.queue import LEASE
from bertcnn.review.rows import upsert
from bertcnn.review.schema import decision, event, lease, prediction, queue, ticket
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import enqueue, row_of

Kind = Literal["label", "none", "skip", "undo"]
_KINDS = ("label", "none", "skip", "undo")
_LONGEST_KEY = 64


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


def disagreements(store: ReviewStore, *, most: int = 100) -> list[Disagreement]:
    """Tickets that people decided differently, newest first."""
    answer = func.coalesce(decision.c.label, "")
    with store.reading() as connection:
        tickets = connection.execute(
            select(ticket.c.id, ticket.c.external_id, ticket.c.source)
            .join(decision, decision.c.ticket == ticket.c.id)
            .where(decision.c.kind != "skip")
            .group_by(ticket.c.id)
            .having(func.count(func.distinct(answer)) > 1)
            .order_by(func.max(decision.c.decided_at).desc())
            .limit(most)
        ).all()
        answers: dict[int, dict[str, str]] = {row.id: {} for row in tickets}
        for row in connection.execute(
            select(decision.c.ticket, decision.c.actor, answer.label("answer")).where(
                decision.c.ticket.in_(answers), decision.c.kind != "skip"
            )
        ):
            answers[row.ticket][row.actor] = row.answer
    return [Disagreement(row.id, row.external_id, row.source, answers[row.id]) for row in tickets]


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
    connection.execute(
        insert(event).values(
            key=one.key,
            ticket=one.ticket,
            actor=actor,
            kind=one.kind,
            label=label,
            undoes=one.undoes if one.kind == "undo" else None,
            model=one.model,
            blind=one.blind,
            shown_at=one.shown_at,
            decided_at=_time_of(one, moment),
            stored_at=moment,
        )
    )
    _apply(store, connection, actor, one.ticket)


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


def _apply(store: ReviewStore, connection: Connection, actor: str, identity: int) -> None:
    """Derive a person's current decision on a ticket, and whether the ticket still waits."""
    query = select(event).where(event.c.ticket == identity, event.c.actor == actor)
    events = connection.execute(query.order_by(event.c.id)).all()
    undone = {row.undoes for row in events if row.kind == "undo"}
    standing = [row for row in events if row.kind != "undo" and row.key not in undone]
    connection.execute(
        delete(decision).where(decision.c.ticket == identity, decision.c.actor == actor)
    )
    if standing:
        last = standing[-1]
        upsert(
            connection,
            decision,
            {
                "ticket": identity,
                "actor": actor,
                "key": last.key,
                "kind": last.kind,
                "label": last.label,
                "blind": last.blind,
                "shown_at": last.shown_at,
                "decided_at": last.decided_at,
                "event": last.id,
                "arrived_at": row_of(connection, identity).arrived_at,
            },
        )
    decided = connection.scalar(
        select(decision.c.actor)
        .where(decision.c.ticket == identity, decision.c.kind != "skip")
        .limit(1)
    )
    if decided is not None:
        connection.execute(delete(queue).where(queue.c.ticket == identity))
    else:
        _wait_again(store, connection, identity)
    if not standing:
        _lease(connection, actor, identity)
    else:
        connection.execute(delete(lease).where(lease.c.ticket == identity, lease.c.actor == actor))


def _lease(connection: Connection, actor: str, identity: int) -> None:
    """Lease a ticket again to the person who undid a decision, unless somebody else holds it."""
    holder = select(lease.c.actor).where(lease.c.ticket == identity, lease.c.until > now())
    waits = select(queue.c.ticket).where(queue.c.ticket == identity)
    if connection.scalar(waits) is not None and connection.scalar(holder) in (None, actor):
        row = {"ticket": identity, "actor": actor, "until": now() + LEASE}
        upsert(connection, lease, row)


def _wait_again(store: ReviewStore, connection: Connection, identity: int) -> None:
    if connection.scalar(select(queue.c.ticket).where(queue.c.ticket == identity)) is None:
        model_id = connection.scalar(
            select(prediction.c.model)
            .where(prediction.c.ticket == identity)
            .order_by(prediction.c.predicted_at.desc())
            .limit(1)
        )
        if model_id is not None:
            enqueue(store, connection, identity, model_id)


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
