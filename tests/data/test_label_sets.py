"""Rows with several labels: detected, split, joined."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.data.label_sets import (
    LISTS,
    check_sets,
    choose_separator,
    indicators,
    is_set,
    join_labels,
    numbered,
    rarest,
    separator_for,
    split_cell,
)
from bertcnn.errors import LabelError, SettingsError

TEAMS = ("billing", "network", "sales", "claims", "fraud")


def combinations(separator, rows=120, several=0.3):
    chance = random.Random(1)
    return [
        separator.join(chance.sample(TEAMS, 2 if chance.random() < several else 1))
        for _ in range(rows)
    ]


@pytest.mark.parametrize("separator", [";", "|", "; ", " | "])
def test_combinations_are_found(separator):
    assert choose_separator(combinations(separator)) == separator.strip()


def test_lists_are_found_whatever_their_share_and_lists_of_one_are_single_labels():
    lists = [json.dumps([name]) for name in TEAMS]
    assert choose_separator([*lists, '["billing", "network"]']) == LISTS
    assert choose_separator(lists) is None
    assert choose_separator(lists, LISTS) == LISTS
    assert choose_separator(['["billing"]', "network"]) is None
    assert (
        choose_separator(['{"choices": ["billing", "network"]}'] * 2 + ["network"] * 90) == LISTS
    )  # one choice in a plain cell


@pytest.mark.parametrize(
    "cells",
    [
        list(TEAMS) * 9,
        combinations(","),  # too many names contain it for an automatic separator
        ["Loans; mortgages", "Cards; fees", "Transfers; abroad", "Other"]
        * 20,  # each part always has the same neighbour
        ["Money transfer; virtual currency", "Money transfer; cash", "Cards"]
        * 20,  # fewer cells than parts
        [f"{region}|{team}" for region in ("EU", "US", "APAC") for team in TEAMS]
        * 5,  # the levels of one label
        [*TEAMS * 50, "billing;network"],  # one row in 250 may be a typing error
        ["", " "],
    ],
)
def test_names_that_hold_a_separator_are_no_combinations(cells):
    assert choose_separator(cells) is None


def test_lists_among_cells_with_a_separator_do_not_hide_it():
    assert choose_separator(["a|b", "['a', 'b']", "a", "b"] * 5) == "|"
    assert split_cell("['a', 'b']", "|") == ("a", "b")


def test_what_is_asked_for_counts():
    assert choose_separator(combinations(","), ",") == ","
    assert choose_separator(combinations(";"), "no") is None
    with pytest.raises(
        SettingsError,
        match=(
            r"'/' between the labels of a row; expected a separator that stands in the label column"
        ),
    ):
        choose_separator(combinations(";"), "/")
    with pytest.raises(SettingsError, match="blank separator"):
        choose_separator(combinations(";"), " ")


@given(st.sets(st.sampled_from(TEAMS)), st.sampled_from([";", "|", ",", "\n", LISTS]))
def test_what_is_joined_is_parted_again(labels, separator):
    assert split_cell(join_labels(sorted(labels), separator), separator) == tuple(sorted(labels))


def test_collections_of_labels_are_checked():
    assert check_sets([["b", "a", "b"], {"c"}, (), [" a "]]) == [("a", "b"), ("c",), (), ("a",)]
    assert [is_set(label) for label in (["a"], ("a",), {"a"}, "a", b"a", 1, None)] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    for labels, wrong in (
        ([["a"], "b"], "number 2"),
        ([["a", 1]], "number 1"),
        ([["a"], None], "number 2"),
    ):
        with pytest.raises(LabelError, match=wrong):
            check_sets(labels)


def test_a_separator_is_one_that_no_label_holds():
    assert separator_for(["a", "b"]) == ";"
    assert separator_for(["a; b", "c"]) == "|"
    with pytest.raises(LabelError, match="occurs in no label"):
        separator_for([";|,\n", "a"])


def test_rows_are_divided_by_their_rarest_label():
    assert rarest([("a", "b"), ("a",), ("a", "c"), ("c",), ("c", "b"), ()]) == [
        "b",
        "a",
        "a",
        "c",
        "b",
        "",
    ]


def test_indicators_know_places_and_ignore_strangers():
    np.testing.assert_array_equal(
        indicators([("b", "x"), (), ("a", "b")], ["a", "b"]), [[0, 1], [0, 0], [1, 1]]
    )


def test_a_list_in_a_cell_is_a_list_whatever_parts_the_others():
    assert split_cell('["network", "billing"]', ";") == ("billing", "network")
    assert split_cell("billing", LISTS) == ("billing",)
    assert split_cell("[billing]; x", ";") == ("[billing]", "x")


def test_a_cell_of_brackets_alone_is_no_list():
    assert choose_separator(["[" * 100_000, "a", "b"]) is None


def test_labels_are_numbered_as_numpy_does():
    labels = ["zebra", "Ärger", "billing", "Billing", "zebra", "", "1"] * 3
    names, places = numbered(labels)
    wanted, inverse = np.unique(labels, return_inverse=True)
    assert (names, places.tolist()) == (wanted.tolist(), inverse.tolist())
    assert [array.tolist() for array in (numbered([])[1], numbered(["a\0", "a"])[1])] == [
        [],
        [1, 0],
    ]
