"""Rows divided for choosing: enough of them, duplicates together, every label learned."""

import tracemalloc

import numpy as np
import pytest

from bertcnn.data.splits import split_validation
from bertcnn.errors import LabelError
from bertcnn.workflows.folds import DividedRows, divide


def rows(count):
    """Texts that differ in letters, of two labels."""
    letters = "abcdefghij"
    texts = ["".join(letters[int(digit)] for digit in f"{row:05}") for row in range(count)]
    return texts, ["even" if row % 2 else "odd" for row in range(count)]


@pytest.mark.parametrize(
    ("count", "folds", "least"),
    [(100, 5, 100), (1200, 5, 1200), (2500, 2, 900), (6000, 1, 950), (12000, 1, 1150)],
)
def test_the_fewer_rows_there_are_the_more_folds(count, folds, least):
    parts = divide(*rows(count))
    assert len(parts) == folds
    assert sum(len(valid) for _, valid in parts) >= least
    for train, valid in parts:
        assert sorted([*train, *valid]) == list(range(count))


def test_many_rows_are_divided_as_in_training():
    texts, labels = rows(11000)
    assert all(
        np.array_equal(*both)
        for both in zip(divide(texts, labels)[0], split_validation(texts, labels, 0.1), strict=True)
    )


def test_duplicates_stay_together_and_every_label_is_learned():
    texts, labels = rows(60)
    texts += ["Only one!", "only ONE", "dup a", "Dup A"]
    labels += ["lonely", "lonely", "odd", "odd"]
    for train, valid in divide(texts, labels):
        assert {labels[row] for row in train} == {"even", "odd", "lonely"}
        assert not {60, 61} & set(valid.tolist())
        assert len({62, 63} & set(valid.tolist())) in (0, 2)


def test_rows_of_which_none_can_be_held_out_are_refused():
    with pytest.raises(LabelError, match="none can be held out"):
        divide(["a 1", "a 2", "b 1", "b 2"], ["a", "a", "b", "b"])
    alerts = [f"{'disk' if row % 2 else 'login'} {row} failed" for row in range(6000)]
    with pytest.raises(LabelError, match="6000 rows of which none can be held out"):
        divide(alerts, [text.split()[0] for text in alerts])


def test_one_long_text_costs_the_others_nothing():
    texts, labels = rows(1000)
    longest = "x" * 100_000
    tracemalloc.start()
    parts = divide([*texts, longest], [*labels, longest])
    divided = DividedRows([*texts, longest], [*labels, "odd"], parts)
    assert len(divided.groups()) == len(divided.validated)
    # bytes; it was 400 MB where each row took as much as the longest
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
