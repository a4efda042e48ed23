"""Documents from text files and tables, and files without documents."""

import gzip
import json
import time

import pytest

from bertcnn.errors import ColumnError, TableError
from bertcnn.pretraining.documents import DocumentFiles, split_sentences


def read(*paths, columns=None):
    """Documents as lists of sentences."""
    documents, current = [], []
    for piece in DocumentFiles(paths, columns).sentences():
        current += piece
        if not piece:
            documents.append(current)
            current = []
    assert not current
    return documents


def test_blank_lines_separate_documents(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(
        "\n\nNo signal. Since Monday!\nplease help\n \n\t\n\nsecond one\n", encoding="utf-8"
    )
    assert read(path) == [["No signal.", "Since Monday!", "please help"], ["second one"]]


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0b", "\x0c"])
def test_other_line_separators_stay_in_their_sentence(sign):
    assert split_sentences(f"no{sign}signal\r\nsince monday") == [f"no{sign}signal", "since monday"]


def test_undecodable_lines_are_counted_and_left_out(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes(
        "café one.\ncafé two.\n".encode() + b"caf\xe9 broken.\n" + "\nthé three.\n".encode()
    )
    files = DocumentFiles([path])
    assert [piece for piece in files.sentences() if piece] == [
        ["café one."],
        ["café two."],
        ["thé three."],
    ]
    assert files.unread["undecodable_lines"] == 1


@pytest.mark.parametrize("newline", ["\r\n", "\r"], ids=["windows", "old_mac"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_line_ends_and_encodings_are_detected(tmp_path, newline, encoding):
    path = tmp_path / "texts.txt"
    lines = ["Störung in Köln.", "Geht nicht für mich.", "", "Grüße, überall schön."]
    path.write_bytes(newline.join(lines).encode(encoding))
    assert read(path) == [lines[:2], lines[3:]]


def test_a_gzipped_text_file_is_read(tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(b"one.\n\ntwo."))
    assert read(path) == [["one."], ["two."]]


def test_rows_of_tables_are_documents(tmp_path):
    table, lines = tmp_path / "tickets.csv", tmp_path / "tickets.jsonl"
    table.write_text(
        'subject,text\nwifi,"No signal. Help!"\n,""\nbill,charged twice\n', encoding="utf-8"
    )
    lines.write_text(
        "\n".join(json.dumps({"text": text}) for text in ("one. two.", "three")), encoding="utf-8"
    )
    assert read(table, columns="text") == [["No signal.", "Help!"], [], ["charged twice"]]
    both = read(table, columns=["subject", "text"])
    assert both == [["wifi", "No signal.", "Help!"], [], ["bill", "charged twice"]]
    assert read(lines) == [["one.", "two."], ["three"]]
    assert read(lines, lines) == read(lines) * 2


def test_rows_that_cannot_be_read_are_counted(tmp_path):
    path = tmp_path / "tickets.jsonl"
    path.write_text('{"text": "one"}\n{broken\n', encoding="utf-8")
    files = DocumentFiles([path])
    assert list(files.sentences()) == [["one"], []]
    assert files.unread["rejected"] == 1


def test_a_column_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "tickets.csv"
    path.write_text("text\none\n", encoding="utf-8")
    with pytest.raises(ColumnError, match="there is no column 'body'"):
        read(path, columns="body")


BINARY = bytes(range(256)) * 64


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("texts.txt", b"", "' is empty; expected documents with blank lines between them"),
        ("texts.txt", BINARY, "' is not text: it holds binary data; expected a text file"),
        (
            "texts.txt",
            b"\x89PNG\r\n\x1a\n" + b"x" * 99,
            "' is not text: it seems to be a PNG image",
        ),
        ("tickets.csv", BINARY, "tickets.csv' is not text: it holds binary data"),
        ("texts.docx", b"PK", r"' has the extension .docx; expected a text file \(.txt"),
    ],
    ids=["empty", "binary", "picture", "binary_table", "unknown"],
)
def test_a_file_without_text_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=message):
        read(path)


def test_no_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"there is no file .*lost.txt'"):
        DocumentFiles([tmp_path / "lost.txt"])
    with pytest.raises(TableError, match=r"is a folder; expected one file"):
        DocumentFiles([tmp_path])
    with pytest.raises(TableError, match="no text file was given"):
        DocumentFiles([])


@pytest.mark.parametrize(
    "part",
    [".", "!?", '.")', "a.", "。」", " "],
    ids=["dots", "marks", "closed", "words", "wide", "spaces"],
)
def test_splitting_takes_linear_time(part):
    started = time.perf_counter()
    split_sentences(part * 500_000)
    assert time.perf_counter() - started < 5


def test_sentences_end_at_punctuation_before_white_space():
    sentences = ['He said "No."', "Then v2.1 came...", "Why?!", "没有。", "信号"]
    assert split_sentences('He said "No." Then v2.1 came... Why?! 没有。信号') == sentences
