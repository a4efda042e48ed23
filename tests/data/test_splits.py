"""The validation split: stratified, aware of duplicates, stable."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.data.splits import duplicate_key, split_validation, stratified_part
from bertcnn.errors import SettingsError

TEXTS = st.text("abcAB 1.!é", max_size=6)
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from("xyz")), max_size=40)
FRACTIONS = st.floats(0.01, 0.9)


def many(count, label):
    words = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(count)]
    return [(f"{label} {word}", label) for word in words]


def split(rows, fraction):
    return split_validation([text for text, _ in rows], [label for _, label in rows], fraction)


@given(ROWS, st.floats(0, 0.9))
def test_every_row_is_on_exactly_one_side(rows, fraction):
    train, valid = split(rows, fraction)
    assert sorted([*train, *valid]) == list(range(len(rows)))
    assert train.dtype == valid.dtype == np.int64


@given(ROWS, FRACTIONS)
def test_a_group_of_duplicates_is_never_divided(rows, fraction):
    train, valid = ({duplicate_key(rows[row][0]) for row in side} for side in split(rows, fraction))
    assert not train & valid


@given(ROWS, FRACTIONS)
def test_labels_with_two_groups_are_on_both_sides_and_others_are_trained_on(rows, fraction):
    groups = {}
    for text, label in rows:
        groups.setdefault(duplicate_key(text), Counter())[label] += 1
    main = {
        key: min(counts, key=lambda label: (-counts[label], label))
        for key, counts in groups.items()
    }
    sides = [{duplicate_key(rows[row][0]) for row in side} for side in split(rows, fraction)]
    for label, count in Counter(main.values()).items():
        trained, held_out = ({key for key in side if main[key] == label} for side in sides)
        assert trained
        assert count >= 2 or not held_out
        if all(len(labels) == 1 for labels in groups.values()):
            assert bool(held_out) == (count >= 2)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=40), FRACTIONS)
def test_every_label_is_learned_even_if_its_rows_duplicate_another_labels(rows, fraction):
    train, _ = split(rows, fraction)
    assert {rows[row][1] for row in train} == {label for _, label in rows}


@given(ROWS, FRACTIONS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, fraction, random):
    shuffled = rows[:]
    random.shuffle(shuffled)
    found, again = (
        sorted(given[row] for row in split(given, fraction)[1]) for given in (rows, shuffled)
    )
    assert found == again


def test_the_split_is_the_same_on_every_run_and_machine():
    assert split(many(20, "x"), 0.2)[1].tolist() == [2, 8, 9, 11]


def test_labels_keep_their_shares():
    rows = many(1000, "x") + many(100, "y") + many(10, "z")
    _, valid = split(rows, 0.1)
    assert Counter(rows[row][1] for row in valid) == {"x": 100, "y": 10, "z": 1}


def test_rows_added_later_move_few_old_ones():
    old, new = many(1000, "x"), many(1100, "x")
    before = set(split(old, 0.2)[1].tolist())
    after = {row for row in split(new, 0.2)[1].tolist() if row < 1000}
    assert len(before ^ after) <= 30


def test_case_spaces_punctuation_and_digits_make_no_difference():
    assert duplicate_key("Ticket 4711:  NO\nsignal!!") == duplicate_key("ticket: no signal")
    assert duplicate_key("1234") != duplicate_key("5678")
    assert duplicate_key("no signal") != duplicate_key("now signal")


def test_a_fraction_of_nothing_trains_on_everything():
    train, valid = split(many(5, "x"), 0.0)
    assert (len(train), len(valid)) == (5, 0)


def test_impossible_fractions_and_lengths_are_refused():
    with pytest.raises(SettingsError, match=r"fraction was 1\.0; expected at least 0 and less"):
        split_validation(["a"], ["b"], 1.0)
    with pytest.raises(SettingsError, match="1 texts and 2 labels; expected one label for each"):
        split_validation(["a"], ["b", "c"], 0.5)


LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=200).map(
    lambda labels: np.unique(labels, return_inverse=True)[1]
)


@given(LABELS, st.integers(1, 220), st.integers(0, 9))
def test_a_part_has_an_equal_share_of_each_labels_rows_and_at_least_one(labels, most, seed):
    part = stratified_part(labels, most, np.random.default_rng(seed))
    assert part.dtype == np.int64
    assert np.all(np.diff(part) > 0)
    counts, taken = np.bincount(labels), np.bincount(labels[part], minlength=labels.max() + 1)
    if most >= len(labels):
        assert part.tolist() == list(range(len(labels)))
    else:
        assert np.all(taken >= 1)
        assert np.all(np.abs(taken - np.maximum(1, counts * most / len(labels))) <= 0.5 + 1e-9)


def test_a_part_is_chosen_by_chance_that_can_be_repeated():
    labels = np.repeat([0, 1], 500)
    part, again, other = (
        stratified_part(labels, 100, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(part, again)
    assert len(np.intersect1d(part, other)) < 30  # 10 are expected
    assert 400 < np.mean(part) < 600


def test_texts_that_differ_beyond_20_000_characters_are_duplicates():
    long = "no signal " * 2_000
    # normalising a whole text of combining marks takes minutes
    assert duplicate_key(long + "today") == duplicate_key(long + "since May")
    assert duplicate_key(long[:-20] + " today") != duplicate_key(long[:-20] + " since May")
