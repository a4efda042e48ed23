"""Prefetching: each item is made one step before its use."""

import gc
import threading

import pytest

from bertcnn.data.batches import prefetch


def test_the_next_item_is_made_while_this_one_is_in_use_and_no_other():
    made, begun = [], threading.Event()

    def items():
        for number in range(5):
            made.append(number)
            if number == 1:
                begun.set()
            yield number

    series = prefetch(items())
    assert next(series) == 0
    assert begun.wait(10)
    assert made == [0, 1]
    assert list(series) == [1, 2, 3, 4]


def test_an_error_comes_where_its_item_would_have_come():
    series = prefetch(10 // number for number in (5, 2, 0, 1))
    assert [next(series), next(series)] == [2, 5]
    with pytest.raises(ZeroDivisionError):
        next(series)


def test_a_series_ahead_of_another_ends_with_it():
    closed = []

    def items():
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    series = prefetch(number + 1 for number in prefetch(items()))
    assert [next(series), next(series)] == [1, 2]
    series.close()
    gc.collect()
    assert closed == [True]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
