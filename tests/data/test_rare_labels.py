"""Rare labels are merged, and nothing is dropped."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.data.rare_labels import merge_rare
from bertcnn.errors import LabelError


def test_rare_labels_become_one():
    merged = merge_rare(["a"] * 5 + ["b", "", "c", "c", "a"], 3)
    assert merged.labels == ["a"] * 5 + ["other", "", "other", "other", "a"]
    told = "2 rare labels, 3 rows, merged: 'c (2) into other, b (1) into other'"
    assert merged.describe() == told
    one = merge_rare(["a"] * 5 + ["b"] + ["other"] * 5, 3)
    assert one.describe() == "1 rare label, 1 row, merged: 'b (1) into other'"


def test_a_rare_child_goes_to_its_parent_and_a_rare_parent_to_its_own():
    labels = (
        ["a > b > c"] * 2 + ["a > b > d"] * 2 + ["a > e", "a", "f > g", "f > h", "h"] + ["x"] * 9
    )
    merged = merge_rare(labels, 4, into="rest")
    assert merged.merged == dict.fromkeys(["a > b > c", "a > b > d"], "a > b") | dict.fromkeys(
        ["a > e", "a", "f > g", "f > h", "h"], "rest"
    )
    assert Counter(merged.labels) == {"x": 9, "rest": 5, "a > b": 4}


def test_a_label_that_is_named_other_already_takes_them_in():
    assert Counter(merge_rare(["other"] * 3 + ["x"] + ["y"] * 4, 2).labels) == {"other": 4, "y": 4}


def test_rare_labels_that_are_too_few_even_together_are_reported():
    with pytest.raises(LabelError, match=r"2 rows of all .* together \('b, c'\); .* at least 5"):
        merge_rare(["a"] * 9 + ["b", "c"], 5)


@given(
    st.lists(
        st.sampled_from(["a", "a > b", "a > b > c", "a > d", "e", "e > f", "other", " ", ""]),
        max_size=40,
    ),
    st.integers(1, 6),
)
def test_every_label_left_has_its_rows_and_parents_are_really_parents(labels, fewest):
    try:
        merged = merge_rare(labels, fewest)
    except LabelError:
        return
    assert len(merged.labels) == len(labels)
    counts = Counter(name for name in merged.labels if name.strip())
    assert all(count >= fewest for count in counts.values())
    for before, after in zip(labels, merged.labels, strict=True):
        assert after == before or after == "other" or before.startswith(f"{after} > ")
