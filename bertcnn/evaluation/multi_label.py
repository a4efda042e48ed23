"""Calibration and thresholds for rows with several labels."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_expit

from bertcnn.evaluation.calibration import CalibrationFigures, compare_calibration, doubt
from bertcnn.evaluation.probabilities import chosen, exact_match_probability, sigmoid

_LOWEST, _HIGHEST = 0.05, 20.0  # temperatures
_FEWEST = 20  # held-out rows of a label; with fewer, it uses the threshold of all labels
_FOLDS = 5
_USUAL = 0.5


def fit_temperature(logits: np.ndarray, multi_hot: np.ndarray) -> float:
    """The temperature that maximises the held-out likelihood (after Guo et al. 2017, 4.2).

    One temperature for all labels, with Platt's targets as in `calibration.fit_temperature`.
    `logits` are float [rows, C] of rows not trained on, `multi_hot` bool [rows, C].

    Returns:
        T > 0; probabilities are sigmoid(logits / T). 1.0 without rows.
    """
    if not len(multi_hot):
        return 1.0
    signed, unsure = np.where(multi_hot, logits, -logits).astype(np.float64), doubt(multi_hot.size)

    def loss(log_temperature: float) -> float:
        scaled = signed / np.exp(log_temperature)
        return float(-np.mean((1 - unsure) * log_expit(scaled) + unsure * log_expit(-scaled)))

    result = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(result.x))


def choose_thresholds(probabilities: np.ndarray, multi_hot: np.ndarray) -> np.ndarray:
    """The probability threshold of each label with the best F1, float32 [C].

    With calibrated probabilities the best threshold is half of the best F1 (Lipton, Elkan and
    Narayanaswamy 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure"). With few rows
    the best F1 is known more precisely than its threshold. Labels with fewer than 20 held-out rows
    share one threshold. Thresholds are at most 0.5, and 0.5 if no row has a label.

    `probabilities` are float32 [rows, C], calibrated, of rows not trained on; `multi_hot` bool
    [rows, C].

    Example:
        >>> shares = np.linspace(0.99, 0.01, 50, dtype=np.float32)[:, None]
        >>> choose_thresholds(shares, shares > 0.32).tolist()
        [0.5]
    """
    usual = _half_of_best_f1(probabilities.ravel(), multi_hot.ravel())
    return np.array(
        [
            _half_of_best_f1(column, has) if has.sum() >= _FEWEST else usual
            for column, has in zip(probabilities.T, multi_hot.T, strict=True)
        ],
        np.float32,
    )


def _half_of_best_f1(probabilities: np.ndarray, has: np.ndarray) -> float:
    if not has.any():
        return _USUAL
    order = np.argsort(-probabilities, kind="stable")
    descending, hits = probabilities[order], np.cumsum(has[order])
    # equal probabilities cannot be separated
    possible = np.append(descending[1:] < descending[:-1], True)
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + has.sum())
    return float(f1[possible].max() / 2)


def measure_calibration(
    logits: np.ndarray, multi_hot: np.ndarray, thresholds: np.ndarray
) -> CalibrationFigures:
    """The calibration error of complete label sets, before and after calibration.

    `logits` are float [rows, C] of held-out rows; `multi_hot` bool [rows, C]; `thresholds` [C].
    """
    return compare_calibration(*confidences(logits, multi_hot, thresholds))


def confidences(
    logits: np.ndarray, multi_hot: np.ndarray, thresholds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidences before and after cross-fitted calibration, float64 [rows], and correctness.

    An answer is right, bool [rows], if its label set is exactly right.
    """
    scaled, part = np.asarray(logits, float).copy(), np.arange(len(multi_hot)) % _FOLDS
    for fold in range(_FOLDS):
        scaled[part == fold] /= fit_temperature(logits[part != fold], multi_hot[part != fold])
    probabilities = sigmoid(scaled)
    predictions = chosen(probabilities, thresholds)
    before, after = (
        exact_match_probability(values, predictions).astype(float)
        for values in (sigmoid(logits), probabilities)
    )
    return before, after, (predictions == multi_hot).all(axis=1)
