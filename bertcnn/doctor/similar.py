"""Finds near duplicates without comparing all pairs.

MinHash over character 4-grams with banding: only texts that agree in a band are compared (Broder
1997; Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, sections 3.3 and 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bertcnn.data import duplicate_key, splitmix64

_GRAM = 4
# a pair of similarity s is compared with probability 1 - (1 - s^4)^16: 0.9998 at 0.8, 0.64 at 0.5,
# and 0.12 at 0.3
_BANDS = 16
_ROWS = 4
_LONGEST = 2000  # characters compared
_BLOCK_CHARACTERS = 2_000_000
_BLOCK_PAIRS = 50_000
# most earlier texts in the same band to compare a text with; keeps thousands of texts from one
# template linear
_COMPARED = 8
# smallest share of equal signature entries; four standard errors below the mean for pairs at 0.8
_LIKELY = 0.6
SIMILAR = 0.8  # Jaccard index of the sets of 4-grams


def similar_groups(texts: Sequence[str]) -> np.ndarray:
    """Group near duplicates: for each text the index of its group's first text, int64 [texts].

    Two texts are near duplicates if they differ only in case, spaces, punctuation and digits, or if
    the Jaccard index of their character 4-grams is at least 0.8. Groups are the
    connected components. Time and memory grow linearly with the characters. A pair at 0.8 is missed
    with a probability of 0.0003, or if very many texts share its bands. The texts must be distinct.

    Example:
        >>> texts = ["My card has not arrived yet", "my card has not arived yet!", "Charged twice?"]
        >>> similar_groups(texts).tolist()
        [0, 0, 2]
    """
    keys = [duplicate_key(text)[:_LONGEST] for text in texts]
    first: dict[str, int] = {}
    groups = np.array([first.setdefault(key, index) for index, key in enumerate(keys)], np.int64)
    distinct = np.fromiter(first.values(), np.int64, len(first))
    signatures = _signatures([keys[index] for index in distinct])
    parents = list(range(len(distinct)))
    for band in range(_BANDS):
        for one, other in _pairs_of_band(signatures, band):
            if (
                _root(parents, one) != _root(parents, other)
                and _similarity(keys[distinct[one]], keys[distinct[other]]) >= SIMILAR
            ):
                _join(parents, one, other)
    root_of = {
        int(start): int(distinct[_root(parents, index)]) for index, start in enumerate(distinct)
    }
    return np.array([root_of[int(start)] for start in groups], np.int64)


def _signatures(keys: Sequence[str]) -> np.ndarray:
    signatures = np.empty((len(keys), _BANDS * _ROWS), np.uint64)
    salts = np.random.default_rng(0).integers(1, 2**63, _BANDS * _ROWS, np.uint64)
    start = 0
    while start < len(keys):
        end, characters = start, 0
        while end < len(keys) and (
            end == start or characters + len(keys[end]) <= _BLOCK_CHARACTERS
        ):
            characters += len(keys[end])
            end += 1
        grams, starts = _grams(keys[start:end])
        for column, salt in enumerate(salts):
            signatures[start:end, column] = np.minimum.reduceat(splitmix64(grams ^ salt), starts)
        start = end
    return signatures


def _pairs_of_band(signatures: np.ndarray, band: int) -> Iterator[tuple[int, int]]:
    """Pairs that agree in a band and in enough of the signature to be similar.

    Compares only neighbours in sorted order.
    """
    part = np.ascontiguousarray(signatures[:, band * _ROWS : (band + 1) * _ROWS])
    _, bucket = np.unique(
        part.view(np.dtype((np.void, part.itemsize * _ROWS))).ravel(), return_inverse=True
    )
    order = np.argsort(bucket, kind="stable")
    for apart in range(1, _COMPARED + 1):
        ones, others = order[:-apart], order[apart:]
        same = bucket[ones] == bucket[others]
        if not same.any():
            return
        ones, others = ones[same], others[same]
        for start in range(0, len(ones), _BLOCK_PAIRS):
            block = slice(start, start + _BLOCK_PAIRS)
            likely = (signatures[ones[block]] == signatures[others[block]]).mean(axis=1) >= _LIKELY
            yield from zip(
                ones[block][likely].tolist(), others[block][likely].tolist(), strict=True
            )


def _grams(keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The hashed 4-grams of all keys, uint64, and each key's start; short keys are one gram."""
    padded = [key + " " * max(0, _GRAM - len(key)) for key in keys]
    points = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32).astype(
        np.uint64
    )
    windows = len(points) - _GRAM + 1
    grams = np.zeros(windows, np.uint64)
    for offset in range(_GRAM):
        grams = splitmix64(grams ^ points[offset : offset + windows])
    lengths = np.array([len(key) for key in padded], np.int64)
    ends = np.cumsum(lengths)
    kept = np.ones(windows, np.bool_)
    for over in range(1, _GRAM):  # windows that overlap the next key
        indices = ends - over
        kept[indices[indices < windows]] = False
    counts = lengths - _GRAM + 1
    return grams[kept], np.cumsum(counts) - counts


def _similarity(one: str, other: str) -> float:
    first, second = (
        frozenset(key[start : start + _GRAM] for start in range(max(1, len(key) - _GRAM + 1)))
        for key in (one, other)
    )
    return len(first & second) / len(first | second)


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


def _join(parents: list[int], one: int, other: int) -> None:
    """Join two groups under the earlier root."""
    first, second = sorted((_root(parents, one), _root(parents, other)))
    parents[second] = first
