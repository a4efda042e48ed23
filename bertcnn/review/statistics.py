"""How much people have decided."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select

from bertcnn.review.schema import decision
from bertcnn.review.store import ReviewStore


@dataclass(frozen=True)
class Decided:
    """What stands of people's decisions.

    Attributes:
        tickets: decided by somebody.
        skipped: skipped, and decided by nobody.
        people: tickets that each person has decided, the most first.
    """

    tickets: int
    skipped: int
    people: dict[str, int]


def decided(store: ReviewStore, *, since: float = 0.0) -> Decided:
    """Count decisions that stand, made since a time (seconds since 1970, UTC)."""
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
