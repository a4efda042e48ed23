"""Files that are not tables get an error naming their type; tables that quote such files do not."""

import gzip

import pytest

from bertcnn.errors import TableError
from bertcnn.tables.not_tables import recognized
from bertcnn.tables.tables import open_table, read_table
from tests.tables.test_tables import save

OTHERS = [
    (
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "a pointer of Git LFS.*git lfs pull",
    ),
    (
        "\n<!-- proxy -->\n<!doctype HTML>\n<html><body>Sign in, please</body></html>\n",
        "a web page",
    ),
    ('<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "XML"),
]


@pytest.mark.parametrize(("content", "kind"), OTHERS)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.csv.gz"])
def test_files_that_are_not_tables_are_named_by_type(tmp_path, content, kind, name):
    data = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
    with pytest.raises(TableError, match=kind):
        open_table(save(tmp_path, data, name))


JSON_ERRORS = [
    '{"error": {"code": 403, "message": "quota exceeded"}}',
    '{"message": "Not Found", "documentation_url": "https://example.com", "status": "404"}',
    '{\n  "success": false,\n  "message": "session is over"\n}\n',
    '{"errors": [{"detail": "no such table"}]}',
]


@pytest.mark.parametrize("content", JSON_ERRORS)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.json"])
def test_a_json_error_is_named(tmp_path, content, name):
    with pytest.raises(TableError, match=r"is an error message \(JSON"):
        open_table(save(tmp_path, content, name))


def test_json_under_the_name_of_a_csv_file_is_named(tmp_path):
    for content in ('[\n {"text": "a, b"}\n]', '{"text": "a"}\n{"text": "b"}\n'):
        with pytest.raises(TableError, match=r"is JSON; .* name the file \.json or \.jsonl"):
            open_table(save(tmp_path, content))


TABLES = [
    (
        "text,label\n<html><body>404 page not found</body></html>,web\nTraceback (most recent call"
        " last):,python\n"
    ),
    "Error,Count\nnot found,7\n",
    "error\nnot found\n",
    "From,To,Subject\na@example.com,b@example.com,Router\n",
    "version,text\n1,version https://git-lfs.github.com/spec/v1\n",
    "text\nINSERT INTO t VALUES (1);\n<Error><Code>AccessDenied</Code></Error>\n",
    "#,text\n1,a\n",
]


@pytest.mark.parametrize("content", TABLES)
def test_tables_that_quote_such_things_are_read(tmp_path, content):
    assert len(read_table(save(tmp_path, content))) == content.count("\n") - 1


def test_rows_of_json_that_speak_of_errors_are_read(tmp_path):
    for line in (
        '{"message": "my router is dead", "label": "net"}',
        '{"text": "it says error 404", "status": 404}',
        '{"text": "a b", "error": null}',
    ):
        assert len(read_table(save(tmp_path, line + "\n", "in.jsonl"))) == 1
    path = save(tmp_path, '{"text": "my router is dead", "error": "E42"}\n', "in.jsonl")
    with open_table(path, expected_columns=["Text"]) as reader:
        assert len(next(reader.chunks())) == 1


LONG = [
    "\n" * 16_000,
    "<!-- --> " * 1_700,
    "-- a\n" * 3_000,
    ":" * 16_000,
    "<a b=c>" * 2_000,
    "a.b" * 5_000,
    " \n" * 8_000,
    "/a" * 8_000,
]


@pytest.mark.parametrize("text", LONG)
def test_every_start_of_a_file_is_read_to_its_end(text):
    # a pattern that tries all ways to divide a text would never end
    assert recognized(text + "x") is None
