"""Questions about texts: reading, refusals, splitting, and the questions in data/."""

import csv
import json
from pathlib import Path

import pytest

from bertcnn.errors import BertCNNError, ColumnError, TableError
from bertcnn.tasks.question_answering.questions import (
    Question,
    read_questions,
    split_by_context,
)
from tests.listener import Listener

DATA = Path(__file__).resolve().parents[2] / "data"
CONTEXT = "The red lamp blinks. The router is red."
WHICH = "Which lamp blinks?"


def squad(*entries, context=CONTEXT):
    return {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(entries)}]}]}


def answer(text, start):
    return {"text": text, "answer_start": start}


def write_json(tmp_path, value):
    path = tmp_path / "squad.JSON"
    path.write_text("\ufeff" + json.dumps(value), encoding="utf-8")
    return path


def write_jsonl(tmp_path, *rows):
    path = tmp_path / "questions.jsonl"
    path.write_text("\ufeff" + "\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def row(**changes):
    whole = {"question": WHICH, "context": CONTEXT, "answer": "red", "start": 4}
    return {name: cell for name, cell in (whole | changes).items() if cell is not None}


def test_squad_1_is_read_with_several_answers(tmp_path):
    entry = {"id": "a1", "question": WHICH, "answers": [answer("red", 4), answer("red lamp", 4)]}
    other = {"id": 7, "question": "What colour is the router?", "answers": [answer("red", 35)]}
    assert read_questions(write_json(tmp_path, squad(entry, other))) == [
        Question(WHICH, CONTEXT, ("red", "red lamp"), (4, 4), "a1"),
        Question("What colour is the router?", CONTEXT, ("red",), (35,), "7"),
    ]


def test_squad_2_is_read_without_its_plausible_answers(tmp_path):
    impossible = {"question": "Who?", "is_impossible": True, "plausible_answers": [answer("x", 9)]}
    known = {"question": WHICH, "answers": [answer("red", 4)], "is_impossible": False, "id": "b"}
    empty = {"question": "When?", "answers": [], "id": "c"}
    blank = {"question": "Why?", "answers": [answer("", -1)], "is_impossible": True}
    value = squad(impossible, known, empty, blank)
    value["data"] += squad({"question": "A?", "answers": [answer("b", 1)]}, context="ab")["data"]
    found = read_questions(write_json(tmp_path, value))
    assert [question.answers for question in found] == [(), ("red",), (), (), ("b",)]
    assert [question.answerable for question in found] == [False, True, False, False, True]
    assert [question.identity for question in found] == ["", "b", "c", "", ""]
    assert found[-1].context == "ab"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"question": WHICH, "answers": [answer("lamp", 4)]},
            r"not at its start 4; found there: 'red ",
        ),
        ({"question": WHICH, "answers": [answer("red", True)]}, r"its start is 'True'"),
        ({"question": WHICH, "answers": [answer("red", 4.5)]}, r"its start is '4.5'"),
        ({"question": " ", "answers": []}, r"its question is ' '"),
        ({"answers": []}, r"not in the form of SQuAD \(KeyError: 'question'"),
        ({"question": WHICH}, r"not in the form of SQuAD \(KeyError: 'answers'\)"),
        (
            {"question": WHICH, "answers": [{"text": "red"}]},
            r"not in the form of SQuAD \(KeyError: 'answer_start'",
        ),
        ({"question": WHICH, "answers": [answer(5, 4)]}, r"its answer is '?5"),
        ({"question": WHICH, "answers": None}, r"not in the form of SQuAD \(TypeError"),
        ("Which?", r"not in the form of SQuAD \(AttributeError"),
        (
            {"question": WHICH, "answers": [], "is_impossible": False},
            r"it has is_impossible False and 0 answers",
        ),
        (
            {"question": WHICH, "answers": [answer("red", 4)], "is_impossible": True},
            r"it has is_impossible True and 1 answers",
        ),
    ],
)
def test_a_wrong_question_of_squad_is_refused_with_its_number(tmp_path, entry, message):
    first = {"question": WHICH, "answers": [answer("red", 4)]}
    with pytest.raises(
        TableError,
        match=rf"squad.JSON .* cannot be used, the first at question 2: .*{message}",
    ):
        read_questions(write_json(tmp_path, squad(first, entry)))


