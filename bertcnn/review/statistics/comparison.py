"""Champion and challenger on the same rows: is the new model better, worse, or undecided?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from bertcnn.errors import SettingsError, one_line
from bertcnn.evaluation import (
    ONE_SIDED,
    TWO_SIDED,
    LostLabel,
    Pair,
    PairedDifference,
    bootstrap,
    lost_labels,
    mid_p,
    net_change,
    paired_difference,
    share_differing,
)
from bertcnn.review.statistics.audit import flags
from bertcnn.wording import count

FEWEST_ROWS = 300  # held-out rows; near duplicates count once
MARGIN = 0.01  # of accuracy: "not worse" allows a smaller loss
HALF_POINT = 0.005  # of accuracy: the smallest refused loss and the smallest gain
_POWER = 0.8
_NAMED = 3  # labels in a sentence
_MOST_ASKED = 10_000  # more audits than anybody reads

Verdict = Literal["better", "not worse", "cannot tell", "worse"]


@dataclass(frozen=True, eq=False)
class Answers:
    """A model's labels [rows], str or int, and which are automatic, bool [rows], or None."""

    labels: np.ndarray | Sequence[str]
    automatic: np.ndarray | Sequence[bool] | None = None


@dataclass(frozen=True)
class Comparison:
    """The comparison of a challenger with the champion.

    Attributes:
        verdict: `better`, `not worse`, `cannot tell` or `worse`; the first two may be promoted.
        sentences: the verdict and its reason, for a person.
        champion, challenger: accuracies, 0 to 1.
        p_value: mid-p McNemar test that neither is better; unweighted.
        automated: share of automatic answers of both; None if unknown.
        automatic_accuracy: accuracy of the automatic answers of both; None if unknown or without
            any.
        lost_labels: labels that the challenger clearly loses.
        gains: the challenger's advantages apart from accuracy.
        rows_missing: how many more rows would probably settle it; None unless the verdict is
            `cannot tell`, 0 if more would not help.
    """

    verdict: Verdict
    sentences: str
    champion: float
    challenger: float
    difference: PairedDifference
    p_value: float
    macro_f1: Pair
    automated: Pair | None
    automatic_accuracy: tuple[float | None, float | None] | None
    lost_labels: tuple[LostLabel, ...]
    gains: tuple[str, ...]
    rows_missing: int | None

    def to_json(self) -> dict[str, Any]:
        """All figures as a JSON object."""
        return asdict(self)


def compare(
    actual: np.ndarray | Sequence[str],
    champion: Answers,
    challenger: Answers,
    *,
    groups: np.ndarray | Sequence[Any] | None = None,
    weights: np.ndarray | Sequence[float] | None = None,
    gains: Sequence[str] = (),
    promised: float | None = None,
) -> Comparison:
    """Compare two models on rows that neither was trained on.

    - `worse`: the challenger's accuracy is half a point or more below, or one label with at least
      20 rows is clearly lost.
    - `better`: the 95 % interval of the difference is above 0.
    - `not worse`: the difference is above -1 point with 95 % confidence, and there is a gain.
    - `cannot tell`: anything else, and always with fewer than 300 rows.

    Args:
        actual: the true labels, str or int [rows].
        champion: the serving model's answers.
        challenger: the new model's answers.
        groups: [rows], equal for near duplicates, which count as one; by default all differ.
        weights: [rows], the inverse of each row's sampling probability; by default all equal.
        gains: the challenger's other advantages, as ends of "it gains: ...", for example "a new
            label, refunds". More automatic answers are added automatically.
        promised: the required accuracy of automatic answers for more of them to be a gain; by
            default the champion's minus one point.

    Raises:
        SettingsError: no rows, columns of different lengths, or a weight that is not above 0.

    Example:
        >>> actual = np.arange(2000) % 4
        >>> champion, challenger = np.where(np.arange(2000) < 200, 9, actual), actual.copy()
        >>> compare(actual, Answers(champion), Answers(challenger)).verdict
        'better'
    """
    _check_rows(actual, champion.labels, challenger.labels, groups, weights)
    names, codes = np.unique(
        np.concatenate([np.asarray(one) for one in (actual, champion.labels, challenger.labels)]),
        return_inverse=True,
    )
    truth, *predicted = np.split(codes, 3)
    rows = len(truth)
    group = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    share = np.ones(rows) if weights is None else np.asarray(weights, float)
    right = [answers == truth for answers in predicted]
    automatic = _automatic(champion, challenger, rows)
    difference = paired_difference(right[0], right[1], groups=group, weights=share)
    macro_f1, automated = bootstrap(truth, predicted, automatic, (group, share))
    trusted = None if automatic is None else _automatic_accuracy(right, automatic, share)
    all_gains = tuple(gains) + _more_automatic(automated, trusted, promised)
    lost = lost_labels(names[truth], right[0], right[1], groups=group)
    verdict = judge(difference, lost, all_gains)
    missing = rows_missing(difference, gain=bool(all_gains)) if verdict == "cannot tell" else None
    accuracies = [float(np.average(one, weights=share)) for one in right]
    return Comparison(
        verdict=verdict,
        sentences=_sentences(verdict, accuracies, difference, lost, all_gains, missing),
        champion=accuracies[0],
        challenger=accuracies[1],
        difference=difference,
        p_value=mid_p(*(int(side.sum()) for side in net_change(right[0], right[1], group))),
        macro_f1=macro_f1,
        automated=automated,
        automatic_accuracy=trusted,
        lost_labels=lost,
        gains=all_gains,
        rows_missing=missing,
    )


