"""Draws more audits, and lists the automatic answers that audits found wrong."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update

from bertcnn.errors import SettingsError
from bertcnn.review.models import require_serving_model
from bertcnn.review.people import Person
from bertcnn.review.schema import decision, draw, prediction, ticket
from bertcnn.review.states import is_right, refresh
from bertcnn.review.statistics import uniform_number
from bertcnn.review.store import ReviewStore
from bertcnn.review.tickets import enqueue

_AT_ONCE = 500  # values in a statement


@dataclass(frozen=True)
class WrongAnswer:
    """An automatic answer that people decided differently.

    Attributes:
        ticket: its number in the store.
        external_id: its id in its source.
        answer: the model's label.
        decided: people's label; "" for none of the labels.
    """

    ticket: int
    external_id: str
    source: str
    text: str
    answer: str
    confidence: float
    decided: str
    decided_at: float


def draw_more_audits(store: ReviewStore, person: Person, number: int) -> int:
    """Draw more of the serving model's automatic answers as audits; returns how many.

    Each answer keeps the random number of its first draw, and the audit probability rises until
    `number` more answers are below it: a Poisson sample with permanent random numbers (Ohlsson
    1995). So audits read before and after belong to one sample with one known probability.

    Raises:
        RoleError: the person is a viewer.
        StoreError: no model serves.
        SettingsError: the number is below 1.
    """
    person.needs("reviewer", "draw audits")
    if number < 1:
        raise SettingsError(f"{number} audits", expected="1 or more", fix="give a larger number")
    model = require_serving_model(store).id
    with store.writing() as connection:
        left = select(draw.c.ticket).where(draw.c.model == model, ~draw.c.drawn)
        order = heapq.nsmallest(
            number + 1,
            (
                (uniform_number(store.secret, f"audit/{one}/{model}"), one)
                for one in connection.scalars(left)
            ),
        )
        rate = order[number][0] if len(order) > number else 1.0
        chosen = [one for _, one in order[:number]]
        connection.execute(
            update(draw)
            .where(draw.c.model == model, draw.c.probability < rate)
            .values(probability=rate)
        )
        decided = select(decision.c.ticket).where(decision.c.kind != "skip")
        for first in range(0, len(chosen), _AT_ONCE):
            part = chosen[first : first + _AT_ONCE]
            connection.execute(
                update(draw)
                .where(draw.c.model == model, draw.c.ticket.in_(part))
                .values(drawn=True)
            )
            known = set(connection.scalars(decided.where(decision.c.ticket.in_(part))))
            for one in part:
                if one not in known:
                    enqueue(store, connection, one)
            refresh(connection, part)
    return len(chosen)


def wrong_answers(store: ReviewStore, *, since: float = 0.0, most: int = 100) -> list[WrongAnswer]:
    """The serving model's automatic answers that audits found wrong, the newest decision first.

    Tickets on which people disagree and erased tickets are left out.

    Raises:
        StoreError: no model serves.
    """
    model = require_serving_model(store)
    statement = (
        select(
            ticket.c.id,
            ticket.c.external_id,
            ticket.c.source,
            ticket.c.text,
            prediction.c.label.label("answer"),
            prediction.c.confidence,
            decision.c.label,
            decision.c.decided_at,
        )
        .join(prediction, prediction.c.ticket == ticket.c.id)
        .join(draw, (draw.c.ticket == ticket.c.id) & (draw.c.model == prediction.c.model))
        .join(decision, decision.c.ticket == ticket.c.id)
        .where(
            draw.c.model == model.id,
            draw.c.drawn,
            decision.c.kind != "skip",
            prediction.c.predicted_at >= since,
            ticket.c.erased_at.is_(None),
        )
        .order_by(decision.c.decided_at.desc(), ticket.c.id)
    )
    by_ticket: dict[int, list[Any]] = defaultdict(list)
    with store.reading() as connection:
        for row in connection.execute(statement):
            by_ticket[row.id].append(row)
    wrong = (
        rows[0]
        for rows in by_ticket.values()
        if not any(is_right(one.label or "", one.answer, model.separator) for one in rows)
    )
    return [
        WrongAnswer(
            row.id,
            row.external_id,
            row.source,
            row.text,
            row.answer or "",
            row.confidence or 0.0,
            row.label or "",
            row.decided_at,
        )
        for row, _ in zip(wrong, range(most), strict=False)
    ]
