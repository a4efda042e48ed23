"""How right the automatic answers are: a random sample of them, read blind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from bertcnn.data.hierarchy import LEVELS
from bertcnn.data.label_sets import names_in
from bertcnn.errors import StoreError
from bertcnn.monitoring.audit import (
    AuditedAccuracy,
    Stratum,
    accuracy_by_label,
    audit_accuracy,
    audits_needed,
)
from bertcnn.monitoring.sequential import AccuracyWatch, watch_accuracy
from bertcnn.review.models import KnownModel, find_model, serving_model
from bertcnn.review.schema import decision, draw, prediction
from bertcnn.review.store import ReviewStore
from bertcnn.wording import count, percent

_WIDTHS = (0.03, 0.02, 0.015)  # half-widths of narrower intervals
_WATCHED_FROM = 2  # audits


@dataclass(frozen=True)
class AuditReport:
    """What audits say of a model's automatic answers.

    Attributes:
        model: whose they are.
        all: accuracy of all automatic answers.
        labels: of those with each label.
        watch: whether the promise still holds; None before two audits.
        waiting: audits drawn that nobody has decided yet.
        disputed: audits on which people disagree, which do not count.
        needed: how many more audits an interval of this half-width takes.
    """

    model: KnownModel
    all: AuditedAccuracy
    labels: Mapping[str, AuditedAccuracy]
    watch: AccuracyWatch | None
    waiting: int
    disputed: int
    needed: Mapping[float, int]

    @property
    def broken(self) -> bool:
        """Whether the promise does not hold any more; wrong in at most 5 % of models, for ever."""
        return self.watch is not None and self.watch.alarm is not None

    def lines(self) -> list[str]:
        """In words."""
        found, promised = self.all, percent(self.model.precision)
        if not found.population:
            return ["There are no automatic answers yet."]
        if found.accuracy is None:
            first = (
                f"Nobody has checked any of {count(found.population, 'automatic answer')} yet, so"
                " their accuracy is not known."
            )
            return [first, *self._open()]
        said = [
            f"{found.accuracy:.1%} of {count(found.population, 'automatic answer')} are right"
            f" (95% confidence: {found.low:.1%} to {found.high:.1%}), by"
            f" {count(found.audits, 'audit')}; {promised} was promised."
        ]
        if self.broken:
            said.append(
                f"What was promised, {promised}, does not hold any more. Retrain, or roll back."
            )
        elif found.low >= self.model.precision:
            said.append("The promise holds.")
        else:
            said.append("No sign that the promise is broken.")
        if found.reason:
            said.append(f"Note: {found.reason}.")
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
        }


@dataclass(frozen=True)
class _Audit:
    """A decided audit."""

    stratum: Stratum
    probability: float
    right: bool
    decided_at: float


def audit_report(
    store: ReviewStore, *, model: str | None = None, since: float = 0.0
) -> AuditReport:
    """Accuracy of automatic answers, by a random sample that people read blind.

    Args:
        store: an open store.
        model: id of the model whose answers are meant; by default the one that serves.
        since: answers given since this time, seconds since 1970, UTC.

    Raises:
        StoreError: there is no such model.
    """
    chosen = serving_model(store) if model is None else find_model(store, model)
    if chosen is None:
        raise StoreError(
            f"{store.name} has no model", expected="one that answers", fix="add a trained model"
        )
    with store.reading() as connection:
        population, drawn = _sizes(connection, chosen.id, since)
        audits, disputed = _audits(connection, chosen, since)
    decided = Counter(one.stratum for one in audits)
    right = np.array([one.right for one in audits], bool)
    # audits that wait are later ones, not others: what is decided is a sample at a lower rate
    pi = np.array(
        [one.probability * decided[one.stratum] / drawn[one.stratum] for one in audits], float
    )
    strata = [one.stratum for one in audits]
    every = audit_accuracy(right, pi, strata, population)
    watch = None
    if len(audits) >= _WATCHED_FROM:
        order = np.argsort([one.decided_at for one in audits], kind="stable")
        stored = np.array([one.probability for one in audits], float)
        watch = watch_accuracy(right[order], chosen.precision, pi=stored[order])
    return AuditReport(
        chosen,
        every,
        accuracy_by_label(right, pi, strata, population),
        watch,
        sum(drawn.values()) - len(audits) - disputed,
        disputed,
        {width: audits_needed(every, width) for width in _WIDTHS},
    )


def _sizes(
    connection: Connection, model: str, since: float
) -> tuple[dict[Stratum, int], dict[Stratum, int]]:
    """Automatic answers, and audits drawn, of each stratum."""
    rows = connection.execute(
        select(draw.c.stratum, draw.c.drawn, func.count().label("number"))
        .join(
            prediction,
            (prediction.c.ticket == draw.c.ticket) & (prediction.c.model == draw.c.model),
        )
        .where(draw.c.model == model, prediction.c.predicted_at >= since)
        .group_by(draw.c.stratum, draw.c.drawn)
        .order_by(draw.c.stratum)
    )
    population, drawn = Counter[Stratum](), Counter[Stratum]()
    for row in rows:
        stratum = _stratum(row.stratum)
        population[stratum] += row.number
        drawn[stratum] += row.number if row.drawn else 0
    return dict(population), dict(drawn)


def _audits(connection: Connection, model: KnownModel, since: float) -> tuple[list[_Audit], int]:
    """Decided audits, and how many are disputed."""
    rows = connection.execute(
        select(
            draw.c.ticket,
            draw.c.stratum,
            draw.c.probability,
            prediction.c.label.label("answer"),
            decision.c.label,
            decision.c.decided_at,
        )
        .join(
            prediction,
            (prediction.c.ticket == draw.c.ticket) & (prediction.c.model == draw.c.model),
        )
        .join(decision, decision.c.ticket == draw.c.ticket)
        .where(
            draw.c.model == model.id,
            draw.c.drawn,
            decision.c.kind != "skip",
            prediction.c.predicted_at >= since,
        )
        .order_by(draw.c.ticket)
    )
    by_ticket: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        by_ticket[row.ticket].append(row)
    audits, disputed = [], 0
    for decided in by_ticket.values():
        verdicts = {is_right(row.label or "", row.answer, model.separator) for row in decided}
        if len(verdicts) > 1:
            disputed += 1
            continue
        row = decided[-1]
        moment = max(one.decided_at for one in decided)
        audits.append(_Audit(_stratum(row.stratum), row.probability, verdicts.pop(), moment))
    return audits, disputed


def is_right(decided: str, answer: str | None, separator: str | None) -> bool:
    """Whether a model's answer is what people decided; a parent of their label is right too.

    Args:
        decided: their label, or several; "" for none of the labels.
        answer: the model's.
        separator: between several labels; None where there is one.
    """
    given = answer or ""
    if separator:
        return set(names_in(decided, separator)) == set(names_in(given, separator))
    return bool(given) and (decided == given or decided.startswith(f"{given}{LEVELS}"))


def _stratum(name: str) -> Stratum:
    label, _, tercile = name.rpartition("/")
    return Stratum(label, int(tercile))
