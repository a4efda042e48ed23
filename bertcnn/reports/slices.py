"""How a model fares on parts of the rows: short and long texts, channels, months.

A part of one or two rows is not shown: it could be about a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import hypergeom

from bertcnn.evaluation.intervals import wilson

FEWEST = 3  # rows of a part that is shown
_LENGTHS = 4
# that any part of equally good ones is called weak (Fisher's exact test, Bonferroni)
_CHANCE = 0.05
_MOST = 24
_REST = "(rare values)"
_BLANK = "(blank)"


@dataclass(frozen=True)
class SliceFigures:
    """One part of the rows.

    Attributes:
        name: of the part.
        rows: in it.
        accuracy: share of them with the right label.
        interval: lower and upper bound of the accuracy, 95% (Wilson 1927).
        confidence: mean confidence.
        automatic: share of them that is answered automatically.
        weak: whether it is worse than the others by more than chance explains, however many parts
            and columns there are.
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
    """The parts of the rows that have the same value.

    The rare ones, and what is beyond 24 values, in one part.

    Args:
        values: one for each row.
        answered: the rows.
        columns: how many columns are looked at; the more, the worse a part has to be to be called
            weak.
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
    """Four parts of about equal size, from short to long texts; fewer where most are of one length.

    Args:
        lengths: int [rows], tokens.
        answered: the rows.
        columns: how many columns are looked at, this one too.
    """
    if not len(lengths):
        return ()
    bounds = np.unique(np.quantile(lengths, np.arange(1, _LENGTHS) / _LENGTHS, method="nearest"))
    part = np.searchsorted(bounds, lengths)  # up to a bound, with it
    rows = [part == place for place in np.unique(part)]
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
    """The figures of parts of the rows, each bool [rows]; of those with rows enough."""
    named = [(name, rows) for name, rows in named if rows.sum() >= FEWEST]
    whole, all_right = len(answered.right), int(answered.right.sum())
    found = []
    for name, rows in named:
        count, right = int(rows.sum()), int(answered.right[rows].sum())
        # that so few of the right answers fall into this part
        by_accident = float(hypergeom.cdf(right, whole, all_right, count))
        found.append(
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
    return tuple(found)
