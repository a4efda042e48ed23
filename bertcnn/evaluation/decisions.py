"""Decisions: which answers are automatic, and which ones a person checks.

The user sets a precision; `find_threshold` finds the confidence that reaches it on held-out rows.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bertcnn.bundle import Decisions, HeldOut, HeldOutParents, OutOfScopeDetector
from bertcnn.data import Hierarchy
from bertcnn.errors import SettingsError, one_line
from bertcnn.evaluation.probabilities import exact_match_probability
from bertcnn.evaluation.thresholds import ERROR_PROBABILITY, fewest_rows, find_threshold
from bertcnn.settings import PrecisionTargets

_PERCENT = 0.01
_KEPT = 5000  # held-out rows
_NAMED = 3  # labels named in a sentence


@dataclass(frozen=True, eq=False)
class HeldBack:
    """Which held-out rows are never automatic.

    Attributes:
        outside: bool [rows], out of scope or in another language.
        doubtful: bool [rows], other rows too near the scope's limit.
        strange: bool [rows], known to be out of scope; their labels are undefined.
    """

    outside: np.ndarray
    doubtful: np.ndarray
    strange: np.ndarray

    @classmethod
    def none(cls, rows: int) -> HeldBack:
        """No row held back."""
        return cls(*(np.zeros(rows, bool) for _ in range(3)))

    @classmethod
    def of(cls, parts: Sequence[HeldBack]) -> HeldBack:
        """Concatenate parts."""
        columns = zip(*((part.outside, part.doubtful, part.strange) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    @property
    def any(self) -> np.ndarray:
        """Which rows are held back, bool [rows]."""
        return self.outside | self.doubtful

    def at(self, rows: np.ndarray) -> HeldBack:
        """The flags of these rows."""
        return HeldBack(self.outside[rows], self.doubtful[rows], self.strange[rows])

    def with_strange(self, outside: np.ndarray, doubtful: np.ndarray) -> HeldBack:
        """Append rows that are known to be out of scope."""
        return HeldBack.of([self, HeldBack(outside, doubtful, np.ones(len(outside), bool))])

    def counts(self) -> dict[str, int]:
        """The counts for `HeldOut`."""
        return {
            "out_of_scope": int((self.outside & ~self.strange).sum()),
            "doubtful": int((self.doubtful & ~self.strange).sum()),
            "strange_held_back": int((self.any & self.strange).sum()),
        }


def held_out_answers(
    probabilities: np.ndarray,
    labels: np.ndarray,
    held_back: HeldBack | None = None,
    hierarchy: Hierarchy | None = None,
) -> HeldOut:
    """A model's answers to held-out rows, to be saved with it.

    Keeps at most 5,000 rows, evenly spaced: they are read at every start, and with 5,000 rows the
    confidence bound is within half a point of the precision. `probabilities` are float32 [rows, C],
    calibrated; `labels` int [rows]. `held_back` rows are never automatic and only counted.
    """
    chosen = _spread(len(labels))
    back = (held_back or HeldBack.none(len(labels))).at(chosen)
    kept = chosen[~back.any]
    strange = back.strange[~back.any]
    probabilities, labels = probabilities[kept], np.where(strange, -1, labels[kept])
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    parents = [] if hierarchy is None else _parents(hierarchy, probabilities[order], labels[order])
    return HeldOut(
        **_columns(confidence[order], predicted[order], predicted[order] == labels[order]),
        strange=_flags(strange[order]),
        parents=tuple(parents),
        **back.counts(),
    )


def _columns(
    confidence: np.ndarray, predicted: np.ndarray, right: np.ndarray
) -> dict[str, tuple[Any, ...]]:
    values = {"confidence": confidence, "predicted": predicted, "right": right}
    return {name: tuple(column.tolist()) for name, column in values.items()}


def _flags(strange: np.ndarray) -> tuple[bool, ...]:
    return tuple(strange.tolist()) if strange.any() else ()


def _spread(rows: int) -> np.ndarray:
    return np.unique(np.linspace(0, max(0, rows - 1), min(rows, _KEPT)).round().astype(int))


def held_out_sets(
    probabilities: np.ndarray,
    predicted: np.ndarray,
    multi_hot: np.ndarray,
    held_back: HeldBack | None = None,
) -> HeldOut:
    """`held_out_answers` for rows with several labels.

    An answer is right only if its label set is exactly right. `probabilities` are float32 [rows,
    C], calibrated; `predicted` and `multi_hot` are predicted and true labels, bool [rows, C]. Rows
    that are held back or have no predicted label are never automatic.
    """
    rows = _spread(len(multi_hot))
    back = (held_back or HeldBack.none(len(multi_hot))).at(rows)
    back = replace(back, outside=back.outside | (~predicted[rows].any(axis=1) & ~back.doubtful))
    kept, strange = rows[~back.any], back.strange[~back.any]
    confidence = exact_match_probability(probabilities[kept], predicted[kept])
    order = np.argsort(-confidence, kind="stable")
    right = (predicted[kept] == multi_hot[kept]).all(axis=1) & ~strange
    first = probabilities[kept].argmax(axis=1)
    return HeldOut(
        **_columns(confidence[order], first[order], right[order]),
        strange=_flags(strange[order]),
        **back.counts(),
    )


def _parents(
    hierarchy: Hierarchy, probabilities: np.ndarray, labels: np.ndarray
) -> list[HeldOutParents]:
    """Each level's most probable parents, and whether they are right; label -1 is out of scope."""
    probabilities, parents = hierarchy.with_parents(probabilities), []
    for level in range(len(hierarchy.levels)):
        best, confidence = hierarchy.best_parents(probabilities, level)
        right = (hierarchy.members[labels, best - len(hierarchy.labels)] > 0) & (labels >= 0)
        parents.append(
            HeldOutParents(confidence=tuple(confidence.tolist()), right=tuple(right.tolist()))
        )
    return parents


