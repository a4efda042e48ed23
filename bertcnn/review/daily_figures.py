"""Daily (UTC) counts of tickets and of a model's answers, computed by the database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select

from bertcnn.review.rows import whole_number
from bertcnn.review.schema import arrived_at, prediction, ticket
from bertcnn.review.statistics import CONFIDENCE_EDGES, LENGTH_EDGES, DailyFigures
from bertcnn.review.store import ReviewStore, now
from bertcnn.settings import DECISIONS

DAY = 86_400.0  # seconds
COUNTED = ("automatic", "in another language")  # counted decisions besides out of scope
_AUTO, _AMBIGUOUS, _OUT_OF_SCOPE, _EMPTY, _LANGUAGE = DECISIONS
_RUN = 50_000  # tickets counted in one transaction
_LONGEST = 5000  # characters read of a text
_TEXTS_AT_ONCE = 500
_ANSWERED = 0.9  # below this share of answered tickets, a day's answers are not representative


def start_of(day: date) -> float:
    """Start of a day, seconds since 1970, UTC."""
    return datetime.combine(day, time(), UTC).timestamp()


def day_of(moment: float) -> date:
    """The day of a time in seconds since 1970, UTC."""
    return datetime.fromtimestamp(moment, UTC).date()


def newest_day(store: ReviewStore) -> date | None:
    """The last complete day with tickets; else today, or None without tickets."""
    today = day_of(now())
    with store.reading() as connection:
        for before in (today, today + timedelta(days=1)):
            latest = connection.scalar(
                select(func.max(arrived_at)).where(arrived_at < start_of(before))
            )
            if latest is not None:
                return day_of(latest)
    return None


def read_days(store: ReviewStore, model: str, first: date, last: date) -> list[DailyFigures]:
    """The figures of each day with tickets, in order, in constant memory.

    If the model has answered less than 90% of a day's tickets, only the text lengths of all tickets
    count: after a promotion, it answers earlier waiting tickets, which are not representative.
    """
    counted: dict[date, _Day] = defaultdict(_Day)
    within = (arrived_at >= start_of(first)) & (arrived_at < start_of(last) + DAY)
    for connection, run in _runs(store):
        for row in connection.execute(_decisions(connection, model).where(within, run)):
            counted[_day(row)].add_decision(row.decision, row.label, row.number)
        for row in connection.execute(_confidence(connection, model).where(within, run)):
            counted[_day(row)].confidence[min(row.place, len(CONFIDENCE_EDGES) - 2)] += row.number
        for row in connection.execute(_lengths(connection).where(within, run)):
            counted[_day(row)].lengths[row.place] += row.number
    return [one.figures(day) for day, one in sorted(counted.items())]


def sample_texts(store: ReviewStore, first: date, last: date, most: int) -> list[tuple[date, str]]:
    """Texts received on these days, with their days; a random sample if there are more than `most`.

    Keyed hashes of the texts choose the sample, so it is the same at each call. Texts are cut after
    5,000 characters; erased ones are left out.
    """
    within = and_(
        arrived_at >= start_of(first),
        arrived_at < start_of(last) + DAY,
        ticket.c.erased_at.is_(None),
    )
    with store.reading() as connection:
        chosen = connection.scalars(
            select(ticket.c.id).where(within).order_by(ticket.c.text_hash, ticket.c.id).limit(most)
        ).all()
    ids, texts = sorted(chosen), []
    for start in range(0, len(ids), _TEXTS_AT_ONCE):
        with store.reading() as connection:
            rows = connection.execute(
                select(
                    arrived_at.label("arrived_at"),
                    func.substr(ticket.c.text, 1, _LONGEST).label("text"),
                )
                .where(ticket.c.id.in_(ids[start : start + _TEXTS_AT_ONCE]))
                .order_by(ticket.c.id)
            )
            texts += [(day_of(row.arrived_at), row.text) for row in rows]
    return texts


@dataclass
class _Day:
    decisions: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    confidence: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)

    def add_decision(self, decision: str, label: str | None, number: int) -> None:
        """Add a count."""
        self.decisions[decision] += number
        if decision in (_AUTO, _AMBIGUOUS):
            self.labels[label or ""] += number

    def figures(self, day: date) -> DailyFigures:
        """The day's counts."""
        lengths = tuple(self.lengths[index] for index in range(len(LENGTH_EDGES) - 1))
        if self.decisions.total() < _ANSWERED * sum(lengths):
            return DailyFigures(day, 0, lengths=lengths, counts=dict.fromkeys(COUNTED, 0))
        return DailyFigures(
            day,
            self.decisions.total(),
            self.decisions[_OUT_OF_SCOPE],
            dict(self.labels),
            tuple(self.confidence[index] for index in range(len(CONFIDENCE_EDGES) - 1)),
            lengths,
            dict(zip(COUNTED, (self.decisions[_AUTO], self.decisions[_LANGUAGE]), strict=True)),
        )


def _runs(store: ReviewStore) -> Iterator[tuple[Connection, ColumnElement[bool]]]:
    """Short transactions, each with a condition that selects its tickets."""
    with store.reading() as connection:
        last = connection.scalar(select(func.max(ticket.c.id))) or 0
    for start in range(0, last + 1, _RUN):
        with store.reading() as connection:
            yield connection, (ticket.c.id >= start) & (ticket.c.id < start + _RUN)


def _decisions(connection: Connection, model: str) -> Select[Any]:
    keys = (_day_number(connection), prediction.c.decision, prediction.c.label)
    return _answered(select(*keys, func.count().label("number")), model).group_by(*keys)


def _confidence(connection: Connection, model: str) -> Select[Any]:
    bins = len(CONFIDENCE_EDGES) - 1
    bin_index = whole_number(connection, prediction.c.confidence * bins).label("place")
    day = _day_number(connection)
    counted = _answered(select(day, bin_index, func.count().label("number")), model)
    return counted.where(prediction.c.decision.in_((_AUTO, _AMBIGUOUS))).group_by(day, bin_index)


def _lengths(connection: Connection) -> Select[Any]:
    length = func.length(ticket.c.text)
    bins = [(length < edge, bin_index) for bin_index, edge in enumerate(LENGTH_EDGES[1:-1])]
    bin_index = case(*bins, else_=len(bins)).label("place")
    day = _day_number(connection)
    return (
        select(day, bin_index, func.count().label("number"))
        .where(ticket.c.erased_at.is_(None))
        .group_by(day, bin_index)
    )


def _answered(statement: Select[Any], model: str) -> Select[Any]:
    return statement.select_from(ticket).join(
        prediction, (prediction.c.ticket == ticket.c.id) & (prediction.c.model == model)
    )


def _day_number(connection: Connection) -> ColumnElement[int]:
    return whole_number(connection, arrived_at / DAY).label("day")


def _day(row: Any) -> date:  # noqa: ANN401 - a row with this column
    return day_of(row.day * DAY)
