"""Column generation: as few rows as SciPy's linear programs find, from patterns that fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from bertcnn.data.cutting_stock import best_patterns
from bertcnn.data.packing import pack, pack_tightly

ITEMS = st.lists(st.integers(1, 14), min_size=1, max_size=60).map(np.array)


def all_patterns(capacity, most):
    """Every pattern: item counts by size."""
    found = []

    def go_on(pattern, room, largest):
        if any(pattern):
            found.append(list(pattern))
        if sum(pattern) < most:
            for size in range(1, min(room, largest) + 1):
                pattern[size] += 1
                go_on(pattern, room - size, size)
                pattern[size] -= 1

    go_on([0] * (capacity + 1), capacity, capacity)
    return np.array(found)


@settings(max_examples=60)
@given(lengths=ITEMS, most=st.integers(1, 4))
def test_the_rows_are_as_few_as_another_solver_finds(lengths, most):
    counts = np.bincount(lengths, minlength=15)
    patterns, rows = best_patterns(counts, 14, most)
    known = all_patterns(14, most)
    wanted = linprog(np.ones(len(known)), A_ub=-known.T, b_ub=-counts, method="highs").fun
    assert rows.sum() == pytest.approx(wanted, abs=1e-4)
    np.testing.assert_allclose(rows @ patterns, counts, atol=1e-6)
    assert rows.min() >= -1e-6
    assert (patterns @ np.arange(15)).max() <= 14
    assert patterns.sum(axis=1).max() <= most


@settings(max_examples=60)
@given(lengths=ITEMS, most=st.integers(1, 4))
def test_every_item_has_a_row_that_holds_it(lengths, most):
    rows = pack_tightly(lengths, 14, most)
    assert np.bincount(rows, lengths).max() <= 14
    assert np.bincount(rows).max() <= most
    assert np.bincount(rows).min() >= 1


@pytest.mark.parametrize(
    ("mean", "capacity", "of_them", "saved"),
    [(14, 32, 4, 0.005), (11.5, 32, 4, 0.02), (15, 64, 8, 0), (30, 64, 4, 0.005)],
)
def test_hardly_a_row_more_than_if_rows_could_be_cut(mean, capacity, of_them, saved):
    lengths = np.clip(
        np.random.default_rng(0).lognormal(np.log(mean), 0.45, 4096).astype(int), 4, capacity
    )
    _, cut = best_patterns(np.bincount(lengths, minlength=capacity + 1), capacity, of_them)
    rows, by_best_fit = (
        pack_tightly(lengths, capacity, of_them).max() + 1,
        pack(lengths, capacity, of_them).max() + 1,
    )
    assert cut.sum() - 1e-3 <= rows <= cut.sum() + 3
    assert rows <= (1 - saved) * by_best_fit


def test_the_same_lengths_are_packed_in_the_same_way():
    lengths = np.random.default_rng(1).integers(4, 30, 3000)
    np.testing.assert_array_equal(pack_tightly(lengths, 32, 4), pack_tightly(lengths.copy(), 32, 4))
