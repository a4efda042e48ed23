"""Statistics of the data: rows, lengths, duplicates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_BARS = 16


@dataclass(frozen=True)
class LengthBar:
    """Texts with `first` to `last` tokens."""

    first: int
    last: int
    texts: int


@dataclass(frozen=True)
class DataProfile:
    """Statistics of labelled rows.

    Attributes:
        repeated: rows that repeat another row's text, ignoring outer white space.
        conflicting: distinct texts with different labels.
        truncated: rows over the token limit, whose middle is cut.
        limit: most tokens of a text, including [CLS] and [SEP].
        tokens: minimum, median, 95th percentile and maximum of the truncated lengths.
        lengths: histogram of text lengths.
    """

    rows: int
    labels: int
    repeated: int
    conflicting: int
    truncated: int
    limit: int
    tokens: tuple[int, int, int, int]
    lengths: tuple[LengthBar, ...]


def profile_rows(
    texts: Sequence[str], labels: Sequence[str], lengths: np.ndarray, *, truncated: int, limit: int
) -> DataProfile:
    """Compute the statistics.

    `lengths` are int [rows], tokens of each text; `truncated` counts texts over the limit.

    Example:
        >>> lengths = np.array([3, 3, 5])
        >>> profile = profile_rows(["a", "a ", "b"], ["x", "y", "x"], lengths, truncated=0, limit=8)
        >>> profile.repeated, profile.conflicting, profile.tokens
        (1, 1, (3, 3, 5, 5))
    """
    together: dict[str, set[str]] = defaultdict(set)
    for text, label in zip(texts, labels, strict=True):
        together[text.strip()].add(label)
    shortest, median, most, longest = (
        np.quantile(lengths, [0, 0.5, 0.95, 1], method="nearest").astype(int).tolist()
    )
    return DataProfile(
        rows=len(texts),
        labels=len(set(labels)),
        repeated=len(texts) - len(together),
        conflicting=sum(len(names) > 1 for names in together.values()),
        truncated=truncated,
        limit=limit,
        tokens=(shortest, median, most, longest),
        lengths=_bars(lengths, shortest, longest),
    )


def _bars(lengths: np.ndarray, shortest: int, longest: int) -> tuple[LengthBar, ...]:
    width = -(-(longest - shortest + 1) // _BARS)
    counts = np.bincount((lengths - shortest) // width)
    return tuple(
        LengthBar(shortest + index * width, shortest + (index + 1) * width - 1, int(count))
        for index, count in enumerate(counts)
    )
