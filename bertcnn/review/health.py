"""Drift of the incoming tickets and of the serving model's answers, without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
from sqlalchemy import func, select

from bertcnn.errors import StoreError
from bertcnn.evaluation import (
    LabelShift,
    ShiftCalibration,
    estimate_label_shares,
    estimate_label_shift,
)
from bertcnn.inference import Predictor
from bertcnn.review.daily_figures import newest_day, read_days, sample_texts
from bertcnn.review.models import KnownModel, require_serving_model
from bertcnn.review.schema import event, model_event, ticket
from bertcnn.review.statistics import DailyFigures, DriftFinding, DriftReport, NewWord, new_words
from bertcnn.review.statistics import drift_report as what_changed
from bertcnn.review.store import ReviewStore
from bertcnn.settings import DECISIONS
from bertcnn.wording import count

RECENT = 7  # days searched for new words
MOST_ANSWERED = 2000  # texts for the estimate of label shares
_WEEK, _WEEKS_BEFORE = 7, 8
_MOST_TEXTS = 10_000  # of recent texts, and of earlier ones
_FEWEST_ESTIMATED = 300  # earlier texts needed to compare label shares
_SMALLEST = 1e-6  # share of a label
_AT_ONCE = 512  # texts per model call
_IN_SCOPE = DECISIONS.index("review:out_of_scope")  # decisions before this one
_FEWEST_BEFORE = 100  # texts needed to tell new words from rare ones


@dataclass(frozen=True)
class StoreDrift:
    """Drift of a day and its week against eight weeks before; words most significant first."""

    model: KnownModel
    days: tuple[DailyFigures, ...]
    words: tuple[NewWord, ...]
    report: DriftReport

    @property
    def changed(self) -> bool:
        """Whether anything has changed."""
        return bool(self.report.changed)

    @property
    def week(self) -> tuple[DailyFigures, ...]:
        """The last seven days."""
        return tuple(one for one in self.days if one.day > self.report.day - _days(_WEEK))

    @property
    def before(self) -> tuple[DailyFigures, ...]:
        """The days before the last seven."""
        return self.days[: len(self.days) - len(self.week)]

    def lines(self) -> list[str]:
        """The report as text lines, changes first."""
        day, week = self.report.day, sum(one.texts for one in self.week)
        today = sum(one.texts for one in self.week if one.day == day)
        first = (
            f"{day:%A}, {day}: {count(today, 'ticket')}, and {week:,} in the seven days up to it,"
            f" answered by the model {self.model.id[:12]}."
        )
        kinds = {True: "changed", False: "as before", None: "not known"}
        return [
            first,
            *(
                f"{words}: {one.sentence}"
                for kind, words in kinds.items()
                for one in self.report.findings
                if one.changed is kind
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {"model": self.model.id, **self.report.to_json()}


def last_changes(store: ReviewStore) -> tuple[int, ...]:
    """Cache keys that change with each new ticket, decision, and model event."""
    with store.reading() as connection:
        return tuple(
            int(connection.scalar(select(func.max(table.c.id))) or 0)
            for table in (ticket, event, model_event)
        )


def drift_report(
    store: ReviewStore,
    *,
    day: date | None = None,
    recent: int = RECENT,
    predictor: Predictor | None = None,
) -> StoreDrift:
    """Drift of the incoming tickets and of the serving model's answers.

    A day is compared with the same weekday of eight weeks, and its week with these weeks. Days
    count only if the serving model has answered most of their tickets, so most findings are unknown
    for five weeks after a promotion. Memory is constant.

    Args:
        store: an open store.
        day: the day, UTC; by default the last complete one with tickets.
        recent: days up to `day` for new words and label shares.
        predictor: the serving model, to estimate the true label shares by answering at most 2,000
            tickets each of the recent days and of the eight weeks before; None for no estimate.

    Raises:
        StoreError: no model serves, `predictor` is another one, or there are no tickets.
    """
    model = require_serving_model(store)
    if predictor is not None and predictor.bundle.bundle_id != model.id:
        raise StoreError(
            f"the model {predictor.bundle.bundle_id[:12]} for an estimate",
            expected=f"the one that serves, {model.id[:12]}",
            fix="load it with serving_predictor",
        )
    day = day or newest_day(store)
    first = None if day is None else day - _days(_WEEK * (1 + _WEEKS_BEFORE) - 1)
    figures = [] if day is None or first is None else read_days(store, model.id, first, day)
    if day is None or not figures:
        raise StoreError(
            f"no tickets in {store.name}" + (f" up to {day}" if day else ""),
            expected="tickets of some weeks",
            fix="add some: bertcnn review add FILE --store STORE",
        )
    if figures[-1].day < day:
        figures.append(DailyFigures(day, 0))
    words, finding = _new_words(store, day, recent)
    report = what_changed(figures, words=words)
    if predictor is not None:
        shift = _label_shift(store, predictor, report, recent)
        report = what_changed(figures, words=words, label_shift=shift)
    if finding is not None:
        report = replace(report, findings=(*report.findings, finding))
    return StoreDrift(model, tuple(figures), tuple(words or ()), report)


def _new_words(
    store: ReviewStore, day: date, recent: int
) -> tuple[list[NewWord] | None, DriftFinding | None]:
    """New frequent words; or None, and the reason."""
    first = day - _days(recent - 1)
    before = sample_texts(
        store, first - _days(_WEEK * _WEEKS_BEFORE), first - _days(1), _MOST_TEXTS
    )
    if len(before) < _FEWEST_BEFORE:
        sentence = (
            f"New frequent words cannot be found yet: {count(len(before), 'earlier ticket')} to"
            f" compare with, at least {_FEWEST_BEFORE} are needed."
        )
        return None, DriftFinding("words", None, sentence, {"before": len(before)})
    now = sample_texts(store, first, day, _MOST_TEXTS)
    texts = [text for _, text in now]
    return new_words(texts, [on for on, _ in now], [text for _, text in before]), None


def _label_shift(
    store: ReviewStore, predictor: Predictor, report: DriftReport, recent: int
) -> LabelShift:
    kept = predictor.bundle.calibration.label_shift
    if kept is None:
        reason = "the model was saved without what that takes; train it again"
        if predictor.multi_label:
            reason = "a ticket may have several labels"
        return LabelShift(0, reason=reason)
    first = report.day - _days(recent - 1)
    before, now = (
        _logits_in_scope(predictor, sample_texts(store, start, end, MOST_ANSWERED))
        for start, end in (
            (first - _days(_WEEK * _WEEKS_BEFORE), first - _days(1)),
            (first, report.day),
        )
    )
    if len(before) < _FEWEST_ESTIMATED:
        earlier = count(len(before), "earlier ticket")
        reason = f"only {earlier} to compare with, {_FEWEST_ESTIMATED} are needed"
        return LabelShift(len(now), reason=reason)
    fitted = ShiftCalibration(
        kept.temperature, np.array(kept.bias), np.array(kept.shares), kept.rows
    )
    return estimate_label_shift(
        now, _moved(fitted, before), predictor.labels, out_of_scope_rose=_rose(report)
    )


def _moved(fitted: ShiftCalibration, logits: np.ndarray) -> ShiftCalibration:
    """Set the calibration's label shares to the earlier texts', the baseline for recent days."""
    shares = estimate_label_shares(fitted.probabilities(logits), fitted.shares)
    ratios = np.maximum(shares, _SMALLEST) / np.maximum(fitted.shares, _SMALLEST)
    return ShiftCalibration(fitted.temperature, fitted.bias + np.log(ratios), shares, len(logits))


def _rose(report: DriftReport) -> bool:
    [check] = [one for one in report.findings if one.about == "out_of_scope"]
    figures = check.figures
    return bool(check.changed) and figures["counted"] > figures["usual"] * figures["texts"]


def _logits_in_scope(predictor: Predictor, sample: Sequence[tuple[date, str]]) -> np.ndarray:
    texts = [text for _, text in sample]
    logits = [np.empty((0, len(predictor.labels)), np.float32)]
    for first in range(0, len(texts), _AT_ONCE):
        part = texts[first : first + _AT_ONCE]
        encoded = predictor.encode(part)
        output = predictor.run(encoded)
        answers = predictor.answer_from(part, encoded, output)
        logits.append(output.logits[np.asarray(answers.decisions) < _IN_SCOPE])
    return np.concatenate(logits)


def _days(number: int) -> timedelta:
    return timedelta(days=number)