def judge(difference: PairedDifference, lost: Sequence[LostLabel], gains: Sequence[str]) -> Verdict:
    """The verdict of `compare`, from its figures."""
    if difference.groups < FEWEST_ROWS:
        return "cannot tell"
    if difference.estimate <= -HALF_POINT or lost:
        return "worse"
    if difference.low > 0:
        return "better"
    return "not worse" if difference.at_least > -MARGIN and gains else "cannot tell"


def rows_missing(difference: PairedDifference, *, gain: bool) -> int:
    """The number of further rows that would settle a comparison with a probability of 80 %.

    With a gain, they show that the challenger is not worse by a point, if it is as good as the
    champion, or as far below as it looks now. Otherwise, or if fewer rows suffice, they show that
    it is better, if it is half a point better, or as far above as it looks now. The formula is n =
    (z_level + z_power)^2 d / distance^2, where d is the share of rows that only one model gets
    right (Connor 1987 for a test; Lachenbruch and Lynch 1998 for a margin; both subtract the
    squared difference from d, which is small for similar models). A challenger that is half a point
    below only needs the 300 rows of any verdict.

    Returns:
        0 if that many rows exist already, so more would not help.

    Example:
        >>> alike = PairedDifference(0, -0.011, 0.011, -0.009, 0.015, 0.015, 1000, 1000, 1000.0)
        >>> rows_missing(alike, gain=True), rows_missing(alike, gain=False)
        (975, 9027)
    """
    differing = share_differing(difference.won + difference.lost, difference.effective)
    power = float(norm.ppf(_POWER))
    needed = (TWO_SIDED + power) ** 2 / max(difference.estimate, HALF_POINT) ** 2
    if gain:
        distance = MARGIN + min(difference.estimate, 0.0)
        needed = min(needed, (ONE_SIDED + power) ** 2 / max(distance, HALF_POINT) ** 2)
    if difference.estimate <= -HALF_POINT:  # the verdict is `worse` as soon as there is one
        needed = 0.0
    each = difference.rows / difference.effective
    fewest = FEWEST_ROWS * difference.rows / difference.groups
    return max(0, math.ceil(max(needed * differing * each, fewest)) - difference.rows)


def _check_rows(*columns: np.ndarray | Sequence[Any] | None) -> None:
    """Raise SettingsError for columns of different lengths; the last are weights, or None."""
    lengths = [len(column) for column in columns if column is not None]
    if len(set(lengths)) > 1 or not lengths[0]:
        raise SettingsError(
            f"columns of {', '.join(f'{length:,}' for length in lengths)} rows",
            expected="true labels, answers, groups and weights of the same rows, at least one",
            fix="let both models answer the same rows",
        )
    weights = columns[-1]
    if weights is not None and not (np.isfinite(weights) & (np.asarray(weights) > 0)).all():
        raise SettingsError(
            "a weight that is not above 0",
            expected="the inverse of a row's probability of being selected",
            fix="leave out rows that could not be selected",
        )


