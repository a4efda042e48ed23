"""Whether the best of many trials is better than the first by more than chance."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

_DRAWS = 500  # of the bootstrap, whose standard deviation they give to within 3%


def p_value(
    labels: np.ndarray, default: np.ndarray, best: np.ndarray, groups: np.ndarray, tried: int
) -> float:
    """How likely the best of many trials gains so much macro-F1 on the defaults by luck.

    A one-sided z-test with the gain's standard deviation in a paired bootstrap, times the number of
    trials (Bonferroni), since the best of many is often only the luckiest.

    Args:
        labels: int [rows].
        default: predicted with the defaults, int [rows].
        best: predicted with the best settings, int [rows].
        groups: int [rows]; duplicates have equal numbers, and are drawn together.
        tried: trials beside the defaults.
    """
    classes = int(max(labels.max(), best.max(), default.max())) + 1
    members = int(groups.max()) + 1

    def macro_f1(found: np.ndarray, times: np.ndarray) -> float:
        right = np.bincount(labels, times * (labels == found), classes)
        either = np.bincount(labels, times, classes) + np.bincount(found, times, classes)
        return float(np.mean(2 * right[either > 0] / either[either > 0]))

    drawn = np.random.default_rng(0).multinomial(members, np.full(members, 1 / members), _DRAWS)
    every = np.vstack([np.ones(members), drawn])[:, groups]  # the rows as they are, and each draw
    gains = [macro_f1(best, times) - macro_f1(default, times) for times in every]
    return min(1.0, tried * float(norm.sf(gains[0] / max(float(np.std(gains[1:])), 1e-9))))
