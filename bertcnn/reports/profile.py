"""The data at a glance: how many rows, how long, how often the same."""

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
    """Rows at a glance.

    Attributes:
        rows: all of them.
        labels: how many different labels they have.
        repeated: rows that repeat the text of another, apart from white space at its ends.
        conflicting: different texts that stand in rows with different labels.
        truncated: rows over the limit of tokens, which lose their middle.
        limit: tokens of a text at most, with the two that mark its ends.
        tokens: of the shortest, the median, the 95th of 100 and the longest text, as far as the
            model reads them.
        lengths: all texts by their length.
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
    """Count.

    Args:
        texts: at least one.
        labels: one for each.
        lengths: int [rows], tokens of each text.
        truncated: how many texts were over the limit.
        limit: tokens of a text at most.

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
    """The histogram: bars of equal width in whole tokens."""
    width = -(-(longest - shortest + 1) // _BARS)
    counts = np.bincount((lengths - shortest) // width)
    return tuple(
        LengthBar(shortest + place * width, shortest + (place + 1) * width - 1, int(count))
        for place, count in enumerate(counts)
    )
