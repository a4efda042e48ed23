"""Accuracy of the automatic answers, estimated from a random sample that people review blind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, func, select

from bertcnn.errors import StoreError
from bertcnn.review.daily_figures import DAY, day_of
from bertcnn.review.models import (
    KnownModel,
    ModelEvent,
    find_alarm,
    find_model,
    note_alarm,
    serving_model,
)
from bertcnn.review.rows import whole_number
from bertcnn.review.schema import decision, draw, prediction, settlement, ticket
from bertcnn.review.states import DECIDED, is_right
from bertcnn.review.statistics import (
    AccuracyWatch,
    AuditedAccuracy,
    Stratum,
    accuracy_by_label,
    audit_accuracy,
    audits_needed,
    watch_accuracy,
)
from bertcnn.review.store import ReviewStore
from bertcnn.wording import count, percent

_WIDTHS = (0.03, 0.02, 0.015)  # half-widths of narrower intervals
_WATCHED_FROM = 2  # audits
_WEEK = 7 * DAY
_MONDAY = 3 * DAY  # 1970 began on a Thursday, three days after a Monday


@dataclass(frozen=True)
class AuditedWeek:
    """Accuracy of the automatic answers of one week; `start` is its Monday, UTC."""

    start: date
    accuracy: AuditedAccuracy


@dataclass(frozen=True)
class AuditReport:
    """Audit results of a model's automatic answers.

    Attributes:
        model: id of the model.
        all: accuracy of all automatic answers.
        watch: sequential test of the promise; None before two audits.
        waiting: audits that nobody has decided yet.
        disputed: audits with different decisions; not counted.
        needed: number of further audits by half-width of the interval.
        alarm: when the promise was first found broken, or None.
    """

    model: KnownModel
    all: AuditedAccuracy
    labels: Mapping[str, AuditedAccuracy]
    watch: AccuracyWatch | None
    waiting: int
    disputed: int
    needed: Mapping[float, int]
    weeks: tuple[AuditedWeek, ...]
    alarm: ModelEvent | None

    @property
    def broken(self) -> bool:
        """Whether the promise is broken; at most 5 % of models ever raise a false alarm."""
        return self.alarm is not None or _alarmed(self.watch)

    def lines(self) -> list[str]:
        """The report as text lines."""
        overall, promised = self.all, percent(self.model.precision)
        if not overall.population:
            return ["There are no automatic answers yet."]
        if overall.accuracy is None:
            first = (
                f"Nobody has checked any of {count(overall.population, 'automatic answer')} yet, so"
                " their accuracy is not known."
            )
            return [first, *self._open()]
        said = [
            f"{overall.accuracy:.1%} of {count(overall.population, 'automatic answer')} are right"
            f" (95% confidence: {overall.low:.1%} to {overall.high:.1%}), by"
            f" {count(overall.audits, 'audit')}; {promised} was promised."
        ]
        if self.broken:
            noticed = "" if self.alarm is None else f" (noticed on {day_of(self.alarm.at)})"
            said.append(
                f"The promise of {promised} no longer holds{noticed}. Retrain, or roll back."
            )
        elif overall.low >= self.model.precision:
            said.append("The promise holds.")
        else:
            said.append("No sign that the promise is broken.")
        if overall.reason:
            said.append(f"Note: {overall.reason}.")
        said += [
            f"  {label}: {one.accuracy:.1%} ({one.low:.1%} to {one.high:.1%}),"
            f" {count(one.audits, 'audit')}"
            for label, one in self.labels.items()
            if one.accuracy is not None
        ]
        said += [
            f"{count(more, 'more audit')} for plus or minus {100 * width:g} points."
            for width, more in self.needed.items()
            if more
        ]
        return [*said, *self._open()]

    def _open(self) -> list[str]:
        said = []
        if self.waiting:
            said.append(f"{count(self.waiting, 'audit')} wait for somebody to decide.")
        if self.disputed:
            said.append(f"People disagree on {count(self.disputed, 'audit')}; they do not count.")
        return said

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "model": self.model.id,
            "promised": self.model.precision,
            "all": self.all.to_json(),
            "labels": {label: one.to_json() for label, one in self.labels.items()},
            "broken": self.broken,
            "waiting": self.waiting,
            "disputed": self.disputed,
            "needed": {str(width): more for width, more in self.needed.items()},
            "weeks": [
                {"start": one.start.isoformat(), **one.accuracy.to_json()} for one in self.weeks
            ],
            "alarm_at": None if self.alarm is None else self.alarm.at,
        }


@dataclass(frozen=True)
class _Audit:
    week: int
    stratum: Stratum
    probability: float
    right: bool
    decided_at: float


@dataclass
class _Answers:
    population: Counter[Stratum] = field(default_factory=Counter)
    drawn: Counter[Stratum] = field(default_factory=Counter)

    def add(self, other: _Answers) -> None:
        """Add counts."""
        self.population += other.population
        self.drawn += other.drawn


@dataclass(frozen=True, eq=False)
class _Sample:
    """The arguments of the estimators."""

    right: np.ndarray
    pi: np.ndarray
    strata: list[Stratum]
    population: Mapping[Stratum, int]

    @classmethod
    def of(cls, audits: Sequence[_Audit], answers: _Answers) -> _Sample:
        """Treat the decided audits as a sample at a lower rate: waiting ones are just newer."""
        decided = Counter(one.stratum for one in audits)
        rates = [
            one.probability * decided[one.stratum] / answers.drawn[one.stratum] for one in audits
        ]
        return cls(
            np.array([one.right for one in audits], bool),
            np.array(rates, float),
            [one.stratum for one in audits],
            dict(sorted(answers.population.items())),
        )

    def accuracy(self) -> AuditedAccuracy:
        """Accuracy of all automatic answers."""
        return audit_accuracy(self.right, self.pi, self.strata, self.population)

    def by_label(self) -> dict[str, AuditedAccuracy]:
        """Accuracy by label."""
        return accuracy_by_label(self.right, self.pi, self.strata, self.population)


def audit_report(
    store: ReviewStore, *, model: str | None = None, since: float = 0.0
) -> AuditReport:
    """Accuracy of automatic answers since a time, estimated from a random sample reviewed blind.

    When a model's audits first show a broken promise, a model event records the alarm. Later audits
    may look good again, but the alarm was right. By default, the model is the serving one.

    Raises:
        StoreError: there is no such model.
    """
    chosen = serving_model(store) if model is None else find_model(store, model)
    if chosen is None:
        raise StoreError(
            f"{store.name} has no model", expected="one that answers", fix="add a trained model"
        )
    with store.reading() as connection:
        weeks = _answers(connection, chosen.id, since)
        audits, disputed = _audits(connection, chosen, since)
        waiting = _waiting(connection, chosen.id, since)
    answers = _Answers()
    for one in weeks.values():
        answers.add(one)
    sample = _Sample.of(audits, answers)
    every, watch = sample.accuracy(), _watch(audits, chosen.precision)
    alarm = find_alarm(store, chosen.id)
    if alarm is None and _alarmed(watch) and not since:
        wrong = int((~sample.right).sum())
        said = f"{wrong:,} of {count(len(audits), 'audit')} wrong, {percent(chosen.precision)}"
        alarm = note_alarm(store, chosen.id, f"{said} promised", every.to_json())
    return AuditReport(
        chosen,
        every,
        sample.by_label(),
        watch,
        waiting,
        disputed,
        {width: audits_needed(every, width) for width in _WIDTHS},
        tuple(
            AuditedWeek(
                day_of(week * _WEEK - _MONDAY),
                _Sample.of([one for one in audits if one.week == week], answered).accuracy(),
            )
            for week, answered in sorted(weeks.items())
        ),
        alarm,
    )


def _alarmed(watch: AccuracyWatch | None) -> bool:
    return watch is not None and watch.alarm is not None


def _watch(audits: Sequence[_Audit], promised: float) -> AccuracyWatch | None:
    if len(audits) < _WATCHED_FROM:
        return None
    ordered = sorted(audits, key=lambda one: one.decided_at)
    return watch_accuracy(
        [one.right for one in ordered], promised, pi=[one.probability for one in ordered]
    )


def _answers(connection: Connection, model: str, since: float) -> dict[int, _Answers]:
    """Automatic answers and drawn audits of each week."""
    week = _week(connection)
    rows = connection.execute(
        select(week, draw.c.stratum, draw.c.drawn, func.count().label("number"))
        .join(
            prediction,
            (prediction.c.ticket == draw.c.ticket) & (prediction.c.model == draw.c.model),
        )
        .where(draw.c.model == model, prediction.c.predicted_at >= since)
        .group_by(week, draw.c.stratum, draw.c.drawn)
        .order_by(week, draw.c.stratum)
    )
    by_week: dict[int, _Answers] = defaultdict(_Answers)
    for row in rows:
        stratum = _stratum(row.stratum)
        by_week[row.week].population[stratum] += row.number
        by_week[row.week].drawn[stratum] += row.number if row.drawn else 0
    return by_week


def _audits(connection: Connection, model: KnownModel, since: float) -> tuple[list[_Audit], int]:
    """Decided audits, and the number of disputed ones."""
    rows = connection.execute(
        select(
            ticket.c.state,
            ticket.c.label.label("decided"),
            draw.c.stratum,
            draw.c.probability,
            _week(connection),
            prediction.c.label.label("answer"),
            func.coalesce(func.max(decision.c.decided_at), func.max(settlement.c.settled_at)).label(
                "decided_at"
            ),
        )
        .join(draw, draw.c.ticket == ticket.c.id)
        .join(
            prediction,
            (prediction.c.ticket == draw.c.ticket) & (prediction.c.model == draw.c.model),
        )
        .outerjoin(decision, (decision.c.ticket == ticket.c.id) & (decision.c.kind != "skip"))
        .outerjoin(settlement, settlement.c.ticket == ticket.c.id)
        .where(
            draw.c.model == model.id,
            draw.c.drawn,
            ticket.c.state.in_((*DECIDED, "disagreement")),
            prediction.c.predicted_at >= since,
        )
        .group_by(ticket.c.id, draw.c.ticket, draw.c.model, prediction.c.ticket, prediction.c.model)
        .order_by(ticket.c.id)
    ).all()
    audits = [
        _Audit(
            row.week,
            _stratum(row.stratum),
            row.probability,
            is_right(row.decided or "", row.answer, model.separator),
            row.decided_at,
        )
        for row in rows
        if row.state in DECIDED
    ]
    return audits, len(rows) - len(audits)


def _waiting(connection: Connection, model: str, since: float) -> int:
    """The number of undecided audits, without erased tickets."""
    decided = (
        select(decision.c.ticket)
        .where(decision.c.ticket == draw.c.ticket, decision.c.kind != "skip")
        .exists()
    )
    number = connection.scalar(
        select(func.count())
        .select_from(draw)
        .join(
            prediction,
            (prediction.c.ticket == draw.c.ticket) & (prediction.c.model == draw.c.model),
        )
        .join(ticket, ticket.c.id == draw.c.ticket)
        .where(
            draw.c.model == model,
            draw.c.drawn,
            prediction.c.predicted_at >= since,
            ticket.c.erased_at.is_(None),
            ~decided,
        )
    )
    return int(number or 0)


def _week(connection: Connection) -> ColumnElement[int]:
    return whole_number(connection, (prediction.c.predicted_at + _MONDAY) / _WEEK).label("week")


def _stratum(name: str) -> Stratum:
    label, _, tercile = name.rpartition("/")
    return Stratum(label, int(tercile))
