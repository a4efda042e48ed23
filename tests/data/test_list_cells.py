"""Cells that hold a list."""

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.data.list_cells import bare_list_in_cell, list_in_cell

NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
)


@given(NAMES)
def test_json_and_python_lists_are_read_as_they_were_written(names):
    assert list_in_cell(json.dumps(names)) == names
    assert list_in_cell(json.dumps(names, ensure_ascii=False)) == names
    assert list_in_cell(json.dumps({"choices": names})) == names


@given(
    st.lists(
        st.sampled_from(
            ["a", "it's", 'say "x"', "a, b", "a\u00a0b", "ümlaut", "back\\slash", "[x]"]
        )
    )
)
def test_lists_printed_by_python_and_numpy_are_read(names):
    assert list_in_cell(str(names)) == names
    assert list_in_cell(str(tuple(names))) == names
    if names:
        assert list_in_cell(str(np.array(names))) == names


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("{'choices': ['a', 'b']}", ["a", "b"]),
        ('[{"name": "a"}, {"name": "b"}]', ["a", "b"]),
        ('[{"type": "choices", "value": {"choices": ["a", "b"]}}]', ["a", "b"]),
        ('["a", null]', ["a"]),
        ("['a', None, nan]", ["a"]),
        ('["None"]', ["None"]),
        ("[1, 2]", ["1", "2"]),
        ("[1 2]", ["1", "2"]),
        ("[true]", ["true"]),
        ("{'a'}", ["a"]),
        ("('a',)", ["a"]),
        ("['a' 'b']", ["a", "b"]),
        (" [ ] ", []),
        ("()", []),
        ("{}", []),
    ],
)
def test_lists_of_other_programs_are_read(cell, labels):
    assert list_in_cell(cell) == labels


NAMED = ["", "[", "a", "[URGENT] no signal", "(internal)", "(5)", "[a] and [b]", '{"a": 1}']
NAMED += ["{a: b}", "['a'", "[a, 'b']", '"a"', "7"]


@pytest.mark.parametrize("cell", NAMED)
def test_names_are_not_lists(cell):
    assert list_in_cell(cell) is None


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("{a,b}", ["a", "b"]),
        ('{"lost card",fees}', ["lost card", "fees"]),
        ("[a, b]", ["a", "b"]),
        ("{a,NULL}", ["a"]),
        ("(a, b)", None),
    ],
)
def test_lists_without_quotes_are_read_where_they_are_expected(cell, labels):
    assert bare_list_in_cell(cell) == labels
    assert list_in_cell(cell) is None


@pytest.mark.parametrize(
    "cell",
    [
        "[" * 100_000 + "]" * 100_000,
        "['" + "\\'" * 50_000 + "]",
        "[" + "'" * 99_999 + "]",
        '{"' + '\\"' * 50_000 + "}",
        "[" + "1 " * 50_000 + "x]",
    ],
)
def test_hostile_cells_take_no_time(cell):
    started = time.process_time()
    bare_list_in_cell(cell)
    assert time.process_time() - started < 5