def decide(held_out: HeldOut, labels: Sequence[str], targets: PrecisionTargets) -> Decisions:
    """The thresholds of all labels.

    A label with its own target gets its threshold from the rows predicted as this label, or from
    all rows if these are too few. All other labels share a threshold, from the rows predicted as
    one of them. If labels have levels, each level of parents has a threshold, from the rows that no
    deeper level has answered.

    Raises:
        SettingsError: a target names an unknown label.
    """
    check_targets(targets, labels)
    confidence = np.array(held_out.confidence)
    right = np.array(held_out.right, bool)
    predicted = np.array(held_out.predicted, int)
    shares_one = ~np.isin(predicted, [labels.index(label) for label in targets.labels])
    shared = find_threshold(confidence[shares_one], right[shares_one], targets.overall)
    thresholds, with_own_rows = [shared] * len(labels), []
    for label, precision in targets.labels.items():
        index = labels.index(label)
        rows = predicted == index
        if rows.sum() >= fewest_rows(precision):
            with_own_rows.append(label)
        else:
            rows[:] = True
        thresholds[index] = find_threshold(confidence[rows], right[rows], precision)
    left, parent_thresholds = ~_automatic(confidence, predicted, thresholds), []
    for level in held_out.parents:
        sure, true = np.array(level.confidence), np.array(level.right, bool)
        parent_thresholds.append(find_threshold(sure[left], true[left], targets.overall))
        left &= ~_automatic(sure, np.zeros(len(sure), int), parent_thresholds[-1:])
    return Decisions(
        auto_precision=targets,
        parent_thresholds=tuple(parent_thresholds),
        error_probability=ERROR_PROBABILITY,
        thresholds=tuple(thresholds),
        own_rows=tuple(with_own_rows),
        reachable=(
            _reachable(confidence[shares_one], right[shares_one], targets.overall)
            if shared is None
            else None
        ),
        held_out=held_out,
    )


def _automatic(
    confidence: np.ndarray, predicted: np.ndarray, thresholds: Sequence[float | None]
) -> np.ndarray:
    return (
        confidence
        >= np.array([np.inf if threshold is None else threshold for threshold in thresholds])[
            predicted
        ]
    )


def check_targets(targets: PrecisionTargets, labels: Sequence[str]) -> None:
    """Refuse targets for unknown labels.

    Raises:
        SettingsError: names the first unknown label.
    """
    unknown = sorted(set(targets.labels) - set(labels))
    if unknown:
        raise SettingsError(
            f"an automatic precision for the label {one_line(unknown[0])}",
            expected=f"labels of the model: {one_line(', '.join(labels), 200)}",
            fix="correct the label",
        )


def _reachable(confidence: np.ndarray, right: np.ndarray, below: float) -> float | None:
    """The highest whole percentage below a target that has a threshold."""
    percents = range(1, math.ceil(below / _PERCENT))  # lower percentages are reached too
    shown = bisect_left(
        percents, True, key=lambda one: find_threshold(confidence, right, one * _PERCENT) is None
    )
    return percents[shown - 1] * _PERCENT if shown else None


@dataclass(frozen=True)
class Automation:
    """The decisions counted on the held-out rows.

    Attributes:
        automatic: rows answered automatically; the others go to review.
        parents: automatic rows answered with a parent label.
        right: automatic rows that are right.
        out_of_scope: rows in review because they are out of scope, in another language, or without
            a label where several are possible.
        auto_precision: the required precision, as the user wrote it.
        doubtful: other rows too near the scope's limit.
        strange: rows known to be out of scope.
        strange_automatic: automatic rows of these.
    """

    rows: int
    automatic: int
    parents: int
    right: int
    out_of_scope: int
    auto_precision: str
    doubtful: int = 0
    strange: int = 0
    strange_automatic: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return asdict(self)

    @property
    def share(self) -> float:
        """Automatic share of all rows, 0 to 1."""
        return self.automatic / self.rows if self.rows else 0.0


