"""The memory-free shuffle: a permutation of any size, different for each generator."""

import numpy as np
import pytest

from bertcnn.pretraining.batches import Shuffle


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000, 4096, 5000])
def test_every_number_comes_once(size):
    assert np.array_equal(
        np.sort(Shuffle(size, np.random.default_rng(4))(np.arange(size))), np.arange(size)
    )


def test_places_may_be_asked_for_one_by_one():
    order = Shuffle(1000, np.random.default_rng(1))
    whole = order(np.arange(1000))
    assert [int(order(np.array([place]))[0]) for place in (0, 7, 999)] == whole[
        [0, 7, 999]
    ].tolist()


def test_every_number_comes_equally_often_first_and_neighbours_part():
    counts, steps = np.zeros(20), []
    for seed in range(4000):
        first = Shuffle(20, np.random.default_rng(seed))(np.arange(2))
        counts[first[0]] += 1
        steps.append(abs(first[0] - first[1]))
    assert np.abs(counts - 200).max() < 4.5 * np.sqrt(200)
    assert abs(np.mean(steps) - 7) < 0.4  # (20 + 1) / 3
