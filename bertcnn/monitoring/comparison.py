"""Champion and challenger on the same rows: is the new model better, or can nobody tell yet?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.stats import binom, norm

from bertcnn.errors import SettingsError, one_line
from bertcnn.monitoring.audit import flags
from bertcnn.wording import count

FEWEST_ROWS = 300  # untouched, of which near duplicates count once
MARGIN = 0.01  # of accuracy: "not worse" is less than this below
HALF_POINT = 0.005  # of accuracy: a loss as large is refused, a smaller gain is none
_FEWEST_OF_LABEL = 20
_LEVEL = 0.05
_POWER = 0.8
_TWO_SIDED, _ONE_SIDED = (float(norm.ppf(1 - level)) for level in (_LEVEL / 2, _LEVEL))
_RESAMPLES = 2000
_WEIGHTS_AT_ONCE = 2_000_000
_NAMED = 3  # labels in a sentence

Verdict = Literal["better", "not worse", "cannot tell", "worse"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers.

    Attributes:
        labels: of each row, str or int [rows].
        automatic: bool [rows], which answers need no person; None if that is not known.
    """

    labels: np.ndarray | Sequence[str]
    automatic: np.ndarray | Sequence[bool] | None = None


@dataclass(frozen=True)
class PairedDifference:
    """The challenger's accuracy less the champion's on the same rows.

    Attributes:
        estimate: -1 to 1.
        low: lower end of the 95 % confidence interval.
        high: upper end.
        at_least: what the difference is at least, with 95 % confidence (one-sided).
        won: share of the rows that only the challenger gets right.
        lost: share that only the champion gets right.
        rows: how many.
        groups: how many of near duplicates.
        effective: how many independent rows of equal weight would tell as much.
    """

    estimate: float
    low: float
    high: float
    at_least: float
    won: float
    lost: float
    rows: int
    groups: int
    effective: float


@dataclass(frozen=True)
class Pair:
    """A figure of both models, and their difference with its 95 % bootstrap interval."""

    champion: float
    challenger: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class LostLabel:
    """A label that the challenger finds clearly less often than the champion.

    Attributes:
        label: the true label.
        rows: that have it.
        champion: of them, how many the champion gets right.
        challenger: the same of the challenger.
        p_value: one-sided, of this label alone.
    """

    label: str
    rows: int
    champion: int
    challenger: int
    p_value: float


@dataclass(frozen=True)
class Comparison:
    """What can be said about a challenger.

    Attributes:
        verdict: `better`, `not worse`, `cannot tell` or `worse`; the first two may be promoted.
        sentences: the verdict and its reason, for a person.
        champion: accuracy, 0 to 1.
        challenger: the same.
        difference: of the two.
        p_value: mid-p McNemar test that neither is better; it counts rows, whatever their weight.
        macro_f1: of both.
        automated: share of automatic answers of both; None if not known.
        automatic_accuracy: of the automatic answers of champion and challenger; None if not known,
            and for a model without any.
        lost_labels: that the challenger clearly loses.
        gains: what speaks for the challenger beside its accuracy.
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
    seed: int = 0,
) -> Comparison:
    """Compare two models on rows that neither has learned.

    - `worse`: the challenger's accuracy is half a point or more below, or one label with at least
      20 rows is clearly lost.
    - `better`: the 95 % interval of the difference is above 0.
    - `not worse`: the difference is above -1 point with 95 % confidence, and there is a gain.
    - `cannot tell`: anything else, and whatever the figures on fewer than 300 rows.

    Args:
        actual: the true labels, str or int [rows].
        champion: the answers of the model in use.
        challenger: those of the new one.
        groups: [rows], equal for near duplicates, which count as one; by default all differ.
        weights: [rows], the inverse of the probability with which each row was selected; by default
            all the same.
        gains: what the challenger is wanted for, as ends of "it gains: ...", for example "a new
            label, refunds". More automatic answers are added without being named.
        promised: the accuracy of automatic answers that more of them must keep on these rows to be
            a gain; by default the champion's less one point.
        seed: of the bootstrap.

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
    macro_f1, automated = _bootstrap(truth, predicted, automatic, (group, share), seed)
    trusted = None if automatic is None else _automatic_accuracy(right, automatic, share)
    found = tuple(gains) + _more_automatic(automated, trusted, promised)
    lost = lost_labels(names[truth], right[0], right[1], groups=group)
    verdict = judge(difference, lost, found)
    missing = rows_missing(difference, gain=bool(found)) if verdict == "cannot tell" else None
    accuracies = [float(np.average(one, weights=share)) for one in right]
    return Comparison(
        verdict=verdict,
        sentences=_sentences(verdict, accuracies, difference, lost, found, missing),
        champion=accuracies[0],
        challenger=accuracies[1],
        difference=difference,
        p_value=mid_p(*(int(side.sum()) for side in _net_change(right[0], right[1], group))),
        macro_f1=macro_f1,
        automated=automated,
        automatic_accuracy=trusted,
        lost_labels=lost,
        gains=found,
        rows_missing=missing,
    )


