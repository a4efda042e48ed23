"""Files of texts with spans: what is read, and what is rejected with its line."""

import csv
import json

import pytest

from bertcnn.errors import ColumnError, TableError
from bertcnn.tasks.token_labels.labelled_texts import LabelledText, Span, read_labelled_texts

TEXT = "Anna Kim paid 20 euros"
SPANS = (Span(0, 8, "NAME"), Span(14, 22, "AMOUNT"))
OBJECTS = [{"start": one.start, "end": one.end, "label": one.label} for one in SPANS]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_all_forms_give_the_same_texts(tmp_path):
    words = ["Anna/B-NAME", "Kim/I-NAME", "paid/O", "20/B-AMOUNT", "euros/I-AMOUNT"]
    conll = "-DOCSTART- -X- O\n\n" + "".join(
        f"{word} NN {tag}\n" for word, tag in (pair.split("/") for pair in words)
    )
    triples = [[one.start, one.end, one.label] for one in SPANS]
    files = [
        write(tmp_path / "a.conll", conll),
        write(tmp_path / "b.jsonl", json.dumps({"text": TEXT, "spans": OBJECTS})),
        write(tmp_path / "c.json", json.dumps([{"text": TEXT, "entities": triples}])),
    ]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "spans"), (TEXT, json.dumps(OBJECTS[::-1]))])
    for path in [*files, tmp_path / "d.csv"]:
        assert read_labelled_texts(path) == [LabelledText(TEXT, SPANS)], path


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([[0, 8, "A"], [5, 9, "B"]], "the spans 0:8 and 5:9 overlap"),
        ([[0, 99, "A"]], "is not within the text of 22 characters"),
        ([[3, 3, "A"]], "is not within the text"),
        ([[0, 4, " "]], "has no label"),
        ([[4, 5, "A"]], "has only spaces"),
        ([["x", 5, "A"]], "does not start and end with whole numbers"),
        ([[0, 5]], "its spans are no list of start, end and label"),
        ([{"start": 0, "end": 5}], "its spans are no list"),
    ],
)
def test_a_row_with_bad_spans_is_rejected_with_its_line(tmp_path, spans, reason):
    rows = [{"text": TEXT, "spans": OBJECTS}, {"text": TEXT, "spans": spans}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    texts = read_labelled_texts(path, rejects=tmp_path / "rejects.csv")
    assert texts == [LabelledText(TEXT, SPANS)]
    with (tmp_path / "rejects.csv").open(newline="") as file:
        (reject,) = csv.DictReader(file)
    assert reject["line"] == "2"
    assert reason in reject["reason"]

    with pytest.raises(TableError, match=r"1 text that cannot be used, the first at line 2: .*"):
        read_labelled_texts(path)


def test_a_sentence_with_a_bad_tag_is_rejected_with_its_line(tmp_path):
    path = write(tmp_path / "a.conll", "my O\nbill O\n\nAnna PER\n\nKim S-NAME\n")
    texts = read_labelled_texts(path, rejects=tmp_path / "rejects.csv")
    assert texts == [LabelledText("my bill"), LabelledText("Kim", (Span(0, 3, "NAME"),))]
    assert (tmp_path / "rejects.csv").read_text().splitlines()[1].startswith("4,")


def test_a_file_without_usable_rows_or_columns_is_refused(tmp_path):
    with pytest.raises(TableError, match="0 texts that can be used and 1 rejected"):
        read_labelled_texts(write(tmp_path / "a.conll", "Anna PER\n"))
    with pytest.raises(ColumnError, match="expected the columns 'text' and 'spans'"):
        read_labelled_texts(write(tmp_path / "a.csv", "text,label\nmy bill,x\n"))
