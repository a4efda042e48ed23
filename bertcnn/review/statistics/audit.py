"""Audit sampling of automatic answers, and accuracy estimates from the audits."""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from bertcnn.errors import SettingsError, one_line
from bertcnn.wording import count, percent

_CONFIDENCE = 0.95
_Z = float(norm.ppf((1 + _CONFIDENCE) / 2))
_SURPRISING = 0.01  # a stratum without audits counts as never audited below this probability
_BITS = 53  # of a float's fraction


class Stratum(NamedTuple):
    """Automatic answers of one label and confidence tercile, 0 (lowest) to 2; one audit rate."""

    label: str
    tercile: int


def uniform_number(secret: bytes, ticket: str) -> float:
    """A number in [0, 1) that is unpredictable without the secret.

    It is fixed for each ticket, so an audit can be verified and cannot be drawn twice. From
    HMAC-SHA256 (RFC 2104).

    Raises:
        SettingsError: the secret is empty.

    Example:
        >>> round(uniform_number(b"secret", "ticket 1"), 4)
        0.9972
    """
    if not secret:
        raise SettingsError(
            "an empty secret",
            expected="bytes that nobody can guess",
            fix="make one with secrets.token_bytes(32) and keep it",
        )
    digest = hmac.digest(secret, ticket.encode("utf-8", "surrogatepass"), "sha256")
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)


def is_audited(secret: bytes, ticket: str, pi: float) -> bool:
    """Whether a ticket is audited, at audit probability `pi`."""
    return uniform_number(secret, ticket) < pi


@dataclass(frozen=True)
class AuditedAccuracy:
    """Estimated accuracy of all automatic answers, 0 to 1; None without an audit.

    Attributes:
        low, high: the 95 % confidence interval.
        audits: number of audits.
        effective: size of an equally precise simple random sample.
        population: number of automatic answers.
        unaudited: their share in strata that should have had audits but had none. These answers may
            be all right or all wrong, and the interval allows for both.
        reason: why there is no estimate, or why the interval is wider; "" otherwise.
    """

    accuracy: float | None
    low: float
    high: float
    audits: int
    effective: float
    population: int
    unaudited: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return asdict(self)


def audit_accuracy(
    right: Sequence[bool] | np.ndarray,
    pi: Sequence[float] | np.ndarray,
    strata: Sequence[Stratum],
    population: Mapping[Stratum, int],
) -> AuditedAccuracy:
    """The accuracy of all automatic answers, with a 95 % confidence interval.

    Each audit is weighted by 1 / pi (Hajek 1971). The interval is Wilson's (1927) with the
    effective sample size (Korn and Graubard 1998), limited to the number of audits: if the few
    errors are in heavily audited strata, the estimated variance is too low.

    Args:
        right: bool [audits], whether each audited answer was right.
        pi: float [audits], audit probabilities.
        strata: of the audits.
        population: automatic answers of each stratum in the same period, with or without an audit.

    Raises:
        SettingsError: arguments of different lengths, a probability out of range, or more audits of
            a stratum than answers.

    Example:
        >>> right, strata = [True] * 190 + [False] * 10, [Stratum("billing", 0)] * 200
        >>> found = audit_accuracy(right, [0.05] * 200, strata, {strata[0]: 4000})
        >>> found.accuracy, round(found.low, 3), round(found.high, 3)
        (0.95, 0.912, 0.972)
    """
    right, pi = flags(right, "audits"), probabilities(pi)
    _same_length(right=right, pi=pi, strata=strata)
    counts = Counter(strata)
    for stratum, audits in counts.items():
        if audits > population.get(stratum, 0):
            raise SettingsError(
                f"{count(audits, 'audit')} and {count(population.get(stratum, 0), 'answer')} of"
                f" {one_line(stratum.label)}, tercile {stratum.tercile}",
                expected="no more audits than answers",
                fix="count the automatic answers of the same time as the audits",
            )
    return _estimate(right, pi, {stratum: counts[stratum] for stratum in population}, population)


def accuracy_by_label(
    right: Sequence[bool] | np.ndarray,
    pi: Sequence[float] | np.ndarray,
    strata: Sequence[Stratum],
    population: Mapping[Stratum, int],
) -> dict[str, AuditedAccuracy]:
    """The accuracy of automatic answers by label; arguments as of `audit_accuracy`."""
    right, pi = np.asarray(right), np.asarray(pi)
    _same_length(right=right, pi=pi, strata=strata)
    labels = np.array([stratum.label for stratum in strata], object)
    return {
        label: audit_accuracy(
            right[labels == label],
            pi[labels == label],
            [stratum for stratum in strata if stratum.label == label],
            {stratum: size for stratum, size in population.items() if stratum.label == label},
        )
        for label in dict.fromkeys(stratum.label for stratum in (*population, *strata))
    }