@pytest.mark.parametrize("value", [[], [1], {"data": [{}]}, {"data": "text"}, {"data": 3}, "text"])
def test_json_of_another_form_is_refused(tmp_path, value):
    with pytest.raises(TableError, match=r"squad.JSON cannot be read .* in the form of SQuAD"):
        read_questions(write_json(tmp_path, value))


def test_json_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "broken.json").write_text('{"data": ')
    (tmp_path / "latin.json").write_bytes('{"data": "é"}'.encode("latin-1"))
    (tmp_path / "deep.json").write_text("[" * 200_000)
    for name in ("broken.json", "latin.json", "deep.json", "missing.json"):
        with pytest.raises(TableError, match=rf"{name} cannot be read .* form of SQuAD"):
            read_questions(tmp_path / name)


@pytest.mark.parametrize("start", [4, 4.0, "4", "4.0"])
def test_a_start_is_a_whole_number_in_any_spelling(tmp_path, start):
    expected = [Question(WHICH, CONTEXT, ("red",), (4,))]
    assert read_questions(write_jsonl(tmp_path, row(start=start))) == expected
    entry = {"question": WHICH, "answers": [answer("red", start)]}
    assert read_questions(write_json(tmp_path, squad(entry))) == expected


def test_json_lines_are_read(tmp_path):
    rows = [
        row(ticket_id="T-1", label="hardware"),
        row(question="When?", answer="", start=-1, ticket_id="T-1"),
        row(question="Who?", answer=None, start=None),
        row(context="a\r\n ä 😀 red ", start=8, ticket_id="T-2"),
    ]
    assert read_questions(str(write_jsonl(tmp_path, *rows))) == [
        Question(WHICH, CONTEXT, ("red",), (4,), "T-1"),
        Question("When?", CONTEXT, (), (), "T-1"),
        Question("Who?", CONTEXT, (), ()),
        Question(WHICH, "a\r\n ä 😀 red ", ("red",), (8,), "T-2"),
    ]


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("b.csv", ";"), ("c.tsv", "\t")])
def test_csv_is_read(tmp_path, name, delimiter):
    path = tmp_path / name
    context = ' He said: "red,\nred; lamp"\t=1 '
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["ID", "Question", "label", "Context", "Answer", "Start"])
        writer.writerow(["q1", WHICH, "x", context, "red", 16])
        writer.writerow(["q2", WHICH, "x", context, "lamp", ""])
        writer.writerow(["q3", WHICH, "x", context, "", ""])
    assert read_questions(path) == [
        Question(WHICH, context, ("red",), (16,), "q1"),
        Question(WHICH, context, ("lamp",), (21,), "q2"),
        Question(WHICH, context, (), (), "q3"),
    ]


def test_without_a_start_the_answer_must_occur_exactly_once(tmp_path):
    found = read_questions(write_jsonl(tmp_path, row(answer="lamp", start=None)))
    assert (found[0].answers, found[0].starts) == (("lamp",), (8,))
    for wrong, message in (("red", "occurs more than once in"), ("blue", "is not in")):
        path = write_jsonl(tmp_path, row(), row(answer=wrong, start=None))
        with pytest.raises(
            TableError, match=rf"at line 2: its answer '{wrong}' has no start and {message} its"
        ):
            read_questions(path)
    with pytest.raises(TableError, match="more than once"):  # the occurrences overlap
        read_questions(write_jsonl(tmp_path, row(context="aaa", answer="aa", start=None)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": "lamp"}, r"its answer 'lamp' is not at its start 4; found there: 'red '"),
        ({"start": 5}, r"its answer 'red' .* 5; found there: 'ed '; expected only valid rows"),
        ({"start": -1}, r"its answer 'red' is not at its start -1; found there: ''"),
        ({"answer": "Red"}, r"its answer 'Red' is not at its start 4; found there: 'red'"),
        ({"start": "4th"}, r"its start is '4th', no whole number"),
        ({"start": "9" * 5000}, r"its start is '9999"),
        ({"start": "x", "answer": ""}, r"its start is 'x'"),
        ({"question": ""}, r"its question is empty"),
        ({"question": "\u200b"}, r"its question is "),
        ({"context": ""}, r"its context is empty"),
        ({"context": None}, r"its context is empty"),
    ],
)
def test_a_wrong_row_is_refused_with_its_number(tmp_path, changes, message):
    path = write_jsonl(tmp_path, row(), row(), row(**changes), row())
    with pytest.raises(TableError, match=rf"questions.jsonl .* at line 3: {message}") as caught:
        read_questions(path)
    assert "\n" not in str(caught.value)


