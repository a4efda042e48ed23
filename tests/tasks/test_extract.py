"""Fields extracted from a file of texts: answers, confidences and places in new columns."""

import csv

import pytest

from bertcnn.errors import ColumnError, SettingsError, TableError
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tables.tables import read_table
from bertcnn.tasks.question_answering.answerer import QuestionAnswerer, extract_csv
from tests.listener import Listener, interrupt
from tests.scoring.file_runs import names
from tests.tasks.small_answers import DEVICE, MONTH, save_answerer, small_texts

CHUNK, ROWS = 1024, 400
FIELDS = {"month": MONTH, "device": DEVICE}
OURS = [f"{name}{part}" for name in FIELDS for part in ("", "_confidence", "_place")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved question answerer; do not write to its folder."""
    return save_answerer(tmp_path_factory.mktemp("answerer") / "model")


@pytest.fixture(scope="module")
def answerer(folder):
    return QuestionAnswerer.load(folder)


def write_texts(path, texts):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(texts)])
    return path


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    """Texts, some of them blank; do not change the file."""
    texts = ["Größe 😀\n\nof the router", *small_texts(ROWS - 1)]
    texts[7::100] = [""] * len(texts[7::100])
    return write_texts(tmp_path_factory.mktemp("inbox") / "in.csv", texts)


@pytest.fixture(scope="module")
def whole(answerer, inbox, tmp_path_factory):
    """The file with extracted fields."""
    target = tmp_path_factory.mktemp("whole") / "out.csv"
    report = extract_csv(answerer, inbox, target, FIELDS)
    for name in FIELDS:
        assert report.answered[name] == sum(row[name] != "" for row in rows_of(target))
    return target


def test_the_confidence_does_not_depend_on_other_texts(answerer, whole):
    rows = [row for row in rows_of(whole)[:30] if row["text"]]
    for name, question in FIELDS.items():
        given = [float(row[f"{name}_confidence"]) for row in rows]
        alone = [answerer.answer(question, [row["text"]])[0].confidence for row in rows]
        assert given == pytest.approx(alone, abs=2e-6)


def test_a_place_cuts_the_answer_out_of_the_text(whole):
    found = [row for row in rows_of(whole) if row["month"]]
    assert len(found) > ROWS // 5
    for row in found:
        start, end = map(int, row["month_place"].split(":"))
        assert row["text"][start:end] == row["month"]


def test_cells_without_an_answer_or_a_text_are_empty(whole):
    without = [row for row in rows_of(whole) if not row["month"]]
    assert {row["month_place"] for row in without} == {""}
    for row in without:
        assert bool(row["month_confidence"]) == bool(row["text"])
    blank = [row for row in without if not row["text"]]
    assert len(blank) == len(range(7, ROWS, 100))
    assert {row[name] for row in blank for name in OURS} == {""}
    silent = [float(row["month_confidence"]) for row in without if row["text"]]
    assert 0 < min(silent) <= max(silent) <= 1


def test_equal_texts_get_equal_answers_in_all_chunks(answerer, tmp_path):
    repeated, others = small_texts(5, seed=1), small_texts(40)
    texts = [repeated[row % 5] if row % 2 else others[row // 2 % 40] for row in range(CHUNK + 100)]
    extract_csv(answerer, write_texts(tmp_path / "in.csv", texts), tmp_path / "out.csv", FIELDS)
    for text in repeated:
        same = [row for row in rows_of(tmp_path / "out.csv") if row["text"] == text]
        assert len(same) > CHUNK // 11
        for name in FIELDS:
            assert len({(row[name], row[f"{name}_place"]) for row in same}) == 1
            sure = [float(row[f"{name}_confidence"]) for row in same]
            assert max(sure) - min(sure) < 3e-6


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv.gz", "out.parquet", "out.xlsx"])
def test_every_format_holds_the_cells_of_the_csv_file(answerer, inbox, whole, tmp_path, name):
    extract_csv(answerer, inbox, tmp_path / name, FIELDS)
    first, other = read_table(whole), read_table(tmp_path / name)
    assert other.columns == first.columns == ("id", "text", *OURS)
    assert other.rows == first.rows


def test_two_fields_with_the_same_column_are_refused(answerer, inbox, tmp_path):
    for other in ("month_place", "month_confidence"):
        with pytest.raises(ColumnError, match=rf"a new column '{other}', which .* another field"):
            extract_csv(answerer, inbox, tmp_path / "out.csv", {"month": MONTH, other: DEVICE})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"no field; expected at least one\. What to do: give for example --field month="),
        ({"month": " "}, r"the field 'month' with the question ' '; expected a name and a ques"),
        ({" ": MONTH}, r"the field ' ' with the question 'which month"),
        ({"month": None}, r"the field 'month' with the question 'None'"),
        ({"month": "bill " * 70}, r"a question of 70 tokens .*; expected at most 64"),
    ],
    ids=["none", "blank question", "blank name", "no text", "long question"],
)
def test_fields_without_a_name_or_a_question_are_refused(
    answerer, inbox, tmp_path, fields, message
):
    with pytest.raises(SettingsError, match=message):
        extract_csv(answerer, inbox, tmp_path / "out.csv", fields)
    assert names(tmp_path) == []


def test_the_beginning_of_a_text_that_is_too_long_is_read(answerer, tmp_path):
    long = "bill " * 400
    with pytest.raises(TableError, match=r"a context of 400 tokens .*; expected at most 2 windows"):
        answerer.answer("which?", [long])
    source = write_texts(tmp_path / "in.csv", ["the router", long])
    report = extract_csv(answerer, source, tmp_path / "out.csv", FIELDS)
    assert report.rows == 2
    assert answerer.answer("which?", [long], cut=True) == answerer.answer(
        "which?", ["bill " * 600], cut=True
    )


def test_models_that_were_never_saved_have_different_ids(folder, tmp_path):
    answerers = [
        QuestionAnswerer.load(folder),
        QuestionAnswerer.load(save_answerer(tmp_path / "other", seed=1)),
    ]
    for one in answerers:
        object.__setattr__(one._saved, "identity", "")  # as `fit` leaves it
    first, other = (one.identity for one in answerers)
    assert first
    assert first != other


def test_a_journal_holds_no_text_of_the_input(answerer, tmp_path):
    some = small_texts(30)
    texts = [f"{some[row % 30]} password {row % 30}" for row in range(CHUNK + 9)]
    source = write_texts(tmp_path / "in.csv", texts)
    with pytest.raises(ScoringInterrupted):
        extract_csv(
            answerer,
            source,
            tmp_path / "out.csv",
            {"when": "since which day?"},
            progress=Listener(interrupt),
        )
    kept = (tmp_path / ".out.csv.journal").read_bytes()
    words = {word for text in texts for word in text.split() if len(word) > 4}
    assert {"router", "password", "internet"} <= words
    assert [word for word in words if word.encode() in kept] == []
