"""Temperature scaling on held-out rows, and calibration error."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

_LOWEST, _HIGHEST = 0.05, 20.0
_BINS = 15
_FOLDS = 5
_RESAMPLES = 500
_MOST_CELLS = 10_000_000  # logits per fit: 10,000 rows of 1,000 labels


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature that maximises the held-out likelihood (Guo et al. 2017, section 4.2).

    If all of a few rows are right, the likelihood is highest at temperature 0, where every answer
    is certain. So each row also counts, with weight `doubt`, for the most probable other label: n
    right of n cases give a confidence of (n + 1) / (n + 2). These are the targets of Platt 1999,
    "Probabilistic Outputs for Support Vector Machines", section 2.2.

    `logits` are float [rows, C] of rows not trained on, subsampled above 10 million numbers;
    `labels` are int [rows].

    Returns:
        T > 0; probabilities are softmax(logits / T). 1.0 without rows.

    Example:
        >>> logits = np.array([[9.0, 0.0], [0.0, 9.0], [9.0, 0.0], [0.0, 9.0]])
        >>> fit_temperature(logits, np.array([0, 1, 0, 0])) > 5
        True
    """
    if not len(labels):
        return 1.0

    cases, every = len(labels), slice(None, None, 1 + np.size(logits) // _MOST_CELLS)
    logits, labels = logits[every], labels[every]
    rows, scaled = np.arange(len(labels)), np.array(logits, float)
    scaled[rows, labels] = -np.inf
    rivals = scaled.argmax(axis=1)
    margins = np.asarray(logits, float) - np.max(logits, axis=1, keepdims=True)
    true, rival = margins[rows, labels], margins[rows, rivals]
    mean_target = float(np.mean(true + doubt(cases) * (rival - true)))

    def loss(log_temperature: float) -> float:
        np.divide(margins, temperature := np.exp(log_temperature), out=scaled)
        total = np.exp(scaled, out=scaled).sum(axis=1)
        return float(np.log(total).mean() - mean_target / temperature)

    result = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(result.x))


def doubt(cases: int) -> float:
    """The probability of an error after `cases` cases without one (Laplace's succession rule)."""
    return 1 / (cases + 2)


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = _BINS) -> float:
    """The expected calibration error (Naeini et al. 2015, section 2).

    The mean absolute difference between confidence and accuracy over bins. Bins have equal numbers
    of rows: a good model is nearly sure of most rows, which bins of equal width would put into one.
    With few rows the error is above 0 even for a perfectly calibrated model.

    `confidence` of the predicted label is float [rows], `right` bool [rows].

    Example:
        >>> right = np.array([True, False, True, True])
        >>> round(calibration_error(np.array([0.6, 0.7, 0.9, 1.0]), right, bins=2), 4)
        0.1
    """
    order = np.argsort(confidence, kind="stable")
    return _error_in_order(
        np.asarray(confidence, float)[order], np.asarray(right, float)[order], bins
    )


def _error_in_order(confidence: np.ndarray, right: np.ndarray, bins: int) -> float:
    rows = len(confidence)
    if not rows:
        return 0.0
    return float(np.abs(np.add.reduceat(confidence - right, _bounds(rows, bins)[0])).sum() / rows)


@dataclass(frozen=True)
class CalibrationFigures:
    """The calibration error on the held-out rows before and after calibration, with 95% intervals.

    The error is biased upwards on few rows. The intervals are corrected for this, so the error may
    lie above its interval.

    Attributes:
        before: error of softmax(logits), 0 to 1.
        after: error of softmax(logits / temperature), with cross-fitted temperatures.
        bins: with equal numbers of rows.
    """

    before: float
    before_interval: tuple[float, float]
    after: float
    after_interval: tuple[float, float]
    bins: int = _BINS

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return asdict(self)

    def describe(self) -> str:
        """One sentence for the reader."""
        (low, high), (first, last) = (
            [f"{100 * share:.1f}" for share in interval]
            for interval in (self.after_interval, self.before_interval)
        )
        return (
            f"confidence is off by {low} to {high}% on average, by {first} to {last}% without"
            " calibration (95% intervals)"
        )


def measure_calibration(logits: np.ndarray, labels: np.ndarray) -> CalibrationFigures:
    """The calibration error before and after temperature scaling, by 5-fold cross-fitting.

    `logits` are float [rows, C] of rows not trained on, `labels` int [rows].
    """
    return compare_calibration(
        *confidences(logits, labels), np.asarray(logits).argmax(axis=1) == labels
    )


def compare_calibration(
    before: np.ndarray, after: np.ndarray, right: np.ndarray
) -> CalibrationFigures:
    """The calibration error of the same answers with two confidences.

    Confidences are float [rows], `right` is bool [rows].
    """
    return CalibrationFigures(*_with_interval(before, right), *_with_interval(after, right))


def confidences(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The confidence of each row before and after calibration, float64 [rows], cross-fitted."""
    scaled = np.asarray(logits, float).copy()
    part = np.arange(len(labels)) % _FOLDS
    for fold in range(_FOLDS):
        scaled[part == fold] /= fit_temperature(logits[part != fold], labels[part != fold])
    before, after = (
        1 / np.exp(values - values.max(axis=1, keepdims=True)).sum(axis=1)
        for values in (np.asarray(logits, float), scaled)
    )
    return before, after


@dataclass(frozen=True)
class ReliabilityBin:
    """Mean confidence, accuracy and number of rows with similar confidence."""

    confidence: float
    right: float
    rows: int


def reliability(
    confidence: np.ndarray, right: np.ndarray, bins: int = _BINS
) -> tuple[ReliabilityBin, ...]:
    """The bins of `calibration_error`; their weighted mean gap is that error.

    Example:
        >>> right = np.array([True, False, True, True])
        >>> bins = reliability(np.array([0.6, 0.7, 0.9, 1.0]), right, bins=2)
        >>> [(one.rows, one.right) for one in bins]
        [(2, 0.5), (2, 1.0)]
    """
    order = np.argsort(confidence, kind="stable")
    parts = (
        [order[first:end] for first, end in zip(*_bounds(len(order), bins), strict=True)]
        if len(order)
        else []
    )
    return tuple(
        ReliabilityBin(float(np.mean(confidence[part])), float(np.mean(right[part])), len(part))
        for part in parts
    )


def _bounds(rows: int, bins: int) -> tuple[list[int], list[int]]:
    first = np.unique(np.arange(min(bins, rows)) * rows // min(bins, rows)).tolist()
    return first, [*first[1:], rows]


def _with_interval(confidence: np.ndarray, right: np.ndarray) -> tuple[float, tuple[float, float]]:
    """The error and its basic bootstrap interval, which corrects the upward bias.

    Davison and Hinkley 1997, section 5.2.
    """
    rows, generator = len(confidence), np.random.default_rng(0)
    order = np.argsort(confidence, kind="stable")
    confidence, right = confidence[order], right[order].astype(float)
    error = _error_in_order(confidence, right, _BINS)
    if not rows:
        return error, (0.0, 1.0)
    drawn = (np.sort(generator.integers(0, rows, rows)) for _ in range(_RESAMPLES))
    low, high = np.quantile(
        [_error_in_order(confidence[sample], right[sample], _BINS) for sample in drawn],
        [0.025, 0.975],
    )
    return error, (max(0.0, float(2 * error - high)), min(1.0, float(2 * error - low)))
