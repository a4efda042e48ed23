"""Opens any ticket on the desk, also one that was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from bertcnn.review.people import Person
from bertcnn.review.queue import LEASE, LeasedTicket, read_tickets
from bertcnn.review.rows import upsert
from bertcnn.review.schema import decision, lease, queue, ticket
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import no_ticket


@dataclass(frozen=True)
class OwnDecision:
    """A person's current decision on a ticket; see `NewDecision`."""

    key: str
    ticket: int
    external_id: str
    source: str
    text: str
    kind: str
    label: str | None
    decided_at: float


@dataclass(frozen=True)
class OpenedTicket:
    """A ticket, the person's own decision on it, and who else has it on their desk."""

    ticket: LeasedTicket
    decided: OwnDecision | None
    holder: str | None


def last_decisions(store: ReviewStore, person: Person, most: int = 10) -> list[OwnDecision]:
    """A person's current decisions and skips, the newest first."""
    statement = _own_decisions(person).order_by(decision.c.decided_at.desc()).limit(most)
    with store.reading() as connection:
        return [OwnDecision(*row) for row in connection.execute(statement)]


def open_ticket(store: ReviewStore, person: Person, identity: int) -> OpenedTicket:
    """Open a ticket, and lease it if it waits and nobody else has it.

    Raises:
        RoleError: the person is a viewer.
        StoreError: there is no such ticket.
    """
    person.needs("reviewer", "decide on tickets")
    moment = now()
    with store.writing() as connection:
        opened = read_tickets(connection, [identity])
        if not opened:
            raise no_ticket(identity)
        held = select(lease.c.actor).where(lease.c.ticket == identity, lease.c.until > moment)
        holder = connection.scalar(held)
        waits = connection.scalar(select(queue.c.ticket).where(queue.c.ticket == identity))
        if waits is not None and holder in (None, person.name):
            row = {"ticket": identity, "actor": person.name, "until": moment + LEASE}
            upsert(connection, lease, row)
        mine = _own_decisions(person).where(
            decision.c.ticket == identity, decision.c.kind != "skip"
        )
        row = connection.execute(mine).first()
    return OpenedTicket(
        opened[0],
        None if row is None else OwnDecision(*row),
        None if holder == person.name else holder,
    )


def _own_decisions(person: Person) -> Select[Any]:
    return (
        select(
            decision.c.key,
            decision.c.ticket,
            ticket.c.external_id,
            ticket.c.source,
            ticket.c.text,
            decision.c.kind,
            decision.c.label,
            decision.c.decided_at,
        )
        .join(ticket, ticket.c.id == decision.c.ticket)
        .where(decision.c.actor == person.name)
    )
