"""Tests whether the best of many trials beats the first by more than chance."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

_DRAWS = 500  # bootstrap draws, which give the standard deviation to within 3%


def p_value(
    labels: np.ndarray, default: np.ndarray, best: np.ndarray, groups: np.ndarray, tried: int
) -> float:
    """The p-value of the best trial's gain in macro-F1 over the defaults.

    A one-sided z-test with the gain's standard deviation from a paired bootstrap, multiplied by the
    number of trials (Bonferroni). Labels are int [rows]. `groups` are equal for duplicates, which
    are drawn together; `tried` counts the trials besides the defaults.
    """
    classes = int(max(labels.max(), best.max(), default.max())) + 1
    members = int(groups.max()) + 1

    def macro_f1(predicted: np.ndarray, times: np.ndarray) -> float:
        right = np.bincount(labels, times * (labels == predicted), classes)
        either = np.bincount(labels, times, classes) + np.bincount(predicted, times, classes)
        return float(np.mean(2 * right[either > 0] / either[either > 0]))

    drawn = np.random.default_rng(0).multinomial(members, np.full(members, 1 / members), _DRAWS)
    every = np.vstack([np.ones(members), drawn])[:, groups]  # the original rows, then each draw
    gains = [macro_f1(best, times) - macro_f1(default, times) for times in every]
    return min(1.0, tried * float(norm.sf(gains[0] / max(float(np.std(gains[1:])), 1e-9))))
