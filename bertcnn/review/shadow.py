"""Shadow answers: the previous model answers new tickets too, so that audits compare both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import Alias, ColumnElement, func, select

from bertcnn.errors import BundleError
from bertcnn.evaluation import PairedDifference, paired_difference
from bertcnn.inference import Predictor, load
from bertcnn.progress import Progress, Silent
from bertcnn.review.daily_figures import DAY, day_of
from bertcnn.review.models import KnownModel, find_model, model_history
from bertcnn.review.schema import draw, prediction, ticket
from bertcnn.review.states import DECIDED, is_right
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import BESIDE, answer_beside
from bertcnn.settings import DECISIONS
from bertcnn.wording import count

SHADOWED = 14.0  # days after a promotion
_AT_ONCE = 512  # tickets
_OUT_OF_SCOPE = DECISIONS[2]


@dataclass(frozen=True)
class Handover:
    """The last change of the serving model; `at` is in seconds since 1970, UTC."""

    before: KnownModel
    serving: KnownModel
    at: float

    @property
    def watched(self) -> bool:
        """Whether the previous model still answers new tickets."""
        return now() < self.at + SHADOWED * DAY


def last_handover(store: ReviewStore) -> Handover | None:
    """The last promotion or rollback that changed the serving model, or None."""
    served = [one for one in model_history(store) if one.kind in ("promoted", "rolled_back")]
    if len(served) < 2:
        return None
    before, serving = served[-2:]
    return Handover(find_model(store, before.model), find_model(store, serving.model), serving.at)


def answer_in_shadow(store: ReviewStore, *, progress: Progress | None = None) -> int:
    """Let the previous model answer newer tickets, hidden from people; returns their number.

    Runs only for 14 days after a promotion or rollback. Answered tickets are skipped, so calls can
    be repeated; `add_file` calls it. If the model cannot be loaded, a progress note reports it.
    """
    progress, change = progress or Silent(), last_handover(store)
    if change is None or not change.watched:
        return 0
    tickets = _unanswered(store, change, 0)
    predictor = _load(change.before, progress) if tickets else None
    if predictor is None:
        return 0
    progress.stage("answering with the earlier model", 0, "tickets")
    answered = 0
    while tickets:
        answer_beside(store, predictor, tickets)
        progress.advance(len(tickets))
        answered += len(tickets)
        tickets = _unanswered(store, change, tickets[-1])
    return answered


def _load(model: KnownModel, progress: Progress) -> Predictor | None:
    try:
        predictor = load(model.folder)
    except BundleError:
        predictor = None
    if predictor is not None and predictor.bundle.bundle_id == model.id:
        return predictor
    progress.note(
        f"the model {model.id[:12]}, which served before, is not in {model.folder} any more; how it"
        " would have answered is not kept"
    )
    return None


def _unanswered(store: ReviewStore, change: Handover, behind: int) -> list[int]:
    """The next tickets since the change without an answer by the previous model."""
    theirs = prediction.alias()
    answered = (
        select(theirs.c.ticket)
        .where(theirs.c.ticket == prediction.c.ticket, theirs.c.model == change.before.id)
        .exists()
    )
    with store.reading() as connection:
        return list(
            connection.scalars(
                select(prediction.c.ticket)
                .join(ticket, ticket.c.id == prediction.c.ticket)
                .where(
                    prediction.c.model == change.serving.id,
                    prediction.c.predicted_at >= change.at,
                    prediction.c.ticket > behind,
                    ticket.c.erased_at.is_(None),
                    ~answered,
                )
                .order_by(prediction.c.ticket)
                .limit(_AT_ONCE)
            )
        )


@dataclass(frozen=True)
class ShadowReport:
    """The serving model and the previous one, compared on tickets since the change.

    Attributes:
        answered: tickets answered by both.
        decided: representative decided ones among them: audits, and tickets that the serving model
            sent to review.
        serving, before: estimated accuracy of both on all tickets; None without any.
        difference: the serving model's accuracy minus the previous one's; None without any.
    """

    change: Handover
    answered: int
    decided: int = 0
    serving: float | None = None
    before: float | None = None
    difference: PairedDifference | None = None

    def lines(self) -> list[str]:
        """The report as text lines."""
        change, gap = self.change, self.difference
        first = (
            f"The model {change.serving.id[:12]} serves since {day_of(change.at)}. The one before"
            f" it, {change.before.id[:12]}, has answered {count(self.answered, 'ticket')} too."
        )
        if gap is None:
            return [first, "Nobody has decided any of them yet."]
        if gap.low > 0:
            verdict = "The serving model is better."
        elif gap.high < 0:
            verdict = "The one before it is better: think of rolling back."
        else:
            verdict = "It is too early to say which is better."
        figures = (
            f"By {count(self.decided, 'decided ticket')}, {self.serving:.1%} of the serving model's"
            f" answers are right, and {self.before:.1%} of the earlier one's: a difference of"
            f" {100 * gap.estimate:+.1f} points (95% confidence: {100 * gap.low:+.1f} to"
            f" {100 * gap.high:+.1f})."
        )
        return [first, figures, verdict]

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "model": self.change.serving.id,
            "before": self.change.before.id,
            "since": self.change.at,
            "answered": self.answered,
            "decided": self.decided,
            "accuracy": self.serving,
            "accuracy_before": self.before,
            "difference": None if self.difference is None else asdict(self.difference),
        }


@dataclass(frozen=True)
class _Decided:
    """A decided ticket that both models have answered; equal texts share a `group`."""

    serving: bool
    before: bool
    group: str
    pi: float | None


def shadow_report(store: ReviewStore) -> ShadowReport | None:
    """Compare the serving model with the previous one on decided tickets since the change.

    These are audits, weighted for the automatic answers, and tickets that the serving model sent to
    review. Disputed tickets do not count. An answer "out of scope" is right for a ticket that
    belongs to no label. None without a previous model, or without tickets answered by both.
    """
    change = last_handover(store)
    if change is None:
        return None
    sizes = _sizes(store, change)
    answered = sum(sizes.values())
    if not answered:
        return None
    decided = _decided(store, change)
    if not decided:
        return ShadowReport(change, answered)
    before, serving = (
        np.array([getattr(one, name) for one in decided]) for name in ("before", "serving")
    )
    weights = _weights(decided, sizes)
    return ShadowReport(
        change,
        answered,
        len(decided),
        float(np.average(serving, weights=weights)),
        float(np.average(before, weights=weights)),
        paired_difference(
            before, serving, groups=np.array([one.group for one in decided]), weights=weights
        ),
    )


def _weights(decided: Sequence[_Decided], sizes: dict[bool | None, int]) -> np.ndarray:
    """Weights, float64 [decided]: a decided ticket also represents newer waiting ones."""
    audits = sum(one.pi is not None for one in decided)
    reviews = len(decided) - audits
    return np.array(
        [
            sizes[None] / reviews if one.pi is None else sizes[True] / audits / one.pi
            for one in decided
        ]
    )


def _sizes(store: ReviewStore, change: Handover) -> dict[bool | None, int]:
    """Counts of tickets answered by both: in review (None), drawn as audits, and others."""
    serving, before = prediction.alias(), prediction.alias()
    statement = (
        select(draw.c.drawn, func.count().label("number"))
        .select_from(serving)
        .join(before, _both(serving, before, change))
        .outerjoin(draw, (draw.c.ticket == serving.c.ticket) & (draw.c.model == serving.c.model))
        .group_by(draw.c.drawn)
    )
    with store.reading() as connection:
        return {row.drawn: row.number for row in connection.execute(statement)}


def _decided(store: ReviewStore, change: Handover) -> list[_Decided]:
    """The tickets with undisputed decisions."""
    serving, before = prediction.alias(), prediction.alias()
    statement = (
        select(
            serving.c.ticket,
            serving.c.label.label("serving"),
            serving.c.decision.label("serving_decision"),
            before.c.label.label("before"),
            before.c.decision.label("before_decision"),
            ticket.c.text_hash,
            draw.c.drawn,
            draw.c.probability,
            func.coalesce(ticket.c.label, "").label("decided"),
        )
        .select_from(serving)
        .join(before, _both(serving, before, change))
        .join(ticket, ticket.c.id == serving.c.ticket)
        .outerjoin(draw, (draw.c.ticket == serving.c.ticket) & (draw.c.model == serving.c.model))
        .where(ticket.c.state.in_(DECIDED), draw.c.drawn.is_not(False))
        .order_by(serving.c.ticket)
    )
    with store.reading() as connection:
        return [
            _Decided(
                _right(row.decided, row.serving, row.serving_decision, change.serving),
                _right(row.decided, row.before, row.before_decision, change.before),
                row.text_hash,
                float(row.probability) if row.drawn else None,
            )
            for row in connection.execute(statement)
        ]


def _right(decided: str, answer: str | None, model_decision: str, model: KnownModel) -> bool:
    if not decided and model_decision == _OUT_OF_SCOPE:
        return True
    return is_right(decided, answer, model.separator)


def _both(serving: Alias, before: Alias, change: Handover) -> ColumnElement[bool]:
    return (
        (before.c.ticket == serving.c.ticket)
        & (serving.c.model == change.serving.id)
        & (serving.c.predicted_at >= change.at)
        & (before.c.model == change.before.id)
        & (before.c.predicted_at == BESIDE)
    )
