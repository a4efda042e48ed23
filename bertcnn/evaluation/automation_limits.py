"""The limits of automatic answers, and the one that would help most.

Each limit is eased in turn on the held-out rows: the threshold is chosen again as if there were
more rows like these, as if nothing were held back as strange, as if two labels were one, or as if
every second mistake about a label were right. The one that gains most is named. All figures come
from answers that the model gave. Only a training shows the real gain of more rows of a label.
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

_TIMES = (2, 3, 5, 10, 30)  # as many rows
_MOST = 5_000  # rows looked at, taken at even distances; and six times as many are assumed
_WORTH = 0.02  # of all rows: a smaller gain is not worth a sentence
_TRIED = 5  # labels and pairs, those with most mistakes
_NEARLY = 0.9  # of what any number of rows would make automatic


@dataclass(frozen=True)
class AutomationLimits:
    """How many answers are automatic, and the limit that would help most.

    Attributes:
        precision: that is promised.
        share: of held-out rows that are automatic, 0 to 1.
        possible: the largest share that reaches this precision on these rows.
        limit: the one that gains most if it is eased.
        gain: the share that is automatic then.
        labels: the one or two that are meant.
        rows: further labelled rows of all labels, as many as are assumed for "rows".
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
        """The limit that would help most, in words for a team lead."""
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

    def in_words(self) -> str:
        """The share and its reason."""
        share = f"{percent(self.share)} of tickets"
        return f"Automatic at {100 * self.precision:.4g}%: {share}, {self.reason}"


def saved_limits(metrics: Mapping[str, Any]) -> AutomationLimits | None:
    """The limits that a saved model's metrics hold; None in models saved before."""
    saved = metrics.get("automation_limits")
    if not isinstance(saved, Mapping):
        return None
    known = {one.name: saved[one.name] for one in fields(AutomationLimits) if one.name in saved}
    return AutomationLimits(**{**known, "labels": tuple(known.get("labels", ()))})


def automation_limits(
    scored: ScoredPredictions, held_back: HeldBack, precision: float, automatic: float | None = None
) -> AutomationLimits:
    """Ease each limit in turn, and see what becomes automatic.

    Args:
        scored: answers to held-out rows that belong to a label.
        held_back: which of them are never automatic.
        precision: that is promised.
        automatic: the share that is automatic with all that a model's decisions take into account,
            such as parents of labels; by default what the threshold of all labels gives.
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

    found = AutomationLimits(
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
    share_now = found.share if automatic is None else automatic
    if gain - found.share < _WORTH:
        return replace(found, share=share_now)
    return AutomationLimits(
        precision,
        share_now,
        found.possible,
        limit,
        min(1.0, share_now + gain - found.share),
        tuple(scored.truth.names[label] for label in labels),
        _rounded((times - 1) * all_rows) if limit == "rows" else 0,
    )


def _possible(confidence: np.ndarray, right: np.ndarray, precision: float, rows: int) -> float:
    """The largest share of `rows` of which so many are right, the most confident first."""
    precisions = np.cumsum(right[np.argsort(-confidence)]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(precisions >= precision)
    return float((enough[-1] + 1) / rows) if len(enough) else 0.0


def _without_mistakes(
    scored: ScoredPredictions, free: np.ndarray
) -> Iterator[tuple[Limit, np.ndarray, tuple[int, ...]]]:
    """Mistakes about two labels, and every second one about a label, bool [rows], and which."""
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
    found = np.zeros(count, bool)
    found[list(rows)] = True
    return found


def _rounded(rows: int) -> int:
    """With one digit that counts, or two.

    Example:
        >>> _rounded(2_854)
        2900
    """
    unit: int = 10 ** max(0, len(str(rows)) - 2)
    return -(-rows // unit) * unit