def _automatic(champion: Answers, challenger: Answers, rows: int) -> list[np.ndarray] | None:
    if champion.automatic is None or challenger.automatic is None:
        return None
    decisions = [flags(one, "decisions") for one in (champion.automatic, challenger.automatic)]
    if {len(one) for one in decisions} != {rows}:
        raise SettingsError(
            f"decisions on {' and '.join(f'{len(one):,}' for one in decisions)} of {rows:,} rows",
            expected="one decision for each row",
            fix="give the decisions on the same rows",
        )
    return decisions


def _automatic_accuracy(
    right: list[np.ndarray], automatic: list[np.ndarray], weights: np.ndarray
) -> tuple[float | None, float | None]:
    champion, challenger = (
        float(np.average(one[sure], weights=weights[sure])) if sure.any() else None
        for one, sure in zip(right, automatic, strict=True)
    )
    return champion, challenger


def _more_automatic(
    automated: Pair | None,
    accuracy: tuple[float | None, float | None] | None,
    promised: float | None,
) -> tuple[str, ...]:
    if automated is None or accuracy is None or automated.low <= 0 or accuracy[1] is None:
        return ()
    needed = (accuracy[0] or 0.0) - MARGIN if promised is None else promised
    if accuracy[1] < needed:
        return ()
    return (f"{100 * automated.difference:.1f} points more of the tickets need no person",)


def _sentences(
    verdict: Verdict,
    accuracies: Sequence[float],
    difference: PairedDifference,
    lost: Sequence[LostLabel],
    gains: Sequence[str],
    missing: int | None,
) -> str:
    """The verdict and its reason, in one or two sentences."""
    champion, challenger = (f"{accuracy:.1%}" for accuracy in accuracies)
    shares = f"on {challenger} of {count(difference.rows, 'ticket')}, the present one on {champion}"
    estimate, low, high, at_least = (
        f"{100 * figure:+.1f}"
        for figure in (difference.estimate, difference.low, difference.high, difference.at_least)
    )
    interval = f"95% confidence: {low} to {high} points"
    if verdict == "better":
        return f"The new model is right more often: {shares}, {estimate} points ({interval})."
    if verdict == "not worse":
        return (
            f"The new model is about as often right: {shares}, at worst {at_least} points (95%"
            f" confidence). It gains: {', '.join(gains)}."
        )
    if verdict == "worse":
        return " ".join(_why_worse(shares, estimate, interval, difference, lost))
    return _cannot_tell(shares, difference, missing or 0)


def _cannot_tell(shares: str, difference: PairedDifference, missing: int) -> str:
    """One sentence, without an interval from few tickets or a number that nobody can reach."""
    if difference.groups < FEWEST_ROWS:
        return (
            f"Cannot tell yet which model is better: {count(difference.groups, 'ticket')} to"
            f" compare them on, and about {FEWEST_ROWS - difference.groups} more audits are needed."
        )
    if 0 < missing <= _MOST_ASKED:
        return (
            f"Cannot tell yet whether the new model is better: it is right {shares}, and about"
            f" {_rounded_up(missing):,} more audits would probably tell."
        )
    more = f", and {_MOST_ASKED:,} more audits would probably show none" if missing else ""
    return (
        f"Cannot tell a difference: the new model is right {shares}{more}; keep the present model,"
        " unless the new one has another advantage."
    )


def _rounded_up(number: int) -> int:
    """A number with two significant digits.

    Example:
        >>> _rounded_up(1234), _rounded_up(7)
        (1300, 7)
    """
    step = 10 ** max(0, len(str(number)) - 2)
    return math.ceil(number / step) * step


def _why_worse(
    shares: str,
    estimate: str,
    interval: str,
    difference: PairedDifference,
    lost: Sequence[LostLabel],
) -> list[str]:
    sentences = []
    if difference.estimate <= -HALF_POINT:
        chance = ", so it may be chance" if difference.high > 0 else ""
        sentences.append(
            f"The new model is right less often: {shares}, {estimate} points ({interval}{chance}),"
            " and a loss of half a point or more is not accepted."
        )
    if lost:
        named = "; ".join(
            f"{one_line(one.label, 40)}, {one.challenger:,} instead of {one.champion:,} of"
            f" {one.rows:,} right"
            for one in lost[:_NAMED]
        )
        more = f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        sentences.append(f"The new model clearly loses {count(len(lost), 'label')}: {named}{more}.")
    return sentences