def audits_needed(estimate: AuditedAccuracy, half_width: float) -> int:
    """The number of further audits, drawn as before, for an interval of this half-width (0 to 0.5).

    Uses Wilson's interval at the midpoint of the present one; without audits at one half, where the
    interval is widest.

    Raises:
        SettingsError: the width is not between 0 and 0.5.

    Example:
        >>> audits_needed(AuditedAccuracy(0.95, 0.912, 0.972, 200, 200.0, 4000, 0.0, ""), 0.02)
        339
    """
    if not 0 < half_width < 0.5:
        raise SettingsError(
            f"a half-width of {half_width}",
            expected="a number between 0 and 0.5",
            fix="give 0.02 for 2 points to either side",
        )
    if math.isinf(estimate.effective):
        return 0
    middle = 0.5
    if estimate.accuracy is not None:
        middle = _wilson(estimate.accuracy, estimate.effective)[0]
    # half-width of `_wilson` as a quadratic equation for the number of audits
    squared_width, square = half_width**2, _Z**2
    linear = 2 * squared_width * square - square * middle * (1 - middle)
    constant = squared_width * square**2 - square**2 / 4
    needed = (-linear + math.sqrt(linear**2 - 4 * squared_width * constant)) / (2 * squared_width)
    each = estimate.audits / estimate.effective if estimate.effective else 1.0
    return max(0, math.ceil((needed - estimate.effective) * each))


def flags(values: Sequence[bool] | np.ndarray, noun: str) -> np.ndarray:
    """Convert to bool [rows]; SettingsError for other values."""
    array = np.asarray(values)
    if array.ndim != 1 or not np.isin(array, (False, True)).all():
        raise SettingsError(
            f"{noun} that are not one True or False each",
            expected="a one-dimensional array of booleans",
            fix="leave out rows about which nothing is known",
        )
    return array.astype(bool)


def probabilities(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Convert audit probabilities to float64 [audits]; SettingsError outside (0, 1]."""
    array = np.asarray(values, float)
    if array.ndim != 1 or not ((array > 0) & (array <= 1)).all():
        raise SettingsError(
            "audit probabilities out of range",
            expected="numbers above 0 and at most 1",
            fix="give the probability that was stored when the audit was drawn",
        )
    return array


def _same_length(**columns: Sequence[Any] | np.ndarray) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise SettingsError(
            ", ".join(f"{len(column):,} values of {name}" for name, column in columns.items()),
            expected="one of each for every audit",
            fix="give columns of the same audits",
        )


def _estimate(
    right: np.ndarray, pi: np.ndarray, counts: Mapping[Stratum, int], sizes: Mapping[Stratum, int]
) -> AuditedAccuracy:
    audits, total = len(right), sum(sizes.values())
    if not audits:
        reason = f"none of {count(total, 'automatic answer')} was audited"
        return AuditedAccuracy(None, 0.0, 1.0, 0, 0.0, total, float(total > 0), reason)
    weights = 1 / pi
    accuracy = float(weights @ right / weights.sum())
    effective = _effective_audits(right, pi, accuracy)
    middle, half = _wilson(accuracy, effective)
    unaudited = _never_audited(counts, sizes, float(pi.min())) / total
    reason = ""
    if unaudited:
        reason = (
            f"{percent(unaudited)} of the automatic answers are in strata without an audit, and may"
            " be all right or all wrong"
        )
    low = max(0.0, middle - half) * (1 - unaudited)
    high = min(1.0, middle + half) * (1 - unaudited) + unaudited
    return AuditedAccuracy(accuracy, low, high, audits, effective, total, unaudited, reason)


def _effective_audits(right: np.ndarray, pi: np.ndarray, accuracy: float) -> float:
    """The effective sample size; infinite if all answers are audited."""
    weights = 1 / pi
    answers, audits = float(weights.sum()), len(right)
    if audits >= answers:
        return math.inf
    alike = audits / (1 - audits / answers)
    # the variance of a ratio under Poisson sampling (Sarndal et al. 1992, section 5.7)
    scale = (1 - pi) * weights**2
    variance = float(scale @ (right - accuracy) ** 2) / answers**2
    if variance > 0:
        return min(alike, accuracy * (1 - accuracy) / variance)
    return min(alike, answers**2 / float(scale.sum()))


def _wilson(accuracy: float, audits: float) -> tuple[float, float]:
    shrink = 1 + _Z**2 / audits
    half = _Z * math.sqrt(accuracy * (1 - accuracy) / audits + (_Z / audits) ** 2 / 4)
    return (accuracy + _Z**2 / (2 * audits)) / shrink, half / shrink


def _never_audited(
    counts: Mapping[Stratum, int], sizes: Mapping[Stratum, int], lowest: float
) -> int:
    """Answers in strata whose lack of audits is not by chance, even at the lowest rate."""
    return sum(
        size
        for stratum, size in sizes.items()
        if not counts[stratum] and (1 - lowest) ** size < _SURPRISING
    )
