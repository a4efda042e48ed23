"""Topics of tickets that no label fits: candidates for new labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import Row, func, select

from bertcnn.review.daily_figures import DAY, day_of
from bertcnn.review.models import require_serving_model
from bertcnn.review.schema import arrived_at, decision, prediction, ticket
from bertcnn.review.statistics import find_topics
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import number_of
from bertcnn.settings import DECISIONS
from bertcnn.wording import count

LOOKED_BACK = 30.0  # days
_AMBIGUOUS, _OUT_OF_SCOPE = DECISIONS[1:3]
_MOST = 5000  # tickets, the newest
_AT_ONCE = 500
_LONGEST = 2000  # characters read of a text
_EXAMPLES = 3


@dataclass(frozen=True)
class StoreTopic:
    """A topic: typical words, tickets by typicality, number of days, and the first three texts."""

    name: str
    tickets: tuple[int, ...]
    days: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class StoreTopics:
    """The topics, the largest first, and the number of tickets and days searched."""

    looked_at: int
    days: float
    topics: tuple[StoreTopic, ...]

    def lines(self) -> list[str]:
        """The topics as text lines."""
        where = (
            f"{count(self.looked_at, 'ticket')} of the last {self.days:g} days that the model has"
            " no label for or is not sure of"
        )
        if not self.topics:
            return [f"No topics among {where}."]
        said = [f"{count(len(self.topics), 'topic')} among {where}:"]
        for one in self.topics:
            on = count(one.days, "day")
            said.append(f"{one.name}: {count(len(one.tickets), 'ticket')} on {on}")
            said += [f"  {' '.join(text.split())[:100]}" for text in one.examples]
        return said

    def to_json(self) -> dict[str, Any]:
        """The topics as a JSON object; tickets by their numbers in the store, such as #12."""
        topics = [asdict(one) | {"tickets": [*map(number_of, one.tickets)]} for one in self.topics]
        return asdict(self) | {"topics": topics}


def store_topics(
    store: ReviewStore, *, days: float = LOOKED_BACK, until: float | None = None
) -> StoreTopics:
    """Topics of tickets that the serving model calls out of scope or is not sure of.

    A topic has at least ten tickets on three days. Labelled tickets are left out, so a topic
    disappears once its tickets are labelled. At most the newest 5,000 tickets of the last `days`
    before `until` (seconds since 1970, UTC; by default now) are searched.

    Raises:
        StoreError: no model serves.
    """
    model = require_serving_model(store)
    until = now() if until is None else until
    rows = _unlabelled(store, model.id, until - days * DAY, until)
    texts = read_texts(store, [row.ticket for row in rows])
    rows = [row for row in rows if row.ticket in texts]
    if not rows:
        return StoreTopics(0, days, ())
    vectors = np.frombuffer(b"".join(row.embedding for row in rows), np.float16)  # [N * D]
    clusters = find_topics(
        vectors.reshape(len(rows), -1).astype(np.float32),
        [texts[row.ticket] for row in rows],
        [day_of(row.arrived_at) for row in rows],
    )
    topics = []
    for one in clusters:
        tickets = tuple(rows[index].ticket for index in one.rows)
        examples = tuple(texts[number] for number in tickets[:_EXAMPLES])
        topics.append(StoreTopic(one.name, tickets, one.days or 0, examples))
    return StoreTopics(len(rows), days, tuple(topics))


def _unlabelled(store: ReviewStore, model: str, since: float, until: float) -> list[Row[Any]]:
    """The newest unlabelled tickets, in order of arrival."""
    labelled = (
        select(decision.c.ticket)
        .where(decision.c.ticket == ticket.c.id, decision.c.kind == "label")
        .exists()
    )
    statement = (
        select(prediction.c.ticket, prediction.c.embedding, arrived_at.label("arrived_at"))
        .join(ticket, ticket.c.id == prediction.c.ticket)
        .where(
            prediction.c.model == model,
            prediction.c.decision.in_((_AMBIGUOUS, _OUT_OF_SCOPE)),
            prediction.c.embedding.is_not(None),
            arrived_at > since,
            arrived_at <= until,
            ~labelled,
        )
        .order_by(arrived_at.desc(), ticket.c.id.desc())
        .limit(_MOST)
    )
    with store.reading() as connection:
        return list(connection.execute(statement))[::-1]


def read_texts(store: ReviewStore, tickets: Sequence[int]) -> dict[int, str]:
    """The first 2,000 characters of tickets by number, without erased ones."""
    texts: dict[int, str] = {}
    for first in range(0, len(tickets), _AT_ONCE):
        with store.reading() as connection:
            rows = connection.execute(
                select(ticket.c.id, func.substr(ticket.c.text, 1, _LONGEST).label("text")).where(
                    ticket.c.id.in_(tickets[first : first + _AT_ONCE]),
                    ticket.c.erased_at.is_(None),
                )
            )
            texts |= {row.id: row.text for row in rows}
    return texts
