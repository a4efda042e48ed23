"""`bertcnn qa`, as people type it: figures, answers and fields."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest

from bertcnn.tasks.question_answering.answerer import QuestionAnswerer
from tests.cli.outcomes import left, refused
from tests.tasks.small_answers import (
    DEVICE,
    MONTH,
    WORDS,
    longer_encoder,
    save_answerer,
    small_texts,
    write_questions,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved question answerer; do not write to its folder."""
    return save_answerer(tmp_path_factory.mktemp("answerer") / "model")


@pytest.fixture(scope="module")
def answerer(model):
    return QuestionAnswerer.load(model)


@pytest.fixture(scope="module")
def encoder(shallow_encoder_folder, tmp_path_factory):
    return longer_encoder(shallow_encoder_folder, tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def questions(tmp_path):
    return write_questions(tmp_path / "questions.jsonl")


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "in.csv").write_text("id,text\n1,my router is dead\n2,\n3,the app\n")
    return tmp_path / "in.csv"


def program(*words):
    return [sys.executable, "-m", "bertcnn", "qa", *map(str, words)]


# === train and evaluate ===


def test_evaluate_prints_the_figures_and_writes_them(run, model, answerer, questions, tmp_path):
    place = tmp_path / "figures.json"
    code, out, err = run("qa", "evaluate", model, questions, "--json", place)
    assert (code, err) == (0, "")
    figures = json.loads(place.read_text())
    assert (figures["questions"], figures["answerable"], figures["unanswerable"]) == (24, 12, 12)
    lines = out.splitlines()
    assert lines[0].startswith(f"24 questions: exact match {figures['exact']:.1%}, F1 ")
    assert lines[0].endswith(" (never answering: 50.0%)")
    assert lines[1].startswith("12 with an answer: exact match ")
    right = f"{figures['unanswerable_right']:.1%}"
    assert lines[2] == f"12 without an answer: {right} of them left unanswered"
    silent = [
        not one.text for one in answerer.answer(MONTH, [f"my {w} is not working" for w in WORDS])
    ]
    assert right == f"{sum(silent) / 12:.1%}"


def test_unusable_questions_are_refused_in_one_line(run, model, encoder, tmp_path):
    good = {"question": DEVICE, "context": "my router is dead", "answer": "router"}
    out = ("--out", tmp_path / "model", "--encoder", encoder)
    (tmp_path / "wrong.jsonl").write_text(json.dumps({**good, "answer": "modem"}))
    wrong = "line 1: its answer 'modem'"
    refused(run("qa", "train", tmp_path / "wrong.jsonl", *out), wrong)
    refused(run("qa", "evaluate", model, tmp_path / "wrong.jsonl"), wrong)
    (tmp_path / "alike.jsonl").write_text("\n".join([json.dumps(good)] * 20))
    refused(run("qa", "train", tmp_path / "alike.jsonl", *out), "about 1 context")
    assert left(tmp_path) == ["alike.jsonl", "wrong.jsonl"]  # neither rejects nor a model


def test_unusable_rows_are_left_out_and_kept_in_a_file(run, model, encoder, questions, tmp_path):
    wrong = {"question": DEVICE, "context": "my modem is dead", "answer": "router"}
    blanks = {"question": DEVICE, "context": "my  old modem is dead", "answer": "old  modem"}
    with questions.open("a") as file:
        file.write(f"{json.dumps(wrong)}\n{json.dumps(blanks)}\n")
    out, rejects = tmp_path / "model", tmp_path / "model.rejects.csv"
    options = ("--encoder", encoder, "--epochs", 1, "--max-tokens", 140)
    code, _, err = run("qa", "train", questions, "--out", out, *options)
    assert code == 0, err
    assert err.splitlines()[-1] == f"Next: bertcnn qa ask {out} --question '{DEVICE}' TEXT"
    assert json.loads((out / "config.json").read_text())["questions"]["max_tokens"] == 140
    assert "1 question rejected, the first at line 25: its answer 'router' has no start" in err
    assert f"reasons are in {rejects}" in err
    assert "1 question whose answer or start differed from the context in blanks" in err
    with rejects.open(newline="") as file:
        assert [row["line"] for row in csv.DictReader(file)] == ["25"]
    code, out, err = run("qa", "evaluate", model, questions, "--json", tmp_path / "figures.json")
    assert (code, out.splitlines()[0].partition(":")[0]) == (0, "25 questions")
    assert "1 question rejected" in err
    assert (tmp_path / "figures.json.rejects.csv").exists()


def test_ctrl_c_ends_training_in_one_line_with_a_savepoint_and_without_a_model(encoder, questions):
    command = program("train", questions, "--out", questions.parent / "model", "--encoder", encoder)
    with subprocess.Popen(
        [*command, "--epochs", "50000"], stderr=subprocess.PIPE, text=True
    ) as training:
        for line in training.stderr:
            if line.startswith("training"):
                break
        training.send_signal(signal.SIGINT)
        rest = training.stderr.read()
        assert training.wait(60) == 130
    assert rest.splitlines()[-1].startswith("bertcnn: interrupted; nothing was half-written.")
    assert "Traceback" not in rest
    assert left(questions.parent) == [".model.training", "questions.jsonl"]


