"""splitmix64 against the published generator."""

import numpy as np

from bertcnn.data.hashing import splitmix64


def test_it_is_the_finaliser_of_splitmix64():
    steps = np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    # the first numbers of SplitMix64 with seed 0, the same in every implementation
    # (java.util.SplittableRandom, numba, Rust's rand)
    assert [f"{value:016x}" for value in splitmix64(steps).tolist()] == [
        "e220a8397b1dcdaf",
        "6e789e6aa1b965f4",
        "06c45d188009454f",
    ]
