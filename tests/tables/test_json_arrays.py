"""JSON that is not JSON Lines: lists, lists in objects, objects over several lines."""

import gzip
import json
import tracemalloc

import pytest

from bertcnn.errors import TableError
from bertcnn.tables.lines import LONGEST_LINE
from bertcnn.tables.tables import open_table, read_table
from tests.tables.test_tables import read, save

ROWS = [
    {"id": row, "text": f'say "hi" [{row}] {{}}, \\ é', "meta": {"tags": ["a", {"b": 1}]}}
    for row in range(7)
]
FORMS = {
    "indented": json.dumps(ROWS, indent=2),
    "one line": json.dumps(ROWS),
    "a row a line": "[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n",
    "data": json.dumps({"count": 7, "next": None, "data": ROWS}),
    "results, indented": json.dumps(
        {"status": "ok", "results": ROWS, "links": [{"href": "x"}]}, indent=1
    ),
    "hits in hits": json.dumps({"took": 3, "hits": {"total": {"value": 7}, "hits": ROWS}}),
    "rows in columns": json.dumps({"tickets": ROWS}, indent=0),
    "unindented": '{"data": [\n' + ",\n".join(map(json.dumps, ROWS)) + "\n]}\n",
    "objects": "\n".join(json.dumps(row, indent=2) for row in ROWS),
    "pages": json.dumps(ROWS[:3]) + "\n" + json.dumps(ROWS[3:]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["in.json", "in.jsonl", "in.json.gz"])
def test_lists_of_objects_are_read_like_lines(tmp_path, form, name):
    content = ("\ufeff" + FORMS[form]).encode()
    path = save(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    rows, lines, refused = read(path)
    as_lines = save(tmp_path, "".join(json.dumps(row) + "\n" for row in ROWS), "lines.jsonl")
    assert (rows, refused) == (read(as_lines)[0], {})
    assert lines == sorted(lines)


def test_rows_have_the_line_they_start_at(tmp_path):
    content = '[\n  {\n    "a": 1\n  },\n  {"a": 2}, {"a": 3}\n]'
    assert read(save(tmp_path, content, "in.json"))[1] == [2, 5, 5]


def test_a_list_item_that_is_not_an_object_is_rejected_alone(tmp_path):
    content = (
        '[\n{"a": 1},\nnull,\n{"a": bad},\n{"a" 2},\n[1, {"a": 2}],\n{"a": "open\n},\n{"a":'
        ' 3},\n{"a": 4'
    )
    rows, lines, refused = read(save(tmp_path, content, "in.json"))
    assert (rows, lines) == ([("1",), ("3",)], [2, 9])
    assert sorted(refused) == [3, 4, 5, 6, 7, 10]


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_rows_are_the_same_wherever_blocks_end(tmp_path, monkeypatch, cut):
    monkeypatch.setattr("bertcnn.tables.lines._BLOCK", cut)
    assert [row["text"] for row in ROWS] == [
        row[1] for row in read(save(tmp_path, FORMS["indented"], "in.json"))[0]
    ]


def test_a_list_on_one_line_of_any_length_is_read_in_constant_memory(tmp_path):
    path = save(
        tmp_path,
        "[" + ",".join(json.dumps({"text": "x" * 4000}) for _ in range(6000)) + "]",
        "in.json",
    )
    assert path.stat().st_size > 5 * LONGEST_LINE
    tracemalloc.start()
    with open_table(path) as reader:
        assert sum(len(chunk) for chunk in reader.chunks(100)) == 6000
    assert tracemalloc.get_traced_memory()[1] < path.stat().st_size
    tracemalloc.stop()


def test_lines_with_lists_in_them_and_a_broken_first_line_stay_lines(tmp_path):
    lines = '{"text": "bro\n{"text": "a", "data": [{"x": 1}]}\n{"text": "b"}\n'
    rows, _, refused = read(save(tmp_path, lines, "in.jsonl"))
    assert (len(rows), list(refused)) == (2, [1])
    only = '{"text": "a row of its own with a list", "notes": [{"x": 1}, {"x": 2}]}\n'
    assert len(read_table(save(tmp_path, only, "in.jsonl"))) == 1


def test_several_lists_and_column_wise_json_are_refused(tmp_path):
    with pytest.raises(TableError, match="holds several lists: 'open', 'closed'"):
        open_table(save(tmp_path, json.dumps({"open": ROWS, "closed": ROWS}), "in.json"))
    for content in (
        {"text": {"0": "a", "1": "b"}, "id": {"0": 1, "1": 2}},
        {"text": ["a", "b"], "id": [1, 2]},
    ):
        with pytest.raises(TableError, match="is JSON column by column"):
            open_table(save(tmp_path, json.dumps(content), "in.json"))


def test_deep_nesting_ends_in_one_line(tmp_path):
    for content in ('{"a":' * 200_000, "[" * 200_000, '[{"a":' + "[" * 200_000):
        with pytest.raises(TableError):
            read_table(save(tmp_path, content, "in.json"))
