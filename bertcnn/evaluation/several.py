"""Calibration and thresholds where a row may have several labels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit

from bertcnn.evaluation.calibration import CalibrationFigures, compare_calibration
from bertcnn.probabilities import chosen, sigmoid, sureness

_LOWEST, _HIGHEST = 0.05, 20.0  # temperatures
_FEWEST = 20  # held-out rows with a label, without which its threshold is that of all labels
_FOLDS = 5
_USUAL = 0.5


def fit_temperature(logits: np.ndarray, sets: np.ndarray) -> float:
    """The temperature that makes the held-out labels most probable, one for all labels (after Guo et al. 2017, section 4.2).

    Args:
        logits: float [rows, C], of rows not trained on.
        sets: bool [rows, C], which row has which label.

    Returns:
        T > 0; probabilities are sigmoid(logits / T). 1.0 without rows.
    """
    if not len(sets):
        return 1.0
    signed = np.where(sets, logits, -logits).astype(np.float64)

    def loss(log_temperature: float) -> float:
        return float(-log_expit(signed / np.exp(log_temperature)).mean())

    found = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(found.x))


def choose_thresholds(shares: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """From which probability on a label is given: each label's best F1 on held-out rows (Yang 2001, SCut).

    A label with fewer than 20 held-out rows gets the threshold that is best for all labels together, since its own would be chance; so does
    one for which no threshold is better than none.

    Args:
        shares: float32 [rows, C], calibrated probabilities of rows not trained on.
        sets: bool [rows, C], which row has which label.

    Returns:
        float32 [C], between 0 and 1.

    Example:
        >>> shares = np.linspace(0.99, 0.01, 50, dtype=np.float32)[:, None]
        >>> print(*choose_thresholds(shares, shares > 0.32).round(2))
        0.32
    """
    if not len(sets):
        return np.full(sets.shape[1], _USUAL, np.float32)
    usual = _best_threshold(shares.ravel(), sets.ravel())
    return np.array(
        [_best_threshold(column, own) if own.sum() >= _FEWEST else usual for column, own in zip(shares.T, sets.T, strict=True)],
        np.float32,
    )


def _best_threshold(shares: np.ndarray, has: np.ndarray) -> float:
    """The middle of the gap, between two probabilities, at which F1 is best; of equally good ones, that nearest to a half."""
    if not has.any():
        return _USUAL
    order = np.argsort(-shares, kind="stable")
    descending, found = shares[order].astype(np.float64), np.cumsum(has[order])
    given = np.arange(1, len(order) + 1)
    f1 = 2 * found / (given + has.sum())
    between = (descending + np.append(descending[1:], 0.0)) / 2
    possible = np.append(descending[1:], -1.0) < descending  # rows that are equally probable cannot be divided
    f1 = np.where(possible, f1, -1.0)
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(between[best[np.argmin(np.abs(between[best] - _USUAL))]])


def measure_calibration(logits: np.ndarray, sets: np.ndarray, thresholds: np.ndarray) -> CalibrationFigures:
    """How far the probability of a whole answer is from the share of answers that are right in every label, before and after calibration.

    Args:
        logits: float [rows, C], of rows not trained on.
        sets: bool [rows, C].
        thresholds: float [C].
    """
    return compare_calibration(*confidences(logits, sets, thresholds))


def confidences(logits: np.ndarray, sets: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The confidence of each row's answer before and after calibration, float64 [rows], and whether the answer is right, bool [rows].

    The rows go into five parts, and each part gets the temperature that the others give.
    """
    scaled, part = np.asarray(logits, float).copy(), np.arange(len(sets)) % _FOLDS
    for fold in range(_FOLDS):
        scaled[part == fold] /= fit_temperature(logits[part != fold], sets[part != fold])
    shares = sigmoid(scaled)
    given = chosen(shares, thresholds)
    before, after = (sureness(values, given).astype(float) for values in (sigmoid(logits), shares))
    return before, after, (given == sets).all(axis=1)
