"""Finds the lowest confidence threshold that keeps a required precision.

Held-out rows, sorted by confidence, form nested sets: the most confident 45 rows (for 95 %), and so
on, up to all rows. A set is bad if its expected precision is below the target. If precision does
not fall as confidence rises, the bad sets are all sets from some size on. So closed testing
(Marcus, Peritz and Gabriel 1976) needs one test per size, of "all sets from this size on are bad".
Each is a group-sequential test (Pocock 1977): it takes the best of these sets relative to its size,
and rejects if answers of exactly the target precision would do as well in at most a tenth of all
draws. The largest set up to which every test rejects gives the threshold.

The precision above the threshold is below the target with a probability of at most
`ERROR_PROBABILITY`, if the rows are like future ones. Bad luck among the most confident rows does
not end the search, because a larger set may still reject. `benchmarks/thresholds.py` compares other
procedures.
"""

from __future__ import annotations

import math

import numpy as np

ERROR_PROBABILITY = 0.1
_SETS = 50  # nested sets tested
_ROUNDING = 1 + 1e-9  # tolerance for probabilities


def fewest_rows(precision: float) -> int:
    """The fewest held-out rows that can show this precision, even if all answers are right.

    Example:
        >>> fewest_rows(0.95), fewest_rows(0.99)
        (45, 230)
    """
    return math.ceil(math.log(ERROR_PROBABILITY) / math.log(precision))


def find_threshold(confidence: np.ndarray, right: np.ndarray, precision: float) -> float | None:
    """The lowest confidence whose answers demonstrably reach a precision; None if there is none.

    `confidence` is float [rows] of rows not trained on, `right` bool [rows].

    Example:
        >>> confidence = np.linspace(1, 0, 200)
        >>> 0.4 < find_threshold(confidence, confidence > 0.45, 0.9) < 0.45
        True
    """
    rows, fewest = len(confidence), fewest_rows(precision)
    if rows < fewest:
        return None
    sizes = np.unique(np.linspace(max(fewest, rows // _SETS), rows, _SETS).astype(int))
    ascending = np.sort(confidence)
    thresholds = np.unique(ascending[rows - sizes])[::-1]
    # include all rows with the same confidence as the last one
    sizes = rows - np.searchsorted(ascending, thresholds)
    wrong = np.cumsum(~right[np.argsort(-confidence, kind="stable")])[sizes - 1]
    passed = _NestedTests(sizes, precision).passed(wrong)
    return float(thresholds[passed - 1]) if passed else None


class _NestedTests:
    """Tests of nested sets of answers.

    `sizes` are the answers in each set, int [sets], ascending.
    """

    def __init__(self, sizes: np.ndarray, precision: float) -> None:
        mean = sizes[-1] * (1 - precision)
        # more wrong answers have a probability below 1e-15 (Bernstein's inequality)
        most = min(int(sizes[-1]), math.ceil(mean + 9 * math.sqrt(mean) + 36))
        self._probability = _binomial(sizes, most, precision)  # [sets, W]
        self._added = _binomial(np.diff(sizes), most, precision)  # [sets - 1, W]
        chance = self._probability.cumsum(axis=1)
        # larger sets get a smaller level, otherwise small sets pay for all larger ones
        self._statistic = np.minimum(chance, 1) * np.sqrt(sizes)[:, np.newaxis]

    def passed(self, wrong: np.ndarray) -> int:
        """The number of sets that are precise enough; `wrong` counts errors in each, int [sets]."""
        last = self._statistic.shape[1] - 1
        statistics = self._statistic[np.arange(len(wrong)), np.minimum(wrong, last)]
        best = np.minimum.accumulate(statistics[::-1])[::-1]  # of a set and all larger ones
        passed = 0
        while passed < len(best):
            same = np.searchsorted(best, best[passed], side="right")
            rejects = self._as_good(best[passed])[passed:same] <= ERROR_PROBABILITY * _ROUNDING
            passed += int(np.logical_and.accumulate(rejects).sum())
            if passed < same:
                break
        return passed

    def _as_good(self, best: float) -> np.ndarray:
        """The probability that a set or a larger one is as good as `best`, float [sets].

        Assumes exactly the required precision.
        """
        reached = np.zeros(len(self._statistic))
        later = np.zeros(self._statistic.shape[1])  # by the number of wrong answers
        for index in reversed(range(len(reached))):
            if index < len(self._added):
                later = np.convolve(later[::-1], self._added[index])[: len(later)][::-1]
            later[self._statistic[index] <= best * _ROUNDING] = 1
            reached[index] = self._probability[index] @ later
        return reached


def _binomial(rows: np.ndarray, most: int, precision: float) -> np.ndarray:
    """The probability of 0 to `most` errors among `rows` answers, float [..., most + 1].

    SciPy has this function, but a server would need its 125 MB for nothing else.
    """
    log_factorials = np.cumsum(np.log(np.maximum(np.arange(rows.max(initial=0) + 1), 1)))
    rows, wrong = rows[:, np.newaxis], np.arange(most + 1)
    right = rows - wrong
    logs = (
        log_factorials[rows]
        - log_factorials[np.minimum(wrong, len(log_factorials) - 1)]
        - log_factorials[np.maximum(right, 0)]
        + wrong * math.log1p(-precision)
        + right * math.log(precision)
    )
    return np.exp(np.where(right >= 0, logs, -np.inf))
