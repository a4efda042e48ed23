"""Calibration and thresholds where a row may have several labels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit

from bertcnn.evaluation.calibration import CalibrationFigures, compare_calibration, doubt
from bertcnn.probabilities import chosen, sigmoid, sureness

_LOWEST, _HIGHEST = 0.05, 20.0  # temperatures
_FEWEST = 20  # held-out rows with a label, without which its threshold is that of all labels
_FOLDS = 5
_USUAL = 0.5


def fit_temperature(logits: np.ndarray, sets: np.ndarray) -> float:
    """The temperature that makes the held-out labels most probable, one for all labels (after Guo et al. 2017, section 4.2).

    With Platt's targets, as `calibration.fit_temperature` has them for one label a row.

    Args:
        logits: float [rows, C], of rows not trained on.
        sets: bool [rows, C], which row has which label.

    Returns:
        T > 0; probabilities are sigmoid(logits / T). 1.0 without rows.
    """
    if not len(sets):
        return 1.0
    signed, unsure = np.where(sets, logits, -logits).astype(np.float64), doubt(sets.size)

    def loss(log_temperature: float) -> float:
        scaled = signed / np.exp(log_temperature)
        return float(-np.mean((1 - unsure) * log_expit(scaled) + unsure * log_expit(-scaled)))

    found = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(found.x))


def choose_thresholds(shares: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """From which probability on a label is given, for the best F1 of each label.

    With calibrated probabilities that threshold is half of the best F1 there is (Lipton, Elkan and Naryanaswamy 2014, "Optimal
    Thresholding of Classifiers to Maximize F1 Measure"), and from few rows the best F1 is known better than the place where it is reached.
    A label with fewer than 20 held-out rows gets the threshold of all labels together.

    Args:
        shares: float32 [rows, C], calibrated probabilities of rows not trained on.
        sets: bool [rows, C], which row has which label.

    Returns:
        float32 [C], at most 0.5; 0.5 where no row has a label.

    Example:
        >>> shares = np.linspace(0.99, 0.01, 50, dtype=np.float32)[:, None]
        >>> choose_thresholds(shares, shares > 0.32).tolist()
        [0.5]
    """
    usual = _half_of_best_f1(shares.ravel(), sets.ravel())
    return np.array(
        [_half_of_best_f1(column, own) if own.sum() >= _FEWEST else usual for column, own in zip(shares.T, sets.T, strict=True)], np.float32
    )


def _half_of_best_f1(shares: np.ndarray, has: np.ndarray) -> float:
    """Half of the best F1 that any threshold of the probabilities gives."""
    if not has.any():
        return _USUAL
    order = np.argsort(-shares, kind="stable")
    descending, found = shares[order], np.cumsum(has[order])
    possible = np.append(descending[1:] < descending[:-1], True)  # rows that are equally probable cannot be divided
    f1 = 2 * found / (np.arange(1, len(order) + 1) + has.sum())
    return float(f1[possible].max() / 2)


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
