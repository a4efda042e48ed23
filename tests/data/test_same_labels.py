"""Labels that are spelled differently and mean the same."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.data.same_labels import (
    KnownLabels,
    clean_label,
    describe_spellings,
    label_key,
    one_spelling,
)

CAFE = "Café"


@pytest.mark.parametrize(
    "mark",
    [" ", "\ufeff", "\u00a0", "\u202f", " \t ", "\u200b", "\u00ad", "\u2060", "\u200d", "\n"],
)
def test_invisible_differences_make_no_other_label(mark):
    for other in (f"Lost card{mark}", f"{mark}Lost card", f"Lost{mark} card"):
        assert clean_label(other) == "Lost card"
        assert label_key(other) == label_key("Lost card")


def test_the_form_of_accents_makes_no_other_label_and_joiners_that_a_script_needs_stay():
    assert label_key(unicodedata.normalize("NFD", CAFE)) == label_key(CAFE) == CAFE
    assert label_key("می\u200cخواهم") != label_key("میخواهم")
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert label_key(family) == family
    assert label_key("\u2764\ufe0f") == label_key("\u2764")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("29682833.0", "29682833"),
        ("-7.00", "-7"),
        ("0.0", "0"),
        ("1e+16", "10000000000000000"),
        ("TRUE", "true"),
        ("FALSE", "false"),
        ("2024-01-05 00:00:00", "2024-01-05"),
        ("2024-01-05T00:00:00", "2024-01-05"),
        ("2024-01-05T00:00:00.000Z", "2024-01-05"),
        ("2024-01-05 00:00", "2024-01-05"),
        ("2024-01-05T10:30:00.500000", "2024-01-05 10:30:00.5"),
    ],
)
def test_a_value_is_the_same_label_in_every_format(one, other):
    assert label_key(one) == label_key(other) == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Billing", "billing"),
        ("1.10", "1.1"),
        ("007", "7"),
        ("1e5", "100000"),
        ("12E4", "120000"),
        ("tRUE", "true"),
        ("1", "true"),
        ("yes", "true"),
        ("2024-01-05 10:00:00", "2024-01-05"),
        ("2024-01-05 00:00:00+02:00", "2024-01-05"),
        ("v2.0", "v2"),
        ("٧", "7"),
        ("lost card", "lost_card"),
    ],
)
def test_other_differences_make_other_labels(one, other):
    assert label_key(one) != label_key(other)


def test_the_commonest_spelling_is_shown():
    assert one_spelling(["Lost card"] * 3 + ["Lost card "] * 2 + ["lost card"]) == {
        "Lost card ": "Lost card"
    }
    assert one_spelling(["\u2764\ufe0f"] * 3 + ["\u2764"]) == {"\u2764": "\u2764\ufe0f"}
    assert one_spelling(["True", "TRUE", "TRUE", "Blue"]) == {
        "True": "TRUE"
    }  # not a boolean column: false is missing


def test_values_are_spelled_alike_whatever_is_commonest():
    assert one_spelling(["7.0"] * 9 + ["8.0"]) == {"7.0": "7", "8.0": "8"}
    assert one_spelling(["True"] * 9 + ["False"]) == {"True": "true", "False": "false"}
    assert one_spelling(["2024-01-05T00:00:00", "2024-02-05 00:00:00"]) == {
        "2024-01-05T00:00:00": "2024-01-05",
        "2024-02-05 00:00:00": "2024-02-05",
    }


def test_versions_stay_as_they_are_unless_both_spellings_occur():
    assert one_spelling(["1.10", "1.1", "2.0", "2.5"]) == {}
    assert one_spelling(["1.10", "1.1", "2.0", "2.0", "2", "2.5"]) == {"2": "2.0"}


def test_labels_of_a_program_get_no_spelling_that_it_did_not_use():
    assert one_spelling(["7.0", "True", "False", " a "], values=False) == {}
    assert one_spelling(["7.0", "7", "7", " a ", " a ", "a"], values=False) == {
        "7.0": "7",
        "a": " a ",
    }


@given(st.lists(st.text(max_size=12).filter(lambda name: name.strip())))
def test_spelling_alike_twice_changes_nothing_more(names):
    spelled = one_spelling(names)
    once = [spelled.get(name, name) for name in names]
    assert one_spelling(once) == {}
    assert [label_key(name) for name in once] == [label_key(name) for name in names]


def test_merged_spellings_are_reported():
    names = ["7.0", "7", "8 ", "8"]
    assert describe_spellings(names, one_spelling(names)).endswith(
        "'7.0' 1x is '7'; '8 ' 1x is '8'"
    )
    assert describe_spellings(["a"], {}) == ""


def test_a_models_label_is_found_in_other_spellings():
    known = KnownLabels(["29682833", CAFE, "Billing"], {"rare": "Billing"})
    for name, label in (
        ("29682833.0", "29682833"),
        (unicodedata.normalize("NFD", CAFE), CAFE),
        ("Billing ", "Billing"),
        (" rare", "Billing"),
        ("billing", None),
    ):
        assert known.find(name) == label
    assert known.spelled(" new\u00a0one ") == "new one"
    # older models were trained with both as separate labels
    equivalent = KnownLabels(["a", "a "])
    assert [equivalent.find(name) for name in ("a", "a ")] == ["a", "a "]
    assert equivalent.find(" a") in ("a", "a ")
