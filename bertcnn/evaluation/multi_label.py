"""Calibration and thresholds where a row may have several labels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit

from bertcnn.evaluation.calibration import CalibrationFigures, compare_calibration, doubt
from bertcnn.evaluation.probabilities import chosen, exact_match_probability, sigmoid

_LOWEST, _HIGHEST = 0.05, 20.0  # temperatures
_FEWEST = 20  # held-out rows with a label, without which its threshold is that of all labels
_FOLDS = 5
_USUAL = 0.5


def fit_temperature(logits: np.ndarray, multi_hot: np.ndarray) -> float:
    """The temperature that makes the held-out labels most probable (after Guo et al. 2017, 4.2).

    It is one for all labels.

    With Platt's targets, as `calibration.fit_temperature` has them for one label a row.

    Args:
        logits: float [rows, C], of rows not trained on.
        multi_hot: bool [rows, C], which row has which label.

    Returns:
        T > 0; probabilities are sigmoid(logits / T). 1.0 without rows.
    """
    if not len(multi_hot):
        return 1.0
    signed, unsure = np.where(multi_hot, logits, -logits).astype(np.float64), doubt(multi_hot.size)

    def loss(log_temperature: float) -> float:
        scaled = signed / np.exp(log_temperature)
        return float(-np.mean((1 - unsure) * log_expit(scaled) + unsure * log_expit(-scaled)))

    found = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(found.x))


def choose_thresholds(probabilities: np.ndarray, multi_hot: np.ndarray) -> np.ndarray:
    """From which probability on a label is given, for the best F1 of each label.

    With calibrated probabilities that threshold is half of the best F1 there is (Lipton, Elkan and
    Naryanaswamy 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure"), and from few
    rows the best F1 is known better than the place where it is reached. A label with fewer than 20
    held-out rows gets the threshold of all labels together.

    Args:
        probabilities: float32 [rows, C], calibrated probabilities of rows not trained on.
        multi_hot: bool [rows, C], which row has which label.

    Returns:
        float32 [C], at most 0.5; 0.5 where no row has a label.

    Example:
        >>> shares = np.linspace(0.99, 0.01, 50, dtype=np.float32)[:, None]
        >>> choose_thresholds(shares, shares > 0.32).tolist()
        [0.5]
    """
    usual = _half_of_best_f1(probabilities.ravel(), multi_hot.ravel())
    return np.array(
        [
            _half_of_best_f1(column, own) if own.sum() >= _FEWEST else usual
            for column, own in zip(probabilities.T, multi_hot.T, strict=True)
        ],
        np.float32,
    )


def _half_of_best_f1(probabilities: np.ndarray, has: np.ndarray) -> float:
    """Half of the best F1 that any threshold of the probabilities gives."""
    if not has.any():
        return _USUAL
    order = np.argsort(-probabilities, kind="stable")
    descending, found = probabilities[order], np.cumsum(has[order])
    # rows that are equally probable cannot be divided
    possible = np.append(descending[1:] < descending[:-1], True)
    f1 = 2 * found / (np.arange(1, len(order) + 1) + has.sum())
    return float(f1[possible].max() / 2)


def measure_calibration(
    logits: np.ndarray, multi_hot: np.ndarray, thresholds: np.ndarray
) -> CalibrationFigures:
    """The calibration error of whole answers, before and after calibration.

    An answer is right if it is right in every label.

    Args:
        logits: float [rows, C], of rows not trained on.
        multi_hot: bool [rows, C].
        thresholds: float [C].
    """
    return compare_calibration(*confidences(logits, multi_hot, thresholds))


def confidences(
    logits: np.ndarray, multi_hot: np.ndarray, thresholds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The confidence of each row's answer before and after calibration, float64 [rows].

    And whether the answer is right, bool [rows].

    The rows go into five parts, and each part gets the temperature that the others give.
    """
    scaled, part = np.asarray(logits, float).copy(), np.arange(len(multi_hot)) % _FOLDS
    for fold in range(_FOLDS):
        scaled[part == fold] /= fit_temperature(logits[part != fold], multi_hot[part != fold])
    probabilities = sigmoid(scaled)
    given = chosen(probabilities, thresholds)
    before, after = (
        exact_match_probability(values, given).astype(float)
        for values in (sigmoid(logits), probabilities)
    )
    return before, after, (given == multi_hot).all(axis=1)
