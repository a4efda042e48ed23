"""`bertcnn qa`, as people type it: answers, one-line errors, and no half-written files."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest

from bertcnn.bundle.bundle import write_bundle
from bertcnn.tasks.question_answering.answerer import QuestionAnswerer
from tests.failpoints import tiny_bundle
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


def refused(result, *words):
    """Assert that the command printed one line with these words and exit code 2."""
    code, _, err = result
    last = err.strip().splitlines()[-1]
    assert code == 2, err
    assert last.startswith("bertcnn: ")
    assert "Traceback" not in err
    for word in ("expected", "What to do", *words):
        assert word in last, last


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def program(*words):
    return [sys.executable, "-m", "bertcnn", "qa", *map(str, words)]


# === train and evaluate ===


def test_train_says_how_well_it_answers_and_what_comes_next(run, encoder, questions):
    out = questions.parent / "model"
    options = ("--encoder", encoder, "--epochs", "1", "--max-tokens", "140", "--seed", "3")
    code, told, err = run("qa", "train", questions, "--out", out, *options)
    assert (code, told) == (0, ""), err
    assert "20 questions (20 windows) to learn from, 4 about other texts held out" in err
    assert f"Saved {out} (model " in err
    assert "Validation questions:\n4 questions: exact match " in err
    assert err.splitlines()[-1] == f"Next: bertcnn qa ask {out} --question '{DEVICE}' TEXT"
    assert not any(character in err for character in "\x1b\r")
    assert left(questions.parent) == ["model", "questions.jsonl"]
    config = json.loads((out / "config.json").read_text())
    assert (config["seed"], config["questions"]["max_tokens"]) == (3, 140)
    assert config["training"]["epochs"] == 1
    code, told, err = run("qa", "ask", out, "--question", DEVICE, "TEXT")
    assert (code, told.count("\n"), err) == (0, 1, "")


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
    refused(run("qa", "evaluate", model, questions, "--json", place), "exists", "--force")
    assert run("qa", "evaluate", model, questions, "--json", place, "--force")[0] == 0
    assert json.loads(place.read_text()) == figures
    refused(run("qa", "evaluate", model, questions, "--json", questions, "--force"), "--json")


def test_evaluate_leaves_out_what_there_is_none_of(run, model, tmp_path):
    row = {"question": MONTH, "context": "the router", "answer": ""}
    (tmp_path / "none.jsonl").write_text(json.dumps(row))
    _, out, _ = run("qa", "evaluate", model, tmp_path / "none.jsonl")
    assert "with an answer" not in out
    assert out.startswith("1 question: ")
    row["answer"] = "router"
    (tmp_path / "one.jsonl").write_text(json.dumps(row))
    _, out, _ = run("qa", "evaluate", model, tmp_path / "one.jsonl")
    assert "1 with an answer: " in out
    assert "without an answer" not in out


def test_questions_that_will_not_do_are_refused_in_one_line(run, model, encoder, tmp_path):
    good = {"question": DEVICE, "context": "my router is dead", "answer": "router"}
    files = {
        "missing.jsonl": (None, "missing.jsonl"),
        "empty.csv": ("", "empty.csv"),
        "other.csv": ("text,label\na,b\n", "'question', 'context', 'answer'"),
        "wrong.jsonl": (json.dumps({**good, "answer": "modem"}), "line 1: its answer 'modem'"),
        "binary.csv": ("\x89PNG\r\n\x1a\n" * 99, "binary.csv"),
    }
    for name, (content, word) in files.items():
        if content is not None:
            (tmp_path / name).write_text(content, encoding="latin-1")
        out = ("--out", tmp_path / "model", "--encoder", encoder)
        refused(run("qa", "train", tmp_path / name, *out), word)
        refused(run("qa", "evaluate", model, tmp_path / name), word)
    (tmp_path / "few.jsonl").write_text("\n".join([json.dumps(good)] * 19))
    refused(run("qa", "train", tmp_path / "few.jsonl", *out), "19 questions", "at least 20")
    (tmp_path / "alike.jsonl").write_text("\n".join([json.dumps(good)] * 20))
    refused(run("qa", "train", tmp_path / "alike.jsonl", *out), "about 1 context")
    kept = ["few.jsonl", "alike.jsonl", *(set(files) - {"missing.jsonl"})]
    assert left(tmp_path) == sorted(kept)  # no rejects of the last training, and no model


def test_rows_that_cannot_be_used_are_left_out_and_kept_in_a_file(
    run, model, encoder, questions, tmp_path
):
    wrong = {"question": DEVICE, "context": "my modem is dead", "answer": "router"}
    blanks = {"question": DEVICE, "context": "my  old modem is dead", "answer": "old  modem"}
    with questions.open("a") as file:
        file.write(f"{json.dumps(wrong)}\n{json.dumps(blanks)}\n")
    out, rejects = tmp_path / "model", tmp_path / "model.rejects.csv"
    code, _, err = run("qa", "train", questions, "--out", out, "--encoder", encoder, "--epochs", 1)
    assert code == 0, err
    assert "1 question rejected, the first at line 25: its answer 'router' has no start" in err
    assert f"reasons are in {rejects}" in err
    assert "1 question whose answer or start differed from the context in blanks" in err
    with rejects.open(newline="") as file:
        assert [row["line"] for row in csv.DictReader(file)] == ["25"]
    code, out, err = run("qa", "evaluate", model, questions, "--json", tmp_path / "figures.json")
    assert (code, out.splitlines()[0].partition(":")[0]) == (0, "25 questions")
    assert "1 question rejected" in err
    assert (tmp_path / "figures.json.rejects.csv").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epochs", "0"), ("epochs", "'0'")),
        (("--learning-rate", "-1"), ("learning_rate", "'-1.0'")),
        (("--batch-size", "0"), ("batch_size", "'0'")),
        (("--max-tokens", "15"), ("max_tokens", "'15'")),
        (("--seed", "-1"), ("seed -1",)),
        (("--encoder", "minilm-7"), ("minilm-l6",)),
        (("--encoder", "nowhere/tiny"), ("nowhere",)),
    ],
    ids=lambda value: value[0].strip("-") if value[0].startswith("--") else "",
)
def test_options_that_cannot_work_are_one_line_and_leave_nothing(
    run, encoder, questions, options, words
):
    out = questions.parent / "model"
    given = ("--encoder", encoder) if options[0] != "--encoder" else ()
    refused(run("qa", "train", questions, "--out", out, *given, *options), *words)
    assert left(questions.parent) == ["questions.jsonl"]


def test_an_encoder_with_too_few_positions_is_refused_in_one_line(
    run, shallow_encoder_folder, tmp_path
):
    row = {"question": DEVICE, "answer": "", "start": -1}
    rows = [{**row, "context": f"the router {'is dead ' * 40} {number}"} for number in range(24)]
    (tmp_path / "long.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = ("--out", tmp_path / "model", "--encoder", shallow_encoder_folder, "--epochs", "1")
    refused(run("qa", "train", tmp_path / "long.jsonl", *out), "64")
    assert left(tmp_path) == ["long.jsonl"]


def test_a_folder_that_is_taken_is_refused_before_the_training(run, model, encoder, questions):
    options = ("--encoder", encoder)
    refused(run("qa", "train", questions, "--out", model, *options), "--force")
    write_bundle(tiny_bundle(), questions.parent / "classifier")
    taken = ("qa", "train", questions, "--out", questions.parent / "classifier", *options)
    refused(run(*taken))
    refused(run(*taken, "--force"))
    refused(run("qa", "train", questions, "--out", questions / "below-a-file", *options))
    assert left(questions.parent) == ["classifier", "questions.jsonl"]


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


def test_a_text_may_begin_with_a_dash_and_a_mistyped_option_is_none(run, model):
    code, out, _ = run("qa", "ask", model, "--question", DEVICE, "- my router", "-")
    assert (code, [line.split("\t")[2] for line in out.splitlines()]) == (0, ["- my router", "-"])
    code, out, err = run("qa", "ask", model, "--question", DEVICE, "router", "--alternative")
    assert (code, out) == (2, "")
    assert "No such option" in err


def test_questions_and_models_that_will_not_do_are_refused(run, model, encoder_folder, tmp_path):
    refused(run("qa", "ask", model, "--question", " ", "the router"), "the question ' '")
    long = "bill " * 70
    refused(run("qa", "ask", model, "--question", long, "the router"), "70 tokens", "at most 64")
    refused(run("qa", "ask", model, "--question", DEVICE, "bill " * 400), "400 tokens")
    code, out, err = run("qa", "ask", model, "the router")
    assert (code, out) == (2, "")
    assert "Missing option '--question'" in err
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    (tmp_path / "in.csv").write_text("text\nthe router\n")
    for folder, word in (
        (tmp_path / "classifier", "holds a 'bertcnn bundle'"),
        (tmp_path / "nowhere", "nowhere"),
        (encoder_folder, "manifest.json"),
    ):
        refused(run("qa", "ask", folder, "--question", DEVICE, "the router"), word)
        out = (tmp_path / "in.csv", tmp_path / "out.csv")
        refused(run("qa", "extract", folder, *out, "--field", f"device={DEVICE}"), word)
    refused(run("classify", model, "the router"), "holds a 'bertcnn question answerer'")
    assert left(tmp_path) == ["classifier", "in.csv"]


# === extract ===


def test_extract_fills_columns_and_says_how_many(run, model, answerer, texts):
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


def test_extract_tells_of_rows_that_were_cut_off_or_cannot_be_read(run, model, texts):
    texts.write_text("text,a,b\nthe router,1,2\nthe app\nx,y,z,w\n")
    target = texts.parent / "out.jsonl"
    code, _, err = run("qa", "extract", model, texts, target, "--field", f"device={DEVICE}")
    assert code == 0
    assert "1 row lacked the last cells; they were read as blank." in err
    assert f"1 row could not be read: see the reasons in {target}.rejects.csv." in err
    assert left(texts.parent) == ["in.csv", "out.jsonl", "out.jsonl.rejects.csv"]
    texts.write_text("text,a,b\nthe router,1,2\n" + "x\ty\tz,w,v,u\n" * 9)
    target = texts.parent / "other.csv"
    command = ("qa", "extract", model, texts, target, "--field", f"device={DEVICE}")
    refused(run(*command), "9 of 10 rows", "--allow-rejects")
    assert run(*command, "--allow-rejects")[0] == 0


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        (("month",), '--field "month"'),
        (("=which?",), '--field "=which?"'),
        (("month= ",), '--field "month= "'),
        (("month=which?", " month =when?"), '--field " month =when?"'),
        (("text=which?",), "a new column 'text'"),
        (("a=which?", "a_place=where?"), "a new column 'a_place'"),
    ],
    ids=["no equals", "no name", "no question", "twice", "taken", "another's place"],
)
def test_fields_that_will_not_do_are_refused_in_one_line(run, model, texts, fields, word):
    options = [word for field in fields for word in ("--field", field)]
    refused(run("qa", "extract", model, texts, texts.parent / "out.csv", *options), word)
    assert left(texts.parent) == ["in.csv"]


def test_places_that_will_not_do_are_refused_in_one_line(run, model, texts):
    field = ("--field", f"device={DEVICE}")
    missing, target = texts.parent / "missing.csv", texts.parent / "out.csv"
    refused(run("qa", "extract", model, missing, target, *field), "missing.csv")
    refused(run("qa", "extract", model, texts, texts.parent / "out.doc", *field), ".doc")
    refused(run("qa", "extract", model, texts, target, *field, "--text", "body"), "'body'")
    target.write_text("old")
    refused(run("qa", "extract", model, texts, target, *field), "exists", "--force")
    assert target.read_text() == "old"
    assert run("qa", "extract", model, texts, target, *field, "--force")[0] == 0
    assert target.read_text().startswith("id,text,device,")
    code, out, err = run("qa", "extract", model, texts, texts.parent / "new.csv")
    assert (code, out) == (2, "")
    assert "Missing option '--field'" in err
    assert left(texts.parent) == ["in.csv", "out.csv"]


def test_formulas_are_escaped_unless_raw_is_given(run, model, texts):
    texts.write_text("text\n=the router is dead\n")
    for name, options, cell in (("out.csv", (), "'=the"), ("raw.csv", ("--raw",), "=the")):
        target = texts.parent / name
        run("qa", "extract", model, texts, target, "--field", f"device={DEVICE}", *options)
        assert target.read_text().splitlines()[1].startswith(f"{cell} router")


def test_ctrl_c_says_in_one_line_how_to_go_on(run, model, texts):
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


def test_asking_and_extracting_need_no_keras(model, texts):
    field = ("--field", f"device={DEVICE}")
    commands = [
        ["bertcnn", "qa", *map(str, words)]
        for words in (
            ("ask", model, "--question", DEVICE, "the router"),
            ("extract", model, texts, texts.parent / "out.csv", *field),
        )
    ]
    code = (
        f"import sys\nfrom bertcnn.cli.main import main\nfor sys.argv in {commands!r}:\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        assert not stop.code\n"
        "print(sorted({'keras', 'tensorflow'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert left(texts.parent) == ["in.csv", "out.csv"]


def test_help_names_the_commands(run):
    code, out, _ = run("qa", "--help")
    assert code == 0
    for name in ("train", "evaluate", "ask", "extract"):
        assert f" {name} " in out
    assert " qa " in run("--help")[1]
