"""Figures for subsets of the rows: short and long texts, channels, months.

Subsets of one or two rows are not shown, because they could identify a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import hypergeom

from bertcnn.evaluation import wilson

FEWEST = 3  # rows of a subset that is shown
_LENGTHS = 4
# probability that any of equally good subsets is called weak (Fisher's exact test, Bonferroni)
_CHANCE = 0.05
_MOST = 24
_REST = "(rare values)"
_BLANK = "(blank)"


@dataclass(frozen=True)
class SliceFigures:
    """The figures of one subset.

    Attributes:
        interval: 95% interval of the accuracy (Wilson 1927).
        automatic: share of rows answered automatically.
        weak: whether it is significantly worse than the other rows, corrected for all subsets.
    """

    name: str
    rows: int
    accuracy: float
    interval: tuple[float, float]
    confidence: float
    automatic: float
    weak: bool


@dataclass(frozen=True)
class Answered:
    """Rows with their answers, by column; bool and float [rows]."""

    right: np.ndarray
    confidence: np.ndarray
    automatic: np.ndarray


def slice_by_value(
    values: Sequence[str], answered: Answered, *, columns: int = 1
) -> tuple[SliceFigures, ...]:
    """Subsets of rows with the same value; rare values, and values beyond 24, are merged.

    `columns` is the number of columns examined, for the correction of `weak`.
    """
    named = [" ".join(value.split()) or _BLANK for value in values]
    counts = Counter(named)
    kept = {name for name, rows in counts.most_common(_MOST) if rows >= FEWEST}
    column = np.array([name if name in kept else _REST for name in named], object)
    names = sorted(kept - {_BLANK}) + [name for name in (_BLANK, _REST) if (column == name).any()]
    return _parts([(name, column == name) for name in names], answered, columns)


def slice_by_length(
    lengths: np.ndarray, answered: Answered, *, columns: int = 1
) -> tuple[SliceFigures, ...]:
    """Up to four subsets of similar size, from short to long texts.

    `lengths` are int [rows]; `columns` counts the examined columns, including this one.
    """
    if not len(lengths):
        return ()
    bounds = np.unique(np.quantile(lengths, np.arange(1, _LENGTHS) / _LENGTHS, method="nearest"))
    part = np.searchsorted(bounds, lengths)  # upper bounds are inclusive
    rows = [part == number for number in np.unique(part)]
    return _parts(
        [(_range(int(lengths[one].min()), int(lengths[one].max())), one) for one in rows],
        answered,
        columns,
    )


def _range(first: int, last: int) -> str:
    return f"{first} tokens" if first == last else f"{first} to {last} tokens"


def _parts(
    named: Sequence[tuple[str, np.ndarray]], answered: Answered, columns: int
) -> tuple[SliceFigures, ...]:
    """The figures of subsets, each bool [rows], that have enough rows."""
    named = [(name, rows) for name, rows in named if rows.sum() >= FEWEST]
    whole, all_right = len(answered.right), int(answered.right.sum())
    parts = []
    for name, rows in named:
        count, right = int(rows.sum()), int(answered.right[rows].sum())
        # probability of at most this many right answers in the subset, by chance
        by_accident = float(hypergeom.cdf(right, whole, all_right, count))
        parts.append(
            SliceFigures(
                name=name,
                rows=count,
                accuracy=right / count,
                interval=wilson(right, count),
                confidence=float(np.mean(answered.confidence[rows])),
                automatic=float(np.mean(answered.automatic[rows])),
                weak=by_accident * len(named) * columns <= _CHANCE,
            )
        )
    return tuple(parts)