def paired_difference(
    champion: np.ndarray,
    challenger: np.ndarray,
    *,
    groups: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> PairedDifference:
    """The difference of two accuracies on the same rows, with its interval.

    Wald's interval with a pair more of either kind (Bonett and Price 2012, recommended by Fagerland
    et al. 2014), for as many rows as would tell as much if they were independent and counted alike
    (Kish 1965, section 8.2).

    Args:
        champion: bool [rows], which answers are right.
        challenger: the same.
        groups: int [rows], equal for near duplicates; by default all differ.
        weights: float [rows]; by default all the same.

    Example:
        >>> champion, challenger = np.arange(1000) % 10 > 0, np.arange(1000) % 20 > 0
        >>> found = paired_difference(champion, challenger)
        >>> [round(figure, 3) for figure in (found.estimate, found.low, found.high)]
        [0.05, 0.036, 0.064]
    """
    rows = len(champion)
    group = np.arange(rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    share = np.full(rows, 1 / rows) if weights is None else weights / weights.sum()
    change = challenger.astype(float) - champion
    won, lost = float(share @ (change > 0)), float(share @ (change < 0))
    estimate = won - lost
    spread = won + lost - estimate**2
    variance = float((np.bincount(group, share * (change - estimate)) ** 2).sum())
    alike = float((np.bincount(group, share) ** 2).sum())
    effective = min(float(rows), spread / variance if variance > 1e-15 else 1 / alike)
    middle = estimate * effective / (effective + 2)
    differing = _differing(won + lost, effective)
    error = math.sqrt((differing - middle**2) / (effective + 2))
    low, high, at_least = (
        min(1.0, max(-1.0, middle + z * error)) for z in (-_TWO_SIDED, _TWO_SIDED, -_ONE_SIDED)
    )
    return PairedDifference(
        estimate, low, high, at_least, won, lost, rows, int(group.max()) + 1, effective
    )


def _differing(share: float, effective: float) -> float:
    """The share of rows on which one model is right, with a pair more of either kind."""
    return (share * effective + 2) / (effective + 2)


def mid_p(won: int, lost: int) -> float:
    """The two-sided mid-p McNemar test (Fagerland et al. 2013, section "The McNemar mid-p test").

    Args:
        won: rows that only the challenger gets right.
        lost: rows that only the champion gets right.

    Example:
        >>> round(mid_p(1, 7), 4)
        0.0391
    """
    fewer, both = min(won, lost), won + lost
    if won == lost:
        return 1 - 0.5 * float(binom.pmf(fewer, both, 0.5))
    return float(2 * binom.cdf(fewer, both, 0.5) - binom.pmf(fewer, both, 0.5))


def lost_labels(
    actual: np.ndarray,
    champion: np.ndarray,
    challenger: np.ndarray,
    *,
    groups: np.ndarray | None = None,
) -> tuple[LostLabel, ...]:
    """The labels with at least 20 rows that the challenger clearly loses, the clearest first.

    One-sided mid-p McNemar tests of each label's rows, at 5 % for all labels together (Holm 1979).
    They count rows, whatever their weight.

    Args:
        actual: the true label, [rows].
        champion: bool [rows], which answers are right.
        challenger: the same.
        groups: int [rows], equal for near duplicates, which count as one; by default all differ.
    """
    names, codes, rows = np.unique(actual, return_inverse=True, return_counts=True)
    before, after = (
        np.bincount(codes[right], minlength=len(names)) for right in (champion, challenger)
    )
    group = np.arange(len(codes)) if groups is None else groups
    width = int(group.max()) + 1
    pairs, pair = np.unique(codes * width + group, return_inverse=True)  # of label and group
    won, lost = (
        np.bincount(pairs[side] // width, minlength=len(names))
        for side in _net_change(champion, challenger, pair)
    )
    chance = binom.sf(lost, won + lost, 0.5) + 0.5 * binom.pmf(lost, won + lost, 0.5)
    tested = sorted(np.flatnonzero(rows >= _FEWEST_OF_LABEL), key=lambda label: chance[label])
    found = []
    for place, label in enumerate(tested):
        if chance[label] > _LEVEL / (len(tested) - place):
            break
        total, old, new = (int(column[label]) for column in (rows, before, after))
        found.append(LostLabel(str(names[label]), total, old, new, float(chance[label])))
    return tuple(found)


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
    """How many more rows of the same kind would settle a comparison with a probability of 80 %.

    With a gain, they show that the challenger is not worse by a point, if it is as good as the
    champion, or as much below as it looks now. Otherwise, or if that takes fewer rows, they show
    that it is better, if it is half a point better, or as much above as it looks now. The formula
    is n = (z_level + z_power)^2 d / distance^2, with d the share of rows on which only one model is
    right (Connor 1987 for a test; Lachenbruch and Lynch 1998 for a margin; both subtract the
    squared difference from d, which matters little where models are alike).

    Args:
        difference: so far.
        gain: whether there is one.

    Returns:
        0 if as many rows as that are there, and more would not help.

    Example:
        >>> alike = PairedDifference(0, -0.011, 0.011, -0.009, 0.015, 0.015, 1000, 1000, 1000.0)
        >>> rows_missing(alike, gain=True), rows_missing(alike, gain=False)
        (975, 9027)
    """
    differing = _differing(difference.won + difference.lost, difference.effective)
    power = float(norm.ppf(_POWER))
    needed = (_TWO_SIDED + power) ** 2 / max(difference.estimate, HALF_POINT) ** 2
    if gain:
        distance = MARGIN + min(difference.estimate, 0.0)
        needed = min(needed, (_ONE_SIDED + power) ** 2 / max(distance, HALF_POINT) ** 2)
    each = difference.rows / difference.effective
    fewest = FEWEST_ROWS * difference.rows / difference.groups
    return max(0, math.ceil(max(needed * differing * each, fewest)) - difference.rows)


def _check_rows(*columns: np.ndarray | Sequence[Any] | None) -> None:
    """Refuse columns that are not about the same rows; the last are weights, or None."""
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
            expected="the inverse of the probability with which a row was selected",
            fix="leave out rows that could not be selected",
        )


def _automatic(champion: Answers, challenger: Answers, rows: int) -> list[np.ndarray] | None:
    """Which answers of both models are automatic, bool [rows] each."""
    if champion.automatic is None or challenger.automatic is None:
        return None
    found = [flags(one, "decisions") for one in (champion.automatic, challenger.automatic)]
    if {len(one) for one in found} != {rows}:
        raise SettingsError(
            f"decisions on {' and '.join(f'{len(one):,}' for one in found)} of {rows:,} rows",
            expected="one decision for each row",
            fix="give the decisions on the same rows",
        )
    return found


def _bootstrap(
    truth: np.ndarray,
    predicted: list[np.ndarray],
    automatic: list[np.ndarray] | None,
    design: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> tuple[Pair, Pair | None]:
    """Macro-F1 and the share automated; groups are drawn again (Davison and Hinkley 1997, 3.8)."""
    group, weights = design
    rows, members = len(truth), int(group.max()) + 1
    right = [answers == truth for answers in predicted]
    # which rows have a label, get it from a model, and get it rightly: [5 C, rows]
    parts = [(truth, np.ones(rows)), *((answers, np.ones(rows)) for answers in predicted)]
    parts += [(truth, one) for one in right]
    classes = max(int(codes.max()) for codes, _ in parts) + 1
    indicators = sparse.vstack(
        [
            sparse.csr_array(
                (kept, (codes, np.arange(rows))), shape=(classes, rows), dtype=np.float32
            )
            for codes, kept in parts
        ]
    )
    decisions = np.zeros((0, rows), np.float32) if automatic is None else np.stack(automatic)

    def figures(draws: np.ndarray) -> np.ndarray:
        """Macro-F1 and share automated of both models, [4, draws]; `draws` is [rows, draws]."""
        actual, *others = np.split(indicators @ draws, 5)
        f1 = [_macro_f1(actual, others[model], others[2 + model]) for model in range(2)]
        return np.concatenate([f1, decisions.astype(np.float32) @ draws / draws.sum(axis=0)])

    weights = weights.astype(np.float32)[:, np.newaxis]
    real, drawn = figures(weights), []
    generator = np.random.default_rng(seed)
    at_once = min(_RESAMPLES, max(1, _WEIGHTS_AT_ONCE // rows))
    for start in range(0, _RESAMPLES, at_once):
        number = min(at_once, _RESAMPLES - start)
        places = generator.integers(0, members, (members, number)) * number + np.arange(number)
        counts = np.bincount(places.ravel(), minlength=members * number).astype(np.float32)
        drawn.append(figures(counts.reshape(members, number)[group] * weights))
    all_drawn = np.concatenate(drawn, axis=1)
    automated = None if automatic is None else _pair(real[2:, 0], all_drawn[2:])
    return _pair(real[:2, 0], all_drawn[:2]), automated


def _macro_f1(actual: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The mean F1 of the labels that occur, float64 [draws]; each argument is [C, draws]."""
    either = actual + predicted
    occurs = either > 0
    f1 = np.divide(2 * right, either, out=np.zeros_like(either), where=occurs)
    mean: np.ndarray = f1.sum(axis=0, dtype=np.float64) / occurs.sum(axis=0)
    return mean


def _pair(real: np.ndarray, drawn: np.ndarray) -> Pair:
    changes = (drawn[1] - drawn[0]).round(6)  # float32 knows no more
    low, high = np.quantile(changes, [_LEVEL / 2, 1 - _LEVEL / 2])
    champion, challenger = (float(one) for one in real)
    return Pair(champion, challenger, challenger - champion, float(low), float(high))


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
    """The gain of more automatic answers, if they are right often enough."""
    if automated is None or accuracy is None or automated.low <= 0 or accuracy[1] is None:
        return ()
    needed = (accuracy[0] or 0.0) - MARGIN if promised is None else promised
    if accuracy[1] < needed:
        return ()
    return (f"{100 * automated.difference:.1f} points more of the tickets need no person",)


def _net_change(
    champion: np.ndarray, challenger: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """In which groups the challenger gets more rows right, and in which fewer; bool [groups]."""
    change = np.bincount(groups, challenger.astype(float) - champion)
    return change > 0.5, change < -0.5


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
    more = (
        f"About {missing:,} more checked tickets would probably tell."
        if missing
        else (
            "On so many, a gain of half a point would have shown: keep the present model, unless"
            " the new one has another advantage."
        )
    )
    if difference.groups < FEWEST_ROWS:
        return (
            f"Too few tickets to compare the models: {difference.groups:,} different ones, and at"
            f" least {FEWEST_ROWS} are needed. {more}"
        )
    return (
        "These tickets cannot tell whether the new model is better: it is right"
        f" {shares} ({interval}). {more}"
    )


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
