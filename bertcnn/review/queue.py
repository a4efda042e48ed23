"""The review queue: leases, so that two people never get the same ticket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, func, or_, select, update
from sqlalchemy.orm import aliased

from bertcnn.errors import SettingsError
from bertcnn.review.people import Person
from bertcnn.review.rows import upsert
from bertcnn.review.schema import decision, lease, prediction, queue, ticket
from bertcnn.review.store import ReviewStore, now

BATCH = 20  # tickets leased at a time
MOST = 1000  # most tickets leased at a time
LEASE = 300.0  # seconds
_LOOKED_AT = 10  # waiting tickets considered for each place in a batch
_MOST_OF_A_LABEL = 1 / 3  # of a batch


@dataclass(frozen=True)
class LeasedTicket:
    """A ticket leased to a person, with the model's answer.

    Attributes:
        id: number in the store.
        external_id: id in its source.
        source: the system of that id; empty for the default one.
        received_at: seconds since 1970, UTC; None if unknown.
        model: id of the model whose answer is reviewed; empty for none.
        blind: whether the model's answer is hidden; the fields below are then empty.
        choices: the likeliest labels, the first of them first; of a hidden answer, by name.
        confidence: calibrated probability of the label.
        decision: such as "review:ambiguous".
        probable: the likeliest labels with their probabilities.
        because: characters [start, end) of the phrases that moved the answer.
        reason: of the decision, as text.
    """

    id: int
    external_id: str
    source: str
    text: str
    columns: dict[str, str]
    received_at: float | None
    model: str
    blind: bool
    choices: tuple[str, ...] = ()
    label: str | None = None
    confidence: float | None = None
    decision: str = ""
    probable: tuple[tuple[str, float], ...] = ()
    because: tuple[tuple[int, int], ...] = ()
    reason: str = ""


def claim(
    store: ReviewStore, person: Person, *, most: int = BATCH, seconds: float = LEASE
) -> list[LeasedTicket]:
    """Lease the next tickets to a person, starting with those they already hold.

    Audits come first, then tickets by hour of arrival; within an hour, tickets that the model
    doubts and that resemble many others. While others remain, a batch has one of each
    near-duplicate and at most a third of one label. Tickets that the person skipped or decided are
    left out.

    Raises:
        RoleError: the person is a viewer.
        SettingsError: `most` is not from 1 to 1,000.
    """
    person.needs("reviewer", "decide on tickets")
    if not 1 <= most <= MOST:
        raise SettingsError(
            f"{most} tickets at a time", expected=f"1 to {MOST}", fix=f"take for example {BATCH}"
        )
    moment = now()
    with store.writing() as connection:
        held = _held(connection, person.name, moment, most)
        missing = most - len(held)
        chosen = _choose(_waiting(connection, person.name, moment, missing), missing)
        tickets, until = [*held, *chosen], moment + seconds
        rows = [{"ticket": one, "actor": person.name, "until": until} for one in tickets]
        upsert(connection, lease, *rows)
        return read_tickets(connection, tickets)


def renew(
    store: ReviewStore, person: Person, tickets: Sequence[int], *, seconds: float = LEASE
) -> list[int]:
    """Extend leases; returns the tickets that are still this person's."""
    moment = now()
    with store.writing() as connection:
        own_leases = (lease.c.actor == person.name) & lease.c.ticket.in_(tickets)
        connection.execute(
            update(lease)
            .where(own_leases & (lease.c.until > moment))
            .values(until=moment + seconds)
        )
        held = select(lease.c.ticket).where(own_leases & (lease.c.until > moment))
        return list(connection.scalars(held.order_by(lease.c.ticket)))


def release(store: ReviewStore, person: Person, tickets: Sequence[int] | None = None) -> None:
    """Release some or all of a person's leases."""
    with store.writing() as connection:
        own_leases = lease.c.actor == person.name
        if tickets is not None:
            own_leases &= lease.c.ticket.in_(tickets)
        connection.execute(delete(lease).where(own_leases))


def waiting_tickets(store: ReviewStore) -> dict[str, int]:
    """The number of waiting `audits` and `reviews`."""
    with store.reading() as connection:
        audits = connection.scalar(select(func.count()).select_from(queue).where(queue.c.audit))
        every = connection.scalar(select(func.count()).select_from(queue))
    return {"audits": int(audits or 0), "reviews": int(every or 0) - int(audits or 0)}


