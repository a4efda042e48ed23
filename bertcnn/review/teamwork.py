"""The people of a store: their decisions of today, and how much they agree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from zoneinfo import ZoneInfo

from sqlalchemy import select

from bertcnn.review.schema import decision, ticket
from bertcnn.review.schema import person as person_table
from bertcnn.review.statistics import AgreementReport, measure_agreement
from bertcnn.review.store import ReviewStore, now, read_setting

_NEWEST = 5000  # tickets of two people that agreement is measured on


@dataclass(frozen=True)
class PersonToday:
    """What a person decided today; `median_seconds` from seeing a ticket to deciding it, or None.

    Skips do not count.
    """

    name: str
    decisions: int
    median_seconds: float | None


def seen_people(store: ReviewStore) -> list[str]:
    """Names of everybody who has opened the desk."""
    with store.reading() as connection:
        return list(connection.scalars(select(person_table.c.name).order_by(person_table.c.name)))


def people_today(store: ReviewStore) -> list[PersonToday]:
    """Each person's decisions since midnight in the store's time zone, most decisions first."""
    seconds: dict[str, list[float]] = defaultdict(list)
    numbers: dict[str, int] = defaultdict(int)
    with store.reading() as connection:
        zone = ZoneInfo(str(read_setting(connection, "time_zone")))
        midnight = datetime.fromtimestamp(now(), zone).replace(hour=0, minute=0, second=0)
        rows = connection.execute(
            select(decision.c.actor, decision.c.shown_at, decision.c.decided_at).where(
                decision.c.decided_at >= int(midnight.timestamp()), decision.c.kind != "skip"
            )
        )
        for row in rows:
            numbers[row.actor] += 1
            if row.shown_at is not None and row.shown_at <= row.decided_at:
                seconds[row.actor].append(row.decided_at - row.shown_at)
    return [
        PersonToday(name, number, median(seconds[name]) if seconds[name] else None)
        for name, number in sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    ]


def agreement_report(store: ReviewStore) -> AgreementReport:
    """How much people agree on the tickets that were given to two of them on purpose.

    Other tickets do not count: people open those of others to correct them. "" stands for none of
    the labels. The newest 5,000 tickets are compared.
    """
    with store.reading() as connection:
        newest = (
            select(ticket.c.id)
            .where(ticket.c.doubled_at.is_not(None))
            .order_by(ticket.c.doubled_at.desc())
            .limit(_NEWEST)
            .subquery()
        )
        rows = connection.execute(
            select(decision.c.ticket, decision.c.actor, decision.c.label)
            .join(newest, newest.c.id == decision.c.ticket)
            .where(decision.c.kind != "skip")
            .order_by(decision.c.ticket, decision.c.actor)
        )
        labels: dict[int, dict[str, str]] = defaultdict(dict)
        for row in rows:
            labels[row.ticket][row.actor] = row.label or ""
    return measure_agreement(list(labels.values()))
