"""Macro-F1: the mean F1 of the labels that occur."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import f1_score


def macro_f1_score(
    actual: np.ndarray | Sequence[str], predicted: np.ndarray | Sequence[str]
) -> float:
    """The mean F1 of the labels that occur, true or predicted; rows may have several labels.

    scikit-learn omits labels that do not occur for single-label rows, but counts them as 0 for
    multi-label rows. Labels are int or str [rows], or bool [rows, C]. The score is 0 if no label
    occurs.

    Example:
        >>> round(macro_f1_score(np.array([0, 0, 2]), np.array([0, 2, 2])), 4)
        0.6667
        >>> perfect = np.array([[True, False, False], [True, True, False]])
        >>> macro_f1_score(perfect, perfect)
        1.0
    """
    if np.ndim(actual) == 1:
        return float(f1_score(actual, predicted, average="macro", zero_division=0.0))
    occurring = (np.asarray(actual) | np.asarray(predicted)).any(axis=0)
    if not occurring.any():
        return 0.0
    return float(np.mean(f1_score(actual, predicted, average=None, zero_division=0.0)[occurring]))
