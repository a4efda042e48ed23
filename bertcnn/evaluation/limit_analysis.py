"""Limits of automatic answers, and the one that would help most if relaxed.

Relaxes each limit in turn on the held-out rows: more rows of the same kind, no rows held back as
out of scope, two labels merged, or every second mistake about a label corrected. The threshold is
chosen again each time. All figures come from the model's answers; only another training can show
the real gain of more rows for a label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from bertcnn.errors import one_line
from bertcnn.evaluation.decisions import HeldBack
from bertcnn.evaluation.scored_predictions import ScoredPredictions
from bertcnn.evaluation.thresholds import find_threshold
from bertcnn.wording import percent

Limit = Literal["nothing", "rows", "strange", "pair", "label"]

_TIMES = (2, 3, 5, 10, 30)  # multiples of the rows
_MOST = 5_000  # rows examined, evenly spaced; at most six times as many are simulated
_WORTH = 0.02  # of all rows; a smaller gain is not reported
_TRIED = 5  # labels and pairs with the most mistakes
_NEARLY = 0.9  # of the share that any number of rows would make automatic


@dataclass(frozen=True)
class AutomationLimits:
    """The share of automatic answers, and the limit that would help most.

    Attributes:
        share: automatic share of held-out rows, 0 to 1.
        possible: the largest share with this precision on these rows.
        limit: the limit with the largest gain if relaxed.
        gain: the automatic share without the limit.
        labels: the one or two labels concerned.
        rows: further labelled rows of all labels, assumed for "rows".
    """

    precision: float
    share: float
    possible: float
    limit: Limit = "nothing"
    gain: float = 0.0
    labels: tuple[str, ...] = ()
    rows: int = 0

    def to_json(self) -> dict[str, Any]:
        """The figures and the reason as a JSON object."""
        return {**asdict(self), "labels": list(self.labels), "reason": self.reason}

    @property
    def reason(self) -> str:
        """The limit that would help most, as text for a team lead."""
        would = f"{percent(self.gain)} would be automatic"
        names = " and ".join(one_line(name, 60) for name in self.labels)
        reasons = {
            "nothing": (
                "about as many as these answers allow"
                if self.possible
                else "since the most certain answers are wrong too often"
            ),
            "rows": (
                f"limited by too few rows to show it: with about {self.rows:,} more labelled rows"
                f" {would}"
            ),
            "strange": f"limited by rows that look unlike known texts: without this check {would}",
            "pair": (
                f"limited by {names}, which are mixed up: if they were one label, or never mixed"
                f" up, {would}"
            ),
            "label": (
                f"limited by mistakes about {names}: with half as many {would}. More rows of this"
                " label help most"
            ),
        }
        return reasons[self.limit]

    def describe(self) -> str:
        """The share and its reason, as text."""
        share = f"{percent(self.share)} of tickets"
        return f"Automatic at {100 * self.precision:.4g}%: {share}, {self.reason}"


def saved_limits(metrics: Mapping[str, Any]) -> AutomationLimits | None:
    """The limits in a saved model's metrics; None in older models."""
    saved = metrics.get("automation_limits")
    if not isinstance(saved, Mapping):
        return None
    values = {one.name: saved[one.name] for one in fields(AutomationLimits) if one.name in saved}
    return AutomationLimits(**{**values, "labels": tuple(values.get("labels", ()))})


def automation_limits(
    scored: ScoredPredictions, held_back: HeldBack, precision: float, automatic: float | None = None
) -> AutomationLimits:
    """Relax each limit in turn and measure the automatic share.

    `automatic` is the automatic share of the model's full decisions, including parent labels; by
    default the share above the common threshold.
    """
    all_rows = len(scored.logits)
    every = slice(None, None, max(1, -(-all_rows // _MOST)))
    scored, free = scored.of(every), ~held_back.any[every]
    confidence, right, rows = scored.confidence, scored.right, len(free)
    if not rows:
        return AutomationLimits(precision, 0.0, 0.0)

    def share(right: np.ndarray, free: np.ndarray, times: int = 1) -> float:
        sure, true = confidence[free], right[free]
        threshold = find_threshold(np.repeat(sure, times), np.repeat(true, times), precision)
        return 0.0 if threshold is None else float((sure >= threshold).sum() / rows)

    limits = AutomationLimits(
        precision, share(right, free), _possible(confidence[free], right[free], precision, rows)
    )
    assumed = [times for times in _TIMES if times == _TIMES[0] or times * rows <= 6 * _MOST]
    more = {times: share(right, free, times) for times in assumed}
    times = next(one for one in assumed if more[one] >= _NEARLY * max(more.values()))
    tried: list[tuple[Limit, float, tuple[int, ...]]] = [
        ("rows", more[times], ()),
        ("strange", share(right, np.ones(rows, bool)), ()),
    ]
    if scored.truth.multi_hot is None:
        tried += [
            (limit, share(right | mended, free), labels)
            for limit, mended, labels in _without_mistakes(scored, free)
        ]
    limit, gain, labels = max(tried, key=lambda one: one[1])
    share_now = limits.share if automatic is None else automatic
    if gain - limits.share < _WORTH:
        return replace(limits, share=share_now)
    return AutomationLimits(
        precision,
        share_now,
        limits.possible,
        limit,
        min(1.0, share_now + gain - limits.share),
        tuple(scored.truth.names[label] for label in labels),
        _rounded((times - 1) * all_rows) if limit == "rows" else 0,
    )


def _possible(confidence: np.ndarray, right: np.ndarray, precision: float, rows: int) -> float:
    """The largest share of `rows` with at least this precision, most confident first."""
    precisions = np.cumsum(right[np.argsort(-confidence)]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(precisions >= precision)
    return float((enough[-1] + 1) / rows) if len(enough) else 0.0


def _without_mistakes(
    scored: ScoredPredictions, free: np.ndarray
) -> Iterator[tuple[Limit, np.ndarray, tuple[int, ...]]]:
    """Assume mistakes corrected: between two labels, or every second one of a label.

    Yields the limit, the corrected rows, bool [rows], and the labels.
    """
    true, said = scored.truth.labels, scored.first
    wrong = np.flatnonzero((true != said) & free)
    wrong = wrong[np.argsort(-scored.confidence[wrong], kind="stable")]
    pairs = Counter(tuple(sorted((int(true[row]), int(said[row])))) for row in wrong)
    for (one, other), _ in pairs.most_common(_TRIED):
        rows = [row for row in wrong if {int(true[row]), int(said[row])} == {one, other}]
        yield "pair", _at(rows, len(true)), (one, other)
    labels = Counter(int(label) for row in wrong for label in (true[row], said[row]))
    for label, _ in labels.most_common(_TRIED):
        rows = [row for row in wrong if label in (true[row], said[row])]
        yield "label", _at(rows[::2], len(true)), (label,)


def _at(rows: Sequence[np.integer], count: int) -> np.ndarray:
    mask = np.zeros(count, bool)
    mask[list(rows)] = True
    return mask


def _rounded(rows: int) -> int:
    """Round up to two significant digits.

    Example:
        >>> _rounded(2_854)
        2900
    """
    unit: int = 10 ** max(0, len(str(rows)) - 2)
    return -(-rows // unit) * unit
