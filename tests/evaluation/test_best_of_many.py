"""The significance test for the best of many trials."""

import numpy as np
import pytest

from bertcnn.evaluation.paired import p_value


def predicted(labels, share, generator):
    """Predictions that are right at this share of the rows, random at the others."""
    wrong = generator.random(len(labels)) >= share
    return np.where(wrong, generator.integers(0, 4, len(labels)), labels)


def p_of(shares, rows=400, seed=0, repeats=1):
    """The p-value of the best of several predictions against the first."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, rows)
    default, *others = (predicted(labels, share, generator) for share in shares)
    best = max(others, key=lambda other: np.mean(other == labels))
    arrays = [np.tile(one, repeats) for one in (labels, default, best, np.arange(rows))]
    return p_value(*arrays, len(others))


def test_a_real_gain_is_distinguished_from_the_luckiest_of_many():
    assert p_of([0.8, 0.8, 0.9]) < 0.01
    assert p_of([0.9, 0.5]) > 0.9
    lucky = sum(p_of([0.8] * 20, rows=200, seed=seed) <= 0.05 for seed in range(25))
    assert lucky <= 4  # 5% of 25 are 1.25; five or more happen once in 100 runs


def test_duplicates_count_once():
    assert p_of([0.7, 0.78], repeats=4) == pytest.approx(p_of([0.7, 0.78]), abs=1e-9)
