"""The label column of a file as labels."""

import pytest

from bertcnn.data.label_cells import known_sets, read_label_column
from bertcnn.data.same_labels import KnownLabels

TEAMS = ["billing", "network", "sales"] * 4


@pytest.mark.parametrize(
    "form", ['["{}"]', "['{}']", "('{}',)", '{{"choices": ["{}"]}}', "{{{}}}", "[{}]"]
)
def test_lists_of_one_are_single_labels_and_it_is_told(form):
    column = read_label_column([form.format(name) for name in TEAMS] + [""])
    assert column.separator is None
    assert column.single == [*TEAMS, ""]
    assert column.remarks == (
        (
            "12 labels in brackets, lists of one: taken as single labels; --multi-label '[]' learns"
            " lists"
        ),
    )


@pytest.mark.parametrize("asked", ["no", "[]"])
def test_lists_of_one_are_what_is_asked_for(asked):
    column = read_label_column(['["billing"]', '["network"]'], asked)
    assert (column.separator, column.sets) == (
        (None, [('["billing"]',), ('["network"]',)])
        if asked == "no"
        else ("[]", [("billing",), ("network",)])
    )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('["billing"]', '["network", "billing"]'),
        ("['billing']", "['network', 'billing']"),
        ("['billing']", "['network' 'billing']"),
        ("('billing',)", "('network', 'billing')"),
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
    column = read_label_column(
        [
            "billing; network ",
            "Network; billing",
            "network",
            "billing\u00a0",
            "network; sales",
            "sales",
        ]
        * 3
    )
    assert column.separator == ";"
    assert column.sets[:4] == [
        ("billing", "network"),
        ("Network", "billing"),
        ("network",),
        ("billing",),
    ]


def test_a_file_is_read_in_the_spelling_of_a_model():
    known = KnownLabels(["7", "Lost card"])
    assert known_sets(["7.0", "Lost card ", '["Lost card"]', "new ", ""], None, known) == [
        ("7",),
        ("Lost card",),
        ("Lost card",),
        ("new",),
        (),
    ]
    assert known_sets(["7.0; Lost\u00a0card", "x"], ";", known) == [("7", "Lost card"), ("x",)]
    assert known_sets(['["a"]'], None, KnownLabels(['["a"]', "b"])) == [('["a"]',)]
