"""A random permutation of any length in constant memory."""

from __future__ import annotations

import numpy as np

from bertcnn.data import splitmix64

_ROUNDS = 6


class Shuffle:
    """A permutation of 0 .. size - 1.

    A Feistel network over the next power of 4, repeated until the result is below `size` (Black
    and Rogaway 2002); the generator draws the keys of its rounds.

    Example:
        >>> order = Shuffle(5, np.random.default_rng(1))
        >>> sorted(order(np.arange(5)).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size = size
        self._bits = np.uint64(max(1, -(-max(1, size - 1).bit_length() // 2)))
        self._keys = generator.integers(0, 1 << 63, _ROUNDS, dtype=np.uint64)

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """The elements at these places of the permutation; both int64 [n], below `size`."""
        elements = self._network(places.astype(np.uint64))
        while len(outside := np.flatnonzero(elements >= self._size)):
            elements[outside] = self._network(elements[outside])
        return elements.astype(np.int64)

    def _network(self, values: np.ndarray) -> np.ndarray:
        low_bits = (np.uint64(1) << self._bits) - np.uint64(1)
        left, right = values >> self._bits, values & low_bits
        for key in self._keys:
            left, right = right, left ^ (splitmix64(right + key) & low_bits)
        return (left << self._bits) | right
