"""The label column of a file as labels."""

import pytest

from bertcnn.data.label_cells import known_sets, read_label_column
from bertcnn.data.same_labels import KnownLabels

TEAMS = ["billing", "network", "sales"] * 4


@pytest.mark.parametrize("form", ['["{}"]', "[{}]"])  # other forms: test_list_cells.py
def test_lists_of_one_are_single_labels_with_a_remark(form):
    column = read_label_column([form.format(name) for name in TEAMS] + [""])
    assert (column.separator, column.single) == (None, [*TEAMS, ""])
    (remark,) = column.remarks
    assert remark.startswith("12 labels in brackets, lists of one: taken as single labels")


@pytest.mark.parametrize(
    ("asked", "separator", "first"), [("no", None, '["billing"]'), ("[]", "[]", "billing")]
)
def test_lists_of_one_follow_the_requested_separator(asked, separator, first):
    column = read_label_column(['["billing"]', '["network"]'], asked)
    assert (column.separator, column.sets[0]) == (separator, (first,))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("['billing']", "['network', 'billing']"),
        ("{billing}", "{network,billing}"),
        ("billing", '{"choices": ["network", "billing"]}'),
        ("[billing]", "[network, billing]"),
    ],
)
def test_lists_of_several_are_several_labels_in_every_programs_form(one, two):
    column = read_label_column([one, two] * 5)
    assert column.separator == "[]"
    assert column.sets == [("billing",), ("billing", "network")] * 5
    assert column.remarks[0].startswith("5 of 10 rows have several labels (lists)")


def test_each_label_gets_one_spelling_also_among_several():
    rows = ["billing; network ", "Network; billing", "network", "billing\u00a0"]
    column = read_label_column([*rows, "network; sales", "sales"] * 3)
    assert column.separator == ";"
    wanted = [("billing", "network"), ("Network", "billing"), ("network",), ("billing",)]
    assert column.sets[:4] == wanted


def test_a_file_is_read_in_the_spelling_of_a_model():
    known = KnownLabels(["7", "Lost card"])
    found = known_sets(["7.0", "Lost card ", '["Lost card"]', "new ", ""], None, known)
    assert found == [("7",), ("Lost card",), ("Lost card",), ("new",), ()]
    assert known_sets(["7.0; Lost\u00a0card", "x"], ";", known) == [("7", "Lost card"), ("x",)]
    assert known_sets(['["a"]'], None, KnownLabels(['["a"]', "b"])) == [('["a"]',)]
