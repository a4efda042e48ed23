"""Pseudo-random numbers that are the same on every platform."""

from __future__ import annotations

import numpy as np


def splitmix64(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014), uint64 of any shape.

    It is a bijection, and each bit of the result depends on each bit of the value.

    Example:
        >>> splitmix64(np.array([0, 1], np.uint64)).tolist()
        [0, 6238072747940578789]
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
