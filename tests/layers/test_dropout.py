"""Dropout from a hash is sufficiently random."""

import numpy as np
import pytest

from bertcnn.layers.dropout import HashDropout

ROWS, WIDTH = 64, 256
ONES = np.ones((ROWS, WIDTH), np.float32)


def dropped(layer):
    return np.asarray(layer(ONES, training=True)) == 0


def test_the_layer_passes_keras_checks(check_layer):
    check_layer(HashDropout(0.1, seed=3), (ONES[None],), (1, ROWS, WIDTH), trainable_weights=0)


@pytest.mark.on_jax
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_it_drops_its_share_and_keeps_the_mean(rate):
    values = np.asarray(HashDropout(rate, seed=7)(ONES, training=True))
    error = 4 * np.sqrt(rate * (1 - rate) / values.size)
    assert abs((values == 0).mean() - rate) < error
    np.testing.assert_allclose(values[values != 0], 1 / (1 - rate), rtol=1e-6)


def test_it_does_nothing_outside_training_or_at_rate_zero():
    np.testing.assert_array_equal(HashDropout(0.5)(ONES), ONES)
    np.testing.assert_array_equal(HashDropout(0.0)(ONES, training=True), ONES)


def test_a_seed_repeats_its_calls_and_calls_differ():
    one, other = HashDropout(0.5, seed=1), HashDropout(0.5, seed=1)
    first, second = dropped(one), dropped(one)
    np.testing.assert_array_equal(first, dropped(other))
    np.testing.assert_array_equal(second, dropped(other))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 4 / np.sqrt(ONES.size)


@pytest.mark.parametrize("block", [1, 2, 4, 16])
@pytest.mark.parametrize("distance", [1, 2, 3, 10])
def test_layers_with_neighbouring_seeds_drop_independently(block, distance):
    counts = [
        dropped(HashDropout(0.5, seed=seed)).reshape(-1, block).sum(axis=1)
        for seed in (20, 20 + distance)
    ]
    assert abs(np.corrcoef(*counts)[0, 1]) < 5 / np.sqrt(len(counts[0]))


@pytest.mark.parametrize("shift", [1, 2, 16, WIDTH])
def test_neighbouring_values_are_dropped_independently(shift):
    mask = dropped(HashDropout(0.5, seed=5)).ravel()
    assert abs(np.corrcoef(mask[shift:], mask[:-shift])[0, 1]) < 5 / np.sqrt(len(mask))
