"""Compares two models on the same rows, with tests and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.stats import binom, norm

LEVEL = 0.05  # of tests and intervals
TWO_SIDED, ONE_SIDED = (float(norm.ppf(1 - level)) for level in (LEVEL / 2, LEVEL))
_FEWEST_OF_LABEL = 20
_RESAMPLES = 2000
_WEIGHTS_AT_ONCE = 2_000_000
_DRAWS = 500  # bootstrap draws, which give the standard deviation to within 3%


@dataclass(frozen=True)
class PairedDifference:
    """The challenger's accuracy minus the champion's on the same rows.

    Attributes:
        estimate: -1 to 1.
        low: lower end of the 95 % confidence interval.
        high: upper end.
        at_least: lower bound of the difference, 95 % one-sided.
        won: share of rows that only the challenger gets right.
        lost: share of rows that only the champion gets right.
        groups: number of groups of near duplicates.
        effective: equivalent number of independent rows of equal weight.
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
    """A label whose recall is significantly lower for the challenger than for the champion.

    Attributes:
        champion: rows that the champion gets right.
        challenger: rows that the challenger gets right.
        p_value: one-sided, uncorrected.
    """

    label: str
    rows: int
    champion: int
    challenger: int
    p_value: float


def paired_difference(
    champion: np.ndarray,
    challenger: np.ndarray,
    *,
    groups: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> PairedDifference:
    """The difference of two accuracies on the same rows, with its interval.

    Wald's interval with one more pair of either kind (Bonett and Price 2012, recommended by
    Fagerland et al. 2014), for the effective number of rows (Kish 1965, section 8.2). `champion`
    and `challenger` are bool [rows], which answers are right; `groups` int [rows], equal for near
    duplicates; `weights` float [rows].

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
    differing = share_differing(won + lost, effective)
    error = math.sqrt((differing - middle**2) / (effective + 2))
    low, high, at_least = (
        min(1.0, max(-1.0, middle + z * error)) for z in (-TWO_SIDED, TWO_SIDED, -ONE_SIDED)
    )
    return PairedDifference(
        estimate, low, high, at_least, won, lost, rows, int(group.max()) + 1, effective
    )


def share_differing(share: float, effective: float) -> float:
    """The share of rows where only one model is right, with one more pair of either kind.

    `share` is the observed share, `effective` the effective number of rows.
    """
    return (share * effective + 2) / (effective + 2)


def mid_p(won: int, lost: int) -> float:
    """The two-sided mid-p McNemar test (Fagerland et al. 2013, section "The McNemar mid-p test").

    `won` rows are right only for the challenger, `lost` rows only for the champion.

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
    """The labels with at least 20 rows that the challenger loses significantly, clearest first.

    One-sided mid-p McNemar tests per label, at 5 % for all labels together (Holm 1979). Weights are
    ignored. `actual` are true labels, [rows]; the rest is as in `paired_difference`, but near
    duplicates count as one row.
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
        for side in net_change(champion, challenger, pair)
    )
    chance = binom.sf(lost, won + lost, 0.5) + 0.5 * binom.pmf(lost, won + lost, 0.5)
    tested = sorted(np.flatnonzero(rows >= _FEWEST_OF_LABEL), key=lambda label: chance[label])
    losses = []
    for rank, label in enumerate(tested):
        if chance[label] > LEVEL / (len(tested) - rank):
            break
        total, old, new = (int(column[label]) for column in (rows, before, after))
        losses.append(LostLabel(str(names[label]), total, old, new, float(chance[label])))
    return tuple(losses)


def net_change(
    champion: np.ndarray, challenger: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Groups where the challenger gets more rows right, and groups with fewer, bool [groups]."""
    change = np.bincount(groups, challenger.astype(float) - champion)
    return change > 0.5, change < -0.5


def bootstrap(
    truth: np.ndarray,
    predicted: list[np.ndarray],
    automatic: list[np.ndarray] | None,
    design: tuple[np.ndarray, np.ndarray],
) -> tuple[Pair, Pair | None]:
    """Macro-F1 and automatic share of both models, with bootstrap intervals of the differences.

    Draws whole groups (Davison and Hinkley 1997, section 3.8). `truth` and `predicted` are int
    [rows]; `automatic` is bool [rows] for each model, None if unknown; `design` is group, int
    [rows], and weight, float [rows].
    """
    group, weights = design
    rows, members = len(truth), int(group.max()) + 1
    right = [answers == truth for answers in predicted]
    # per label: true, predicted and rightly predicted by each model, [5 C, rows]
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
        """Macro-F1 and automatic share of both models, [4, draws]; `draws` is [rows, draws]."""
        actual, *predictions = np.split(indicators @ draws, 5)
        f1 = [_macro_f1(actual, predictions[model], predictions[2 + model]) for model in range(2)]
        return np.concatenate([f1, decisions.astype(np.float32) @ draws / draws.sum(axis=0)])

    weights = weights.astype(np.float32)[:, np.newaxis]
    real, drawn = figures(weights), []
    generator = np.random.default_rng(0)
    at_once = min(_RESAMPLES, max(1, _WEIGHTS_AT_ONCE // rows))
    for start in range(0, _RESAMPLES, at_once):
        number = min(at_once, _RESAMPLES - start)
        indices = generator.integers(0, members, (members, number)) * number + np.arange(number)
        counts = np.bincount(indices.ravel(), minlength=members * number).astype(np.float32)
        drawn.append(figures(counts.reshape(members, number)[group] * weights))
    all_drawn = np.concatenate(drawn, axis=1)
    automated = None if automatic is None else _pair(real[2:, 0], all_drawn[2:])
    return _pair(real[:2, 0], all_drawn[:2]), automated


def _macro_f1(actual: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The mean F1 of the labels that occur, float64 [draws]; arguments are [C, draws]."""
    either = actual + predicted
    occurs = either > 0
    f1 = np.divide(2 * right, either, out=np.zeros_like(either), where=occurs)
    mean: np.ndarray = f1.sum(axis=0, dtype=np.float64) / occurs.sum(axis=0)
    return mean


def _pair(real: np.ndarray, drawn: np.ndarray) -> Pair:
    changes = (drawn[1] - drawn[0]).round(6)  # the precision of float32
    low, high = np.quantile(changes, [LEVEL / 2, 1 - LEVEL / 2])
    champion, challenger = (float(one) for one in real)
    return Pair(champion, challenger, challenger - champion, float(low), float(high))


def p_value(
    labels: np.ndarray, default: np.ndarray, best: np.ndarray, groups: np.ndarray, tried: int
) -> float:
    """The p-value of the best trial's gain in macro-F1 over the defaults.

    A one-sided z-test with the gain's standard deviation from a paired bootstrap, multiplied by the
    number of trials (Bonferroni). Labels are int [rows]. `groups` are equal for duplicates, which
    are drawn together; `tried` counts the trials besides the defaults.
    """
    classes = int(max(labels.max(), best.max(), default.max())) + 1
    members = int(groups.max()) + 1

    def macro_f1(predicted: np.ndarray, times: np.ndarray) -> float:
        right = np.bincount(labels, times * (labels == predicted), classes)
        either = np.bincount(labels, times, classes) + np.bincount(predicted, times, classes)
        return float(np.mean(2 * right[either > 0] / either[either > 0]))

    drawn = np.random.default_rng(0).multinomial(members, np.full(members, 1 / members), _DRAWS)
    every = np.vstack([np.ones(members), drawn])[:, groups]  # the original rows, then each draw
    gains = [macro_f1(best, times) - macro_f1(default, times) for times in every]
    return min(1.0, tried * float(norm.sf(gains[0] / max(float(np.std(gains[1:])), 1e-9))))
