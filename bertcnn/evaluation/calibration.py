"""Confidence that means something: one temperature, fitted on rows the model did not learn from."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

_LOWEST, _HIGHEST = 0.05, 20.0


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature that makes held-out labels most probable (Guo et al. 2017, section 4.2).

    Args:
        logits: float [rows, C], of rows not trained on.
        labels: int [rows].

    Returns:
        T > 0; probabilities are softmax(logits / T). 1.0 without rows.

    Example:
        >>> fit_temperature(np.array([[9.0, 0.0], [0.0, 9.0], [9.0, 0.0], [0.0, 9.0]]), np.array([0, 1, 0, 0])) > 5
        True
    """
    if not len(labels):
        return 1.0

    def loss(log_temperature: float) -> float:
        log_probabilities = log_softmax(logits / np.exp(log_temperature), axis=1)
        return float(-np.mean(log_probabilities[np.arange(len(labels)), labels]))

    found = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(found.x))