# === ask ===


def test_ask_answers_a_line_for_each_text(run, model, answerer):
    given = ["my red router is not working", "", "the bill\tof\nmay", "=1+1"]
    code, out, err = run("qa", "ask", model, "--question", DEVICE, *given)
    assert (code, err) == (0, "")
    expected = answerer.answer(DEVICE, given)
    assert [line.split("\t") for line in out.splitlines()] == [
        [" ".join(one.text.split()), f"{one.confidence:.4f}", " ".join(text.split())]
        for one, text in zip(expected, given, strict=True)
    ]
    assert out.splitlines()[1] == "\t1.0000\t"
    _, again, _ = run("qa", "ask", model, "--question", DEVICE, stdin="\n".join(given[::3]) + "\n")
    assert again.splitlines() == out.splitlines()[::3]


def test_alternatives_follow_their_answer(run, model, answerer):
    text = "my red router is not working"
    _, out, _ = run("qa", "ask", model, "--alternatives", "--question", DEVICE, text, "")
    (found,) = answerer.answer(DEVICE, [text])
    assert len(found.alternatives) >= 3
    assert [line.split("\t") for line in out.splitlines()] == [
        [found.text, f"{found.confidence:.4f}", text],
        *([other, f"{share:.4f}", ""] for other, share in found.alternatives),
        ["", "1.0000", ""],
    ]


def test_unusable_questions_about_a_text_are_refused(run, model):
    refused(run("qa", "ask", model, "--question", " ", "the router"), "the question ' '")
    long = "bill " * 70
    refused(run("qa", "ask", model, "--question", long, "the router"), "70 tokens", "at most 64")
    refused(run("qa", "ask", model, "--question", DEVICE, "bill " * 400), "400 tokens")
    code, out, err = run("qa", "ask", model, "the router")
    assert (code, out) == (2, "")
    assert "Missing option '--question'" in err


# === extract ===


def test_extract_fills_columns_and_reports_how_many(run, model, answerer, texts):
    target = texts.parent / "out.csv"
    code, out, err = run(
        *("qa", "extract", model, texts, target),
        *("--field", f" device ={DEVICE}", "--field", "sum=1 + 1 = what?"),
    )
    assert (code, out) == (0, "")
    rows = list(csv.DictReader(target.open()))
    assert list(rows[0])[:3] == ["id", "text", "device"]
    assert list(rows[0])[5:] == ["sum", "sum_confidence", "sum_place"]
    answers = answerer.answer(DEVICE, [row["text"] for row in rows])
    assert [row["device"] for row in rows] == [one.text for one in answers]
    filled = {name: sum(bool(row[name]) for row in rows) for name in ("device", "sum")}
    *_, last = err.splitlines()
    assert last.startswith(f"Wrote {target}: 3 rows in ")
    assert last.endswith(f"(with an answer: device {filled['device']}, sum {filled['sum']}).")
    assert left(texts.parent) == ["in.csv", "out.csv"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        (("month",), '--field "month"'),
        (("=which?",), '--field "=which?"'),
        (("month= ",), '--field "month= "'),
        (("month=which?", " month =when?"), '--field " month =when?"'),
    ],
    ids=["no equals", "no name", "no question", "twice"],
)
def test_unusable_fields_are_refused_in_one_line(run, model, texts, fields, word):
    options = [word for field in fields for word in ("--field", field)]
    refused(run("qa", "extract", model, texts, texts.parent / "out.csv", *options), word)
    assert left(texts.parent) == ["in.csv"]


def test_ctrl_c_is_one_line_with_the_way_to_continue(run, model, texts):
    texts.write_text("text\n" + "".join(f"{text}\n" for text in small_texts(30_000)))
    target, journal = texts.parent / "out.csv", texts.parent / ".out.csv.journal"
    command = ("extract", model, texts, target, "--field", f"device={DEVICE}")
    with subprocess.Popen(program(*command), stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None:
            if journal.exists() and journal.stat().st_size > 20_000:
                running.send_signal(signal.SIGINT)
                break
            time.sleep(0.01)
        told = running.stderr.read()
    assert running.returncode == 130, told
    *_, last = told.splitlines()
    assert last.startswith("bertcnn: interrupted; the answers for ")
    assert last.endswith(" rows are kept. The same command continues from there.")
    assert "Traceback" not in told
    assert left(texts.parent) == [".out.csv.journal", "in.csv"]
    texts.write_text("text\nthe router\n")
    code, _, err = run("qa", *command)
    assert code == 0
    assert "the input's size in bytes changed" in err
    assert left(texts.parent) == ["in.csv", "out.csv"]
