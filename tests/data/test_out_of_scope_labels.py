"""Labels for rows that belong to no other label."""

import pytest

from bertcnn.data.out_of_scope import find_labels
from bertcnn.errors import LabelError

OTHERS = ("billing", "wifi")


@pytest.mark.parametrize(
    "name", ["out of scope", "Out_Of_Scope", "OUT-OF-SCOPE", "oos", "Spam", "none of these", "Junk"]
)
def test_it_is_found_by_its_name_in_any_spelling(name):
    assert find_labels([*OTHERS, name]) == (name,)
    assert find_labels([*OTHERS, name], "no") == ()


@pytest.mark.parametrize("name", ["other", "scope", "spam complaints", "none", "misc"])
def test_other_names_are_labels_like_any_other(name):
    assert find_labels([*OTHERS, name]) == ()


def test_several_names_are_all_out_of_scope():
    assert find_labels([*OTHERS, "spam", "oos", "spam"]) == ("oos", "spam")


def test_where_only_one_other_label_is_left_it_is_a_label():
    assert find_labels(["spam", "no spam"]) == ()
    assert find_labels(["spam", "oos", "no spam"]) == ()


def test_a_requested_label_must_exist_beside_two_others():
    assert find_labels([*OTHERS, "misc"], "misc") == ("misc",)
    with pytest.raises(LabelError, match="no row has the out-of-scope label 'misc'; expected one"):
        find_labels([*OTHERS, "rest"], "misc")
    with pytest.raises(LabelError, match="1 labels beside 'misc'"):
        find_labels(["billing", "misc"], "misc")