def _held(connection: Connection, name: str, moment: float, most: int) -> list[int]:
    statement = (
        select(lease.c.ticket)
        .join(queue, queue.c.ticket == lease.c.ticket)
        .where(lease.c.actor == name, lease.c.until > moment)
        .order_by(queue.c.audit.desc(), queue.c.place, queue.c.certainty, queue.c.ticket)
        .limit(most)
    )
    return list(connection.scalars(statement))


def _waiting(connection: Connection, name: str, moment: float, number: int) -> list[Row[Any]]:
    own_decision = aliased(decision)
    statement = (
        select(queue.c.ticket, queue.c.audit, queue.c.label, queue.c.similar)
        .outerjoin(lease, lease.c.ticket == queue.c.ticket)
        .outerjoin(
            own_decision, (own_decision.c.ticket == queue.c.ticket) & (own_decision.c.actor == name)
        )
        .where(
            or_(lease.c.until.is_(None), lease.c.until <= moment), own_decision.c.actor.is_(None)
        )
        .order_by(queue.c.audit.desc(), queue.c.place, queue.c.certainty, queue.c.ticket)
        .limit(_LOOKED_AT * number)
    )
    return list(connection.execute(statement))


def _choose(waiting: Sequence[Row[Any]], number: int) -> list[int]:
    """The first tickets, without near duplicates or too many of a label while others remain."""
    most = max(1, int(number * _MOST_OF_A_LABEL))
    similar: set[str] = set()
    labels: Counter[str | None] = Counter()
    chosen: set[int] = set()
    for one_of_each, capped in ((True, True), (True, False), (False, False)):
        for row in waiting:
            audit = row.audit
            repeated = one_of_each and row.similar in similar
            crowded = capped and labels[row.label] >= most
            if len(chosen) < number and row.ticket not in chosen:
                if not audit and (repeated or crowded):
                    continue
                chosen.add(row.ticket)
                similar.add(row.similar)
                labels[row.label] += not audit
    return [row.ticket for row in waiting if row.ticket in chosen]


def read_tickets(connection: Connection, tickets: Sequence[int]) -> list[LeasedTicket]:
    """Tickets with the visible parts of the model's answers, also those that do not wait."""
    answer = aliased(prediction)
    latest = (
        select(answer.c.model)
        .where(answer.c.ticket == ticket.c.id)
        .order_by(answer.c.predicted_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    was_blind = exists().where(decision.c.ticket == ticket.c.id, decision.c.blind)
    statement = (
        select(
            ticket.c.id,
            ticket.c.external_id,
            ticket.c.source,
            ticket.c.text,
            ticket.c.columns,
            ticket.c.received_at,
            prediction.c.model,
            func.coalesce(queue.c.blind, was_blind).label("blind"),
            prediction.c.label,
            prediction.c.confidence,
            prediction.c.decision,
            prediction.c.probable,
            prediction.c.because,
            prediction.c.reason,
        )
        .outerjoin(queue, queue.c.ticket == ticket.c.id)
        .outerjoin(
            prediction,
            (prediction.c.ticket == ticket.c.id)
            & (prediction.c.model == func.coalesce(queue.c.model, latest)),
        )
        .where(ticket.c.id.in_(tickets))
    )
    by_id = {row.id: row for row in connection.execute(statement)}
    return [_leased(by_id[identity]) for identity in tickets if identity in by_id]


def _leased(row: Row[Any]) -> LeasedTicket:
    probable = tuple((str(name), float(share)) for name, share in row.probable or ())
    choices = tuple(name for name, _ in probable)
    found = LeasedTicket(
        row.id,
        row.external_id,
        row.source,
        row.text,
        dict(row.columns),
        row.received_at,
        row.model or "",
        bool(row.blind),
        tuple(sorted(choices)),
    )
    if found.blind or not found.model:
        return found
    return replace(
        found,
        choices=choices,
        label=row.label,
        confidence=row.confidence,
        decision=row.decision,
        probable=probable,
        because=tuple((int(start), int(end)) for start, end in row.because),
        reason=row.reason,
    )
