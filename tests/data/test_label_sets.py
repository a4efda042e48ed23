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
    choices = '{"choices": ["billing", "network"]}'  # one choice is in a plain cell
    assert choose_separator([choices] * 2 + ["network"] * 90) == LISTS


NO_COMBINATIONS = {
    "plain": list(TEAMS) * 9,
    "too many names hold it": combinations(","),
    "always the same neighbour": ["Loans; mortgages", "Cards; fees", "Transfers; abroad"] * 20,
    "fewer cells than parts": ["Transfer; virtual currency", "Transfer; cash", "Cards"] * 20,
    "levels": [f"{region}|{team}" for region in ("EU", "US", "APAC") for team in TEAMS] * 5,
    "a typing error": [*TEAMS * 50, "billing;network"],
    "blank": ["", " "],
    "brackets": ["[" * 100_000, "a", "b"],
}


@pytest.mark.parametrize("kind", NO_COMBINATIONS)
def test_names_with_a_separator_are_not_label_combinations(kind):
    assert choose_separator(NO_COMBINATIONS[kind]) is None


def test_lists_among_cells_with_a_separator_do_not_hide_it():
    assert choose_separator(["a|b", "['a', 'b']", "a", "b"] * 5) == "|"
    assert split_cell("['a', 'b']", "|") == ("a", "b")


def test_the_requested_separator_counts():
    assert choose_separator(combinations(","), ",") == ","
    assert choose_separator(combinations(";"), "no") is None
    with pytest.raises(SettingsError, match=r"'/' .*; expected a separator that stands in"):
        choose_separator(combinations(";"), "/")
    with pytest.raises(SettingsError, match="blank separator"):
        choose_separator(combinations(";"), " ")


@given(st.sets(st.sampled_from(TEAMS)), st.sampled_from([";", "|", ",", "\n", LISTS]))
def test_joined_labels_are_split_again(labels, separator):
    assert split_cell(join_labels(sorted(labels), separator), separator) == tuple(sorted(labels))


def test_collections_of_labels_are_checked():
    assert check_sets([["b", "a", "b"], {"c"}, (), [" a "]]) == [("a", "b"), ("c",), (), ("a",)]
    assert all(map(is_set, (["a"], ("a",), {"a"})))
    assert not any(map(is_set, ("a", b"a", 1, None)))
    for labels in ([["a"], "b"], [["a"], ["b", 1]], [["a"], None]):
        with pytest.raises(LabelError, match="number 2"):
            check_sets(labels)


def test_a_separator_is_one_that_no_label_holds():
    assert separator_for(["a", "b"]) == ";"
    assert separator_for(["a; b", "c"]) == "|"
    with pytest.raises(LabelError, match="occurs in no label"):
        separator_for([";|,\n", "a"])


def test_rows_are_divided_by_their_rarest_label():
    rows = [("a", "b"), ("a",), ("a", "c"), ("c",), ("c", "b"), ()]
    assert rarest(rows) == ["b", "a", "a", "c", "b", ""]


def test_indicators_know_places_and_ignore_strangers():
    np.testing.assert_array_equal(
        indicators([("b", "x"), (), ("a", "b")], ["a", "b"]), [[0, 1], [0, 0], [1, 1]]
    )


def test_a_list_in_a_cell_is_a_list_whatever_parts_the_others():
    assert split_cell('["network", "billing"]', ";") == ("billing", "network")
    assert split_cell("billing", LISTS) == ("billing",)
    assert split_cell("[billing]; x", ";") == ("[billing]", "x")


def test_labels_are_numbered_as_numpy_does():
    for labels in (["zebra", "Ärger", "billing", "Billing", "zebra", "", "1"] * 3, ["a\0", "a"]):
        names, places = numbered(labels)
        assert [names[place] for place in places] == labels
        assert names == sorted(set(labels))
    assert numbered([])[1].tolist() == []
