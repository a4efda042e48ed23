"""How much people agree when they decide on the same tickets, corrected for chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

_CONFIDENCE = 0.95
_RESAMPLES = 1000
_SEED = 0
_FEWEST = 2  # tickets for an interval


@dataclass(frozen=True)
class Agreement:
    """Agreement beyond chance: 1 is perfect, 0 what chance gives.

    Attributes:
        value: Krippendorff's alpha or Cohen's kappa; None if all gave the same label everywhere,
            so that chance alone would agree as well.
        low, high: a 95% percentile bootstrap interval over tickets; None if there are too few.
        tickets: decided by at least two people.
    """

    value: float | None
    low: float | None
    high: float | None
    tickets: int


@dataclass(frozen=True)
class AgreementReport:
    """Krippendorff's alpha of everybody and by label, and Cohen's kappa of each pair of people."""

    all: Agreement
    pairs: dict[tuple[str, str], Agreement]
    labels: dict[str, Agreement]


def measure_agreement(decisions: Sequence[Mapping[str, str]]) -> AgreementReport:
    """Measure agreement on tickets that several people decided independently.

    Krippendorff's alpha for nominal data (Krippendorff 2011, "Computing Krippendorff's
    Alpha-Reliability", section C) and Cohen's kappa (Cohen 1960). A label's alpha compares that
    label with all others.

    Args:
        decisions: for each ticket the label that each person gave; tickets of fewer than two
            people do not count.
    """
    several = [one for one in decisions if len(one) > 1]
    labels = sorted({label for one in several for label in one.values()})
    counts = np.zeros((len(several), len(labels)))  # people by ticket and label
    for row, one in enumerate(several):
        for label in one.values():
            counts[row, labels.index(label)] += 1
    weights = _resampled(len(several))
    by_label = {
        label: _alpha(np.stack([column, counts.sum(axis=1) - column], axis=1), weights)
        for label, column in zip(labels, counts.T, strict=True)
    }
    people = sorted({person for one in several for person in one})
    pairs = {}
    for pair in combinations(people, 2):
        both = [(one[pair[0]], one[pair[1]]) for one in several if set(pair) <= one.keys()]
        if both:
            pairs[pair] = _kappa(both)
    return AgreementReport(_alpha(counts, weights), pairs, by_label)


def _alpha(counts: np.ndarray, weights: np.ndarray) -> Agreement:
    """Alpha of `counts` [tickets, labels]; the first of `weights` [resamples, tickets] are ones."""
    people = counts.sum(axis=1)
    unequal = people**2 - (counts**2).sum(axis=1)  # ordered pairs of people who disagree
    observed = weights @ (unequal / np.maximum(people - 1, 1))
    totals = weights @ counts
    size = totals.sum(axis=1)
    by_chance = (size**2 - (totals**2).sum(axis=1)) / np.maximum(size - 1, 1)
    return _summary(observed, by_chance, len(counts))


def _kappa(both: Sequence[tuple[str, str]]) -> Agreement:
    """Cohen's kappa of two people's labels of the same tickets."""
    labels = sorted({label for pair in both for label in pair})
    codes = np.array([[labels.index(label) for label in pair] for pair in both])
    weights = _resampled(len(both))
    shares = [weights @ np.eye(len(labels))[column] / len(both) for column in codes.T]
    unequal = weights @ (codes[:, 0] != codes[:, 1]) / len(both)
    by_chance = 1 - (shares[0] * shares[1]).sum(axis=1)
    return _summary(unequal, by_chance, len(both))


def _resampled(tickets: int) -> np.ndarray:
    """How often each ticket is drawn [1 + resamples, tickets]; the first row is the sample."""
    if not tickets:
        return np.ones((1, 0))
    draws = np.random.default_rng(_SEED).multinomial(
        tickets, np.full(tickets, 1 / tickets), size=_RESAMPLES
    )
    return np.vstack([np.ones((1, tickets)), draws])


def _summary(observed: np.ndarray, by_chance: np.ndarray, tickets: int) -> Agreement:
    """1 - observed / by chance: of the sample, which is first, with its interval."""
    defined = by_chance > 0
    if not len(by_chance) or not defined[0]:
        return Agreement(None, None, None, tickets)
    values = 1 - observed[defined] / by_chance[defined]
    if tickets < _FEWEST:
        return Agreement(float(values[0]), None, None, tickets)
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(values[1:], [tail, 1 - tail]) if len(values) > 1 else (None, None)
    return Agreement(
        float(values[0]),
        None if low is None else float(low),
        None if high is None else float(high),
        tickets,
    )
