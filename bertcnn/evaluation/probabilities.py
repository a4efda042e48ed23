"""From logits to probabilities, and to label sets. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.bundle import Calibration
from bertcnn.data import LabelSet


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities, float32 [rows, C], of logits [rows, C]."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(shifted)
    return (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(np.float32)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Independent label probabilities, float32 [rows, C], of logits [rows, C].

    Example:
        >>> sigmoid(np.array([[0.0, 1000.0, -1000.0]])).tolist()
        [[0.5, 1.0, 0.0]]
    """
    small = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)


def calibrated_probabilities(logits: np.ndarray, calibration: Calibration) -> np.ndarray:
    """Calibrated probabilities, float32 [rows, C]; rows sum to 1 unless multi-label."""
    scaled = logits / calibration.temperature
    return sigmoid(scaled) if calibration.label_thresholds else softmax(scaled)


def chosen(probabilities: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The labels whose probability [rows, C] reaches its threshold [C], bool [rows, C]."""
    return probabilities >= thresholds


def exact_match_probability(probabilities: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The probability that the `predicted` labels [rows, C] are exactly right, float32 [rows].

    Assumes independent labels. `probabilities` are [rows, C].

    Example:
        >>> given = np.array([[True, False]])
        >>> round(float(exact_match_probability(np.array([[0.9, 0.2]]), given)[0]), 2)
        0.72
    """
    return np.where(predicted, probabilities, 1 - probabilities).prod(axis=1).astype(np.float32)


def names_of(
    predicted: np.ndarray, probabilities: np.ndarray, labels: Sequence[str]
) -> list[LabelSet]:
    """The names of each row's labels, the most probable first.

    `predicted` is bool [rows, C], `probabilities` float32 [rows, C]; `labels` has C names.

    Example:
        >>> names_of(np.array([[True, False, True]]), np.array([[0.6, 0.1, 0.8]]), ["a", "b", "c"])
        [('c', 'a')]
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    return [
        tuple(labels[index] for index in indices if row[index])
        for row, indices in zip(predicted, order.tolist(), strict=True)
    ]