def automation(decisions: Decisions) -> Automation:
    """Count the automatic rows among the held-out rows of the decisions."""
    held_out = decisions.held_out
    counts = Automation(
        held_out.rows,
        0,
        0,
        0,
        held_out.out_of_scope,
        str(decisions.auto_precision),
        held_out.doubtful,
        held_out.all_strange,
    )
    if not decisions.thresholds or not held_out.right:
        return counts
    automatic = _automatic(
        np.array(held_out.confidence), np.array(held_out.predicted, int), decisions.thresholds
    )
    right, labels = int(np.array(held_out.right, bool)[automatic].sum()), int(automatic.sum())
    for level, threshold in zip(held_out.parents, decisions.parent_thresholds, strict=False):
        reached = (
            _automatic(np.array(level.confidence), np.zeros(len(automatic), int), [threshold])
            & ~automatic
        )
        right += int(np.array(level.right, bool)[reached].sum())
        automatic |= reached
    strange = np.array(held_out.strange or [False] * len(automatic), bool)
    return replace(
        counts,
        automatic=int(automatic.sum()),
        parents=int(automatic.sum()) - labels,
        right=right,
        strange_automatic=int((automatic & strange).sum()),
    )


def describe_out_of_scope(
    held_out: HeldOut, scope: OutOfScopeDetector, *, several_labels: bool = False
) -> str:
    """The share of held-out rows that is out of scope, as a sentence.

    `several_labels` is whether a text may have several labels, or none.
    """
    if not scope:
        return "too few rows, or too many labels, to tell which texts are out of scope"
    outside, rows = held_out.out_of_scope, held_out.rows - held_out.all_strange
    why = f"{'get no label or ' if several_labels else ''}look unlike known texts"
    near = f", {held_out.doubtful:,} more are too near that to be automatic"
    return (
        f"{outside:,} of {rows:,} held-out rows ({outside / max(1, rows):.1%}) {why} and count as"
        f" out of scope{near if held_out.doubtful else ''}"
    )


def describe_held_out(decisions: Decisions, validation_rows: int) -> str:
    """The rows that the decisions come from, as the start of a sentence."""
    rows = decisions.held_out.rows - decisions.held_out.all_strange
    if rows <= validation_rows:
        return "On these rows"
    return f"On {rows:,} rows, each answered by a model that did not learn it,"


def describe_promise(decisions: Decisions) -> str:
    """The texts that the promised precision applies to, as a sentence for a team lead."""
    counts = automation(decisions)
    if not counts.strange:
        return (
            "The precision is about tickets that belong to one of the labels, as all held-out rows"
            " do. Of other messages (spam, other trades) some may be answered too: give examples"
            " with --out-of-scope, and they are counted"
        )
    back = counts.strange - counts.strange_automatic
    return (
        f"The precision counts messages that belong to no label: of {counts.strange:,} held-out"
        f" ones {back:,} ({back / counts.strange:.0%}) go to a person, and each of the others"
        " counts as a wrong answer"
    )


def describe_decisions(decisions: Decisions, labels: Sequence[str]) -> str:
    """The decisions in one sentence."""
    counts, targets = automation(decisions), decisions.auto_precision
    goal = f"{_percent(targets.overall)} precision"
    label_targets = [
        f"{one_line(label)} {_percent(share)}" for label, share in sorted(targets.labels.items())
    ]
    named = ", ".join(
        [
            *label_targets[:_NAMED],
            *([f"{len(label_targets) - _NAMED} others"] if len(label_targets) > _NAMED else []),
        ]
    )
    kept = round(100 * counts.share)
    above = (
        f" ({round(100 * counts.parents / counts.rows)}% with a parent label)"
        if counts.parents
        else ""
    )
    of_others = [
        threshold
        for label, threshold in zip(labels, decisions.thresholds, strict=False)
        if label not in targets.labels
    ]
    others_have_none = bool(of_others) and of_others.count(None) == len(of_others)
    if counts.automatic and not (label_targets and others_have_none):
        return (
            f"at {goal}{f' ({named})' if label_targets else ''} {kept}% of tickets are handled"
            f" automatically{above}, {100 - kept}% go to review"
        )
    most = (
        ""
        if decisions.reachable is None
        else f"; {_percent(decisions.reachable)} is the most they can show"
    )
    outcome = "all tickets go to review"
    if counts.automatic:
        parents = ", and parents," if above else ""
        outcome = (
            f"only labels with targets of their own ({named}){parents} are automatic: {kept}% of"
            f" tickets{above}"
        )
        outcome += f", {100 - kept}% go to review"
    return f"{goal} cannot be shown on {counts.rows:,} held-out rows{most}: {outcome}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"
