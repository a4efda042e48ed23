"""The lowest confidence threshold that guarantees a precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from bertcnn.evaluation.thresholds import ERROR_PROBABILITY, fewest_rows, find_threshold


def draw(generator, rows):
    """A model whose confidence, uniform between 0.7 and 1, is its chance of being right."""
    confidence = generator.uniform(0.7, 1, rows)
    return confidence, generator.random(rows) < confidence


@pytest.mark.parametrize(("rows", "target"), [(150, 0.9), (400, 0.95), (1000, 0.9), (1000, 0.95)])
def test_the_true_precision_is_below_the_target_in_at_most_a_tenth_of_draws(rows, target):
    generator, draws = np.random.default_rng(7), 600
    missed = 0
    for _ in range(draws):
        threshold = find_threshold(*draw(generator, rows), target)
        # the mean of a uniform confidence above it
        missed += threshold is not None and (threshold + 1) / 2 < target
    noise = 3 * np.sqrt(ERROR_PROBABILITY * (1 - ERROR_PROBABILITY) / draws)
    assert missed / draws <= ERROR_PROBABILITY + noise


@pytest.mark.parametrize(("rows", "target"), [(60, 0.9), (286, 0.95), (600, 0.8)])
def test_all_sets_together_share_one_error_probability(rows, target):
    generator, draws, confidence = np.random.default_rng(7), 1000, np.linspace(1, 0, rows)
    passed = sum(
        find_threshold(confidence, generator.random(rows) < target - 1e-5, target) is not None
        for _ in range(draws)
    )
    assert 0.07 < passed / draws < 0.12  # and nearly all of it is used


def test_errors_among_the_most_confident_rows_do_not_end_the_search():
    right = np.ones(1000, bool)
    right[:60:10] = False  # 6 wrong among the first 60, then none: 99.4 % in all
    assert find_threshold(np.linspace(1, 0, 1000), right, 0.95) == 0


def test_with_many_rows_nearly_the_largest_possible_share_is_automatic():
    generator = np.random.default_rng(3)
    found = [find_threshold(*draw(generator, 5000), 0.95) for _ in range(20)]
    assert np.median(found) == pytest.approx(0.9, abs=0.03)  # from 0.9 to 1, the mean is 0.95


@given(
    st.integers(0, 10_000),
    st.integers(0, 300),
    st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]),
    st.integers(1, 3),
)
def test_a_threshold_has_the_bound_of_clopper_and_pearson_above_the_target(
    seed, rows, target, decimals
):
    generator = np.random.default_rng(seed)
    confidence = np.round(generator.random(rows), decimals)  # many ties
    right = generator.random(rows) < confidence**0.05
    threshold = find_threshold(confidence, right, target)
    if threshold is None:
        return
    automatic = confidence >= threshold
    count, correct = automatic.sum(), right[automatic].sum()
    assert threshold in confidence
    assert count >= fewest_rows(target)
    assert beta.ppf(ERROR_PROBABILITY, correct, count - correct + 1) >= target - 1e-9


@pytest.mark.parametrize("target", [0.5, 0.8, 0.95, 0.99])
def test_the_fewest_sufficient_rows_suffice_and_one_fewer_does_not(target):
    rows = fewest_rows(target)
    assert find_threshold(np.ones(rows), np.ones(rows, bool), target) == 1.0
    assert find_threshold(np.ones(rows - 1), np.ones(rows - 1, bool), target) is None