def test_rejected_rows_go_to_a_file_with_line_and_reason(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('question,context,answer\nq,"a\nb\nc",b\n\nq,a b,c\nr,a b,a\ns,a b,b,c\n')
    rejects, notes = tmp_path / "rejects.csv", Listener()
    found = read_questions(path, rejects=rejects, progress=notes)
    assert [question.question for question in found] == ["q", "r"]
    with rejects.open(newline="") as file:
        rows = [(one["line"], one["reason"]) for one in csv.DictReader(file)]
    assert rows == [
        ("8", "4 cells where the header has 3"),
        ("6", "its answer 'c' has no start and is not in its context"),
    ]
    first = "2 questions rejected, the first at line 8: 4 cells where the header has 3"
    assert notes.notes == [f"{first}; they and the reasons are in {rejects}"]
    assert read_questions(path, progress=notes) == found
    assert notes.notes[-1] == first


def test_rejected_questions_of_squad_go_to_a_file_with_their_number(tmp_path):
    good = {"question": WHICH, "answers": [answer("red", 4)]}
    wrong = {"question": WHICH, "answers": [answer("red", 4), answer("Red", 4)]}
    rejects = tmp_path / "rejects.csv"
    path = write_json(tmp_path, squad(good, wrong, good))
    assert len(read_questions(path, rejects=rejects)) == 2
    with rejects.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["line"] == "2"
    assert row["reason"] == "its answer 'Red' is not at its start 4; found there: 'red'"
    assert json.loads(row["content_start"]) == wrong
    write_json(tmp_path, squad(good))
    assert read_questions(path, rejects=rejects)
    assert not rejects.exists()  # of an earlier run
    path = write_json(tmp_path, squad(good, wrong, wrong))
    with pytest.raises(TableError, match=r"1 question that can be used and 2 rejected, the first"):
        read_questions(path, rejects=rejects)


@pytest.mark.parametrize(
    ("given", "start", "expected"),
    [
        ("lamp  blinks", 8, ("lamp\n blinks", 8)),
        ("lamp blinks", None, ("lamp\n blinks", 8)),
        (" lamp ", 7, ("lamp", 8)),
        ("lamp ", 8, ("lamp", 8)),
        ("lamp", 7, ("lamp", 8)),
        ("lamp", 8, ("lamp", 8)),
    ],
)
def test_answers_that_differ_in_blanks_are_corrected_and_counted(tmp_path, given, start, expected):
    context, notes = "The red lamp\n blinks.", Listener()
    rows = [row(), row(context=context, answer=given, start=start)]
    found = read_questions(write_jsonl(tmp_path, *rows), progress=notes)[1]
    assert (found.answers[0], found.starts[0]) == expected
    corrected = (given, start) not in (("lamp", 8), ("lamp", None))
    assert len(notes.notes) == corrected
    if corrected:
        assert notes.notes[0].startswith("1 question whose answer or start differed from the")


@pytest.mark.parametrize(("given", "start"), [("lamp blinks", 9), ("lampblinks", 8), ("red", 8)])
def test_answers_that_differ_in_more_than_blanks_are_rejected(tmp_path, given, start):
    rows = [row(), row(context="The red lamp  blinks.", answer=given, start=start)]
    assert len(read_questions(write_jsonl(tmp_path, *rows), progress=Listener())) == 1


def test_missing_columns_are_named_in_one_error_with_the_columns_found(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("question,text\nq,a\n")
    message = (
        r"a.csv without 'context', 'answer'; found: 'question', 'text'; expected the columns"
        r" 'question', 'context', 'answer' and, optionally, 'start'"
    )
    with pytest.raises(ColumnError, match=message):
        read_questions(path)
    with pytest.raises(ColumnError, match=r"without 'question'; found: 'context', 'answer'"):
        read_questions(write_jsonl(tmp_path, row(question=None, start=None)))


def test_a_row_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("question,context,answer\nq,a b,b\nq,a b,b,c\n")
    with pytest.raises(
        TableError, match=r"a.csv with 1 question that cannot be used, the first at line 3: 4 cells"
    ):
        read_questions(path)
    path = write_jsonl(tmp_path, row())
    path.write_text(path.read_text(encoding="utf-8") + "\n{broken", encoding="utf-8")
    with pytest.raises(TableError, match="first at line 2: invalid JSON"):
        read_questions(path)


def test_a_repeated_header_is_skipped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("question,context,answer\nq,a b,b\nquestion,context,answer\nr,a b,a\n")
    assert [question.question for question in read_questions(path)] == ["q", "r"]


def test_a_file_without_questions_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("question,context,answer,start\n")
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "c.json").write_text('{"version": "v2.0", "data": []}')
    (tmp_path / "d.json").write_text(json.dumps(squad()))
    for name in ("a.csv", "b.jsonl", "c.json", "d.json"):
        with pytest.raises(TableError, match=rf"{name} has no questions; expected at least 1"):
            read_questions(tmp_path / name)
    for name in ("missing.csv", "questions.txt"):
        with pytest.raises(BertCNNError, match=name):
            read_questions(tmp_path / name)


def test_questions_about_one_context_stay_together():
    questions = [Question(f"{place}?", f"context {place // 3}", (), ()) for place in range(60)]
    kept, held_out = split_by_context(questions, 0.2, seed=3)
    assert (len(kept), len(held_out)) == (48, 12)
    contexts = [{question.context for question in part} for part in (kept, held_out)]
    assert not contexts[0] & contexts[1]
    assert sorted(kept + held_out, key=questions.index) == questions
    assert kept == sorted(kept, key=questions.index)
    assert split_by_context(questions, 0.2, seed=3) == (kept, held_out)
    assert split_by_context(questions, 0.2, seed=4) != (kept, held_out)


def test_each_part_of_a_split_has_a_context():
    questions = [Question("?", context, (), ()) for context in "aab"]
    for fraction in (0.0, 0.01, 1.0):
        kept, held_out = split_by_context(questions, fraction, seed=0)
        assert {len(kept), len(held_out)} == {1, 2}
    with pytest.raises(TableError, match=r"about 1 context; expected .* at least 2"):
        split_by_context(questions[:2], 0.5, seed=0)


PLACES = read_questions(DATA / "place_questions.jsonl")
TICKETS = read_questions(DATA / "ticket_questions.jsonl")


def test_a_fifth_or_more_of_the_shipped_questions_has_no_answer():
    for questions, contexts, unanswerable in ((TICKETS, 232, 176), (PLACES, 130, 156)):
        assert len({question.context for question in questions}) == contexts
        assert len({question.identity for question in questions}) == contexts
        assert sum(not question.answerable for question in questions) == unanswerable
        assert len({(one.identity, one.question.casefold()) for one in questions}) == len(questions)
    assert (len(TICKETS), len(PLACES)) == (696, 747)


@pytest.mark.parametrize(("questions", "longest"), [(TICKETS, 7), (PLACES, 12)])
def test_each_shipped_answer_is_short_and_at_its_place(questions, longest):
    for question in questions:
        assert question.question.endswith("?")
        for text, start in zip(question.answers, question.starts, strict=True):
            end = start + len(text)
            assert question.context[start:end] == text == text.strip()
            assert len(text.split()) <= longest
            assert not f" {question.context}"[start : start + 2].isalnum()  # whole words
            assert not f"{question.context} "[end - 1 : end + 1].isalnum()


def test_the_shipped_questions_are_about_the_sample_tickets_in_their_order():
    with (DATA / "isp_tickets.csv").open(encoding="utf-8", newline="") as file:
        texts = {ticket["ticket_id"]: ticket["text"] for ticket in csv.DictReader(file)}
    assert all(texts[question.identity] == question.context for question in TICKETS)
    identities = [question.identity for question in TICKETS]
    assert identities == sorted(identities)


def test_the_places_leave_out_what_the_notebook_asks_about():
    words = "china chinese shanghai shenzhen beijing guangzhou yangtze fashion capital".split()  # noqa: SIM905
    text = " ".join(f"{one.question} {one.context}" for one in PLACES).lower()
    assert not [word for word in words if word in text]
