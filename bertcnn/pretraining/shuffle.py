"""A random order of any length without memory: each place is computed when asked for."""

from __future__ import annotations

import numpy as np

from bertcnn.data.hashing import splitmix64

_ROUNDS = 6


class Shuffle:
    """A permutation of 0 .. size - 1.

    A Feistel network over the next power of 4, walked until it lands inside (Black and Rogaway
    2002).

    Args:
        size: of things.
        generator: draws the keys of the rounds.

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
        """What stands at these places of the random order.

        Args:
            places: int64 [n], each at least 0 and less than the size.

        Returns:
            int64 [n], as many different numbers as there are different places.
        """
        found = self._network(places.astype(np.uint64))
        while len(outside := np.flatnonzero(found >= self._size)):
            found[outside] = self._network(found[outside])
        return found.astype(np.int64)

    def _network(self, values: np.ndarray) -> np.ndarray:
        low_bits = (np.uint64(1) << self._bits) - np.uint64(1)
        left, right = values >> self._bits, values & low_bits
        for key in self._keys:
            left, right = right, left ^ (splitmix64(right + key) & low_bits)
        return (left << self._bits) | right
