"""Packing: every item in a row, no row too full, hardly any padding."""

import time

import numpy as np
import pytest

from bertcnn.pretraining.packing import pack


@pytest.mark.parametrize(("capacity", "most"), [(128, 16), (512, 64), (32, 2), (8, 1)])
def test_no_row_holds_more_than_it_may(capacity, most):
    lengths = np.random.default_rng(0).integers(1, capacity + 1, 2000)
    rows = pack(lengths, capacity, most)
    assert np.bincount(rows, weights=lengths).max() <= capacity
    assert np.bincount(rows).max() <= most
    assert np.bincount(rows).min() >= 1


@pytest.mark.parametrize(("fewest", "longest"), [(15, 60), (3, 40), (60, 64)])
def test_short_documents_fill_at_least_95_percent(fewest, longest):
    lengths = np.random.default_rng(1).integers(fewest, longest + 1, 2000)
    rows = pack(lengths, 128, 64)
    assert lengths.sum() / (128 * (rows.max() + 1)) >= 0.95


def test_no_two_rows_could_be_one():
    lengths = np.random.default_rng(2).integers(1, 33, 300)
    filled = np.sort(np.bincount(pack(lengths, 32, 32), weights=lengths))
    assert filled[0] + filled[1] > 32


def test_nothing_needs_no_row():
    assert len(pack([], 128, 16)) == 0


def test_time_grows_with_the_number_of_items_only():
    lengths = np.random.default_rng(3).integers(15, 61, 40_000)
    started = time.perf_counter()
    pack(lengths, 128, 16)
    assert time.perf_counter() - started < 5
