"""The commands, as people type them.

Answers, one-line errors with exit code 2, and no half-written files.
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
import typer

from bertcnn.bundle.bundle import read_config, read_metrics
from bertcnn.cli.evaluate import show_evaluation
from bertcnn.cli.main import app
from bertcnn.evaluation.metrics import evaluate
from bertcnn.evaluation.no_information import against_constant
from bertcnn.inference.predictor import load
from tests.cli.outcomes import left, refused
from tests.tickets import as_csv, tickets
from tests.tiny import saved_with_scope


def data(tmp_path, content, name="data.csv"):
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


GOOD = as_csv(*tickets(4))
BAD_FILES = {
    "folder": (None, "folder"),
    "no label": (
        "text\n" + "".join(f"my router number {row} is broken\n" for row in range(9)),
        "'text'",
    ),
    "one label": (
        "text,label\n" + "".join(f"my router number {row} is broken,a\n" for row in range(9)),
        "1 label ('a')",
    ),
    "blank texts": ("text,label\n" + "".join(f" ,{'ab'[row % 2]}\n" for row in range(9)), ""),
    "binary": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "PNG"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_an_unusable_file_is_refused_in_one_line(run, model, encoder_folder, tmp_path, case):
    content, word = BAD_FILES[case]
    path = data(tmp_path, content) if content is not None else tmp_path
    columns = ("--text", "text", "--label", "label") if case == "blank texts" else ()
    refused(
        run("train", path, "--out", tmp_path / "model", "--encoder", encoder_folder, *columns), word
    )
    if case in ("folder", "binary"):
        refused(run("score", model, path, tmp_path / "out.csv"), word)
        refused(run("evaluate", model, path), word)
    assert left(tmp_path) == [path.name] * (path != tmp_path)


def test_a_file_without_rows_is_scored_to_a_header_and_not_evaluated(run, model, tmp_path):
    path, out = data(tmp_path, ""), tmp_path / "out.csv"
    assert run("score", model, path, out)[0] == 0
    assert out.read_text() == "text,predicted_label,confidence,decision,because\n"
    refused(run("evaluate", model, path), "expected")


def test_missing_files_models_and_folders_are_refused_in_one_line(run, model, tmp_path):
    good = data(tmp_path, GOOD)
    refused(run("train", tmp_path / "missing.csv", "--out", tmp_path / "new"), "missing.csv")
    refused(run("score", model, tmp_path / "missing.csv", tmp_path / "out.csv"), "missing.csv")
    refused(run("score", tmp_path, good, tmp_path / "out.csv"))
    refused(run("score", tmp_path / "no-model", good, tmp_path / "out.csv"), "no-model")
    refused(run("classify", good, "text"))
    refused(run("evaluate", tmp_path / "no-model", good), "no-model")
    refused(run("train", good, "--out", model), "--force")
    refused(run("train", good, "--out", good / "below-a-file"))
    refused(run("score", model, good, good), "exists")
    refused(run("score", model, good, good / "out.csv"))
    refused(run("train", good, "--out", tmp_path / "new", "--encoder", "minilm-7"), "minilm-l6")
    refused(run("train", good, "--out", tmp_path / "new", "--recipe", "quick"), "recipe")
    refused(
        run("train", good, "--out", tmp_path / "new", "--class-weight", "heavy"), "class_weight"
    )


def test_train_reports_its_guesses_and_the_next_command(run, encoder_folder, tmp_path):
    options = ("--encoder", encoder_folder, "--recipe", "frozen", "--epochs", "1")
    code, out, err = run("train", data(tmp_path, GOOD), "--out", tmp_path / "model", *options)
    assert code == 0
    assert out == ""
    assert "label: 'label'" in err
    assert "95% precision cannot be shown on 3 held-out rows" in err
    assert "Automatic at 95%: 0% of tickets, since the most certain answers are wrong" in err
    assert "Next: bertcnn score" in err
    told = read_metrics(tmp_path / "model")["no_information"]["message"]
    assert told.startswith("3 rows cannot show that the text predicts the label: ")
    assert err.endswith(f"WARNING: {told}\n")
    assert not any(character in err for character in "\x1b\r")


def test_a_pair_of_columns_becomes_two_segments_everywhere(run, encoder_folder, tmp_path):
    bodies, labels = tickets(4)
    pairs = [(body.split()[0], body) for body in bodies]
    table = "subject,body,label\n" + "".join(
        f'{subject},"{body}",{label}\n'
        for (subject, body), label in zip(pairs, labels, strict=True)
    )
    saved = tmp_path / "model"
    options = ("--encoder", encoder_folder, "--recipe", "frozen", "--epochs", "1")
    source = data(tmp_path, table)
    code, _, err = run("train", source, "--out", saved, "--pair", "subject,body", *options)
    assert code == 0, err
    assert read_config(saved).tokenizer.pair
    assert read_config(saved).text_columns == ("subject", "body")
    assert run("score", saved, source, tmp_path / "scored.csv", "--probabilities")[0] == 0
    with (tmp_path / "scored.csv").open() as file:
        scored = [
            [float(row[name]) for name in row if name[:2] == "p_"] for row in csv.DictReader(file)
        ]
    texts = ["\n".join(pair) for pair in pairs]
    by_keras = load(saved, engine="keras").predict_proba(texts)
    np.testing.assert_allclose(scored, load(saved).predict_proba(texts), atol=1e-5)
    np.testing.assert_allclose(scored, by_keras, atol=0.03)  # int8
    joined = [text.replace("\n", " ") for text in texts]
    assert np.abs(load(saved, engine="keras").predict_proba(joined) - by_keras).max() > 0.05
    refused(run("export", saved, "--format", "onnx", "--out", tmp_path / "export"), "two segments")
    for wrong in (("--pair", "subject"), ("--pair", "subject,body", "--text", "body")):
        refused(run("train", source, "--out", tmp_path / "new", *wrong, *options), "two columns")


def test_classify_answers_a_line_for_each_text(run, model):
    code, out, _ = run("classify", model, "the Router  cable", "", "=1+1")
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert lines[0][0] in {"billing", "hardware", "software"}
    assert 0 < float(lines[0][1]) <= 1
    # 6 held-out rows are too few for any other decision
    assert lines[0][2].startswith("review:ambiguous (")
    assert lines[0][3]
    assert all(phrase in "the Router cable" for phrase in lines[0][3].split(" | "))
    assert lines[0][4] == "the Router cable"
    assert lines[1] == ["", "", "review:empty", "", ""]
    code, out, _ = run("classify", model, "--probabilities", stdin="refund money\n\nthe app\n")
    assert [bool(line.split("\t")[0]) for line in out.splitlines()] == [True, False, True]
    assert "billing=" in out


def test_classify_answers_json_on_request(run, model):
    code, out, _ = run("classify", model, "--json", "--probabilities", "the Router  cable", "")
    first, blank = map(json.loads, out.splitlines())
    assert code == 0
    assert first["label"] in first["probabilities"]
    assert all(part["words"] in "the Router cable" for part in first["because"])
    assert (blank["label"], blank["decision"]) == (None, "review:empty")


def test_a_text_may_begin_with_a_dash_and_a_mistyped_option_is_none(run, model):
    code, out, _ = run(
        "classify", model, "- my router is dead", "--probabilities", "-", "refund, please"
    )
    assert code == 0
    assert [line.split("\t")[4] for line in out.splitlines()] == [
        "- my router is dead",
        "-",
        "refund, please",
    ]
    for arguments in (["- router", "--probabilites"], ["router", "--engines=keras"], ["-router"]):
        code, out, err = run("classify", model, *arguments)
        assert (code, out) == (2, "")
        assert "No such option" in err
    code, out, _ = run("classify", model, "--", "--router")
    assert (code, out.split("\t")[4]) == (0, "--router\n")


def test_closed_streams_are_read_as_empty_and_written_to_nowhere(model):
    program = [sys.executable, "-m", "bertcnn", "classify", str(model)]
    asked = subprocess.run(
        [*program, "router"], preexec_fn=lambda: os.close(2), stdout=subprocess.PIPE, check=False
    )
    assert (asked.returncode, asked.stdout.count(b"\n")) == (0, 1)
    asked = subprocess.run(
        program, preexec_fn=lambda: os.close(0), capture_output=True, check=False
    )
    assert (asked.returncode, asked.stdout, asked.stderr) == (0, b"", b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has it")  # noqa: PTH110
def test_a_log_on_a_full_disk_costs_no_work(model, tmp_path):
    words = ("score", model, data(tmp_path, GOOD), tmp_path / "out.csv")
    command = [sys.executable, "-m", "bertcnn", *map(str, words)]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert subprocess.run(command, stderr=full, check=False).returncode == 0
    assert left(tmp_path) == ["data.csv", "out.csv"]


def test_out_of_memory_is_a_one_line_error():
    grow = (
        "from bertcnn.cli import main; main.app.command('grow')(lambda: bytearray(2**62));"
        " main.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", grow, "grow"], capture_output=True, text=True, check=False
    )
    refused((done.returncode, done.stdout, done.stderr), "out of memory")


def test_figures_are_written_to_their_file_even_if_the_output_is_closed(model, tmp_path):
    place = tmp_path / "figures.json"
    words = ("evaluate", model, data(tmp_path, GOOD), "--json", place)
    command = [sys.executable, "-m", "bertcnn", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.close()
    assert json.loads(place.read_text())["rows"]


def test_byte_order_marks_and_line_breaks_do_not_reach_an_answer(run, model):
    _, out, _ = run("classify", model, "the router\nand\tthe cable")
    assert out.count("\n") == 1
    assert out.rstrip("\n").split("\t")[4] == "the router and the cable"
    _, out, _ = run("classify", model, stdin="\ufeffrefund\r\n")
    assert out.rstrip("\n").split("\t")[4] == "refund"
    _, out, _ = run("classify", model, "--json", stdin="the router\rand\u2028the\x0ccable\n")
    assert out.count("\n") == 1


def test_another_precision_needs_no_new_training(run, model, tmp_path):
    source = data(tmp_path, "id,text\n1,router cable\n2,\n")
    code, out, _ = run("classify", model, "--auto-precision", "0.3", "router cable")
    assert (code, out.split("\t")[2]) == (0, "auto")
    for precision, told in (
        ("0.3", "auto 1 (50%), review:empty 1 (50%)"),
        ("0.3,hardware=0.99", "review:ambiguous 1 (50%)"),
    ):
        code, _, err = run(
            "score", model, source, tmp_path / "out.csv", "--auto-precision", precision, "--force"
        )
        assert code == 0
        assert f"Decisions: {told}" in err
    refused(
        run("score", model, source, tmp_path / "new.csv", "--auto-precision", "95"),
        "'0.95,billing=0.99'",
    )
    refused(run("classify", model, "--auto-precision", "0.9,sales=0.99", "text"), "'sales'")
    refused(
        run("train", source, "--out", tmp_path / "new", "--auto-precision", "2"),
        "automatic precision '2'",
    )


def test_the_version_is_shown(run):
    assert run("--version")[:2] == (0, f"bertcnn {version('bertcnn')}\n")


def test_pairs_mixed_up_are_a_table_without_broken_lines(capsys):
    long = "balance_not_updated_after_bank_transfer"
    show_evaluation(evaluate([long, "other"], [long, long, "other"], ["other", long, "other"]))
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert len(last) <= 80
    assert last.split() == [long, "other", "1", "50.0%"]


def test_an_evaluation_begins_with_a_warning_about_a_model_without_information(capsys):
    figures = evaluate(["a", "b"], ["a", "b"], ["b", "a"])
    known = against_constant(["a", "b"], np.array([0, 1]), np.array([1, 0]))
    show_evaluation(replace(figures, no_information=known))
    told = " ".join(capsys.readouterr().out.split())
    assert (
        "weighted F1 0.0000 2 rows cannot show that the model predicts the label: 0.0% right"
        in told
    )


def test_evaluate_prints_a_table_and_writes_json(run, model, tmp_path):
    code, out, _ = run("evaluate", model, data(tmp_path, GOOD), "--json", tmp_path / "figures.json")
    assert code == 0
    assert "macro-F1" in out
    assert max(map(len, out.splitlines())) <= 80
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["rows"] == figures["no_information"]["rows"] == 12
    assert figures["no_information"]["verdict"] == "informative"
    refused(
        run("evaluate", model, data(tmp_path, GOOD), "--json", tmp_path / "figures.json"),
        "figures.json",
    )
    both = ("--json", tmp_path / "page.html", "--report", tmp_path / "page.html")
    refused(run("evaluate", model, data(tmp_path, GOOD), *both), "for --report and for --json")
    assert not (tmp_path / "page.html").exists()


def commands(group, above=()):
    """The names of every command."""
    for name, command in group.commands.items():
        yield *above, name
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))


@pytest.mark.parametrize("command", [(), *commands(typer.main.get_command(app))], ids=" ".join)
def test_help_fits_eighty_columns_with_all_names_whole(run, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, shown, _ = run(*command, "--help")
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def with_a_small_disk(*command):
    """Run a command with files limited to 20,000 bytes.

    Python writes no bytecode: it would keep the first 20,000 bytes for ever.
    """

    resource = pytest.importorskip("resource")

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-m", "bertcnn.cli.main", *map(str, command)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=small_disk,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return done.returncode, done.stdout, done.stderr


def test_a_disk_that_fills_up_is_reported_and_leaves_only_the_answers(run, model, tmp_path):
    source = data(
        tmp_path,
        "id,text\n" + "".join(f"{row},the router {row} {'x' * 400}\n" for row in range(300)),
    )

    refused(with_a_small_disk("score", model, source, tmp_path / "out.csv"), code=75)
    assert left(tmp_path) == [".out.csv.journal", "data.csv"]
    code, _, err = run("score", model, source, tmp_path / "out.csv")
    assert code == 0
    assert "300 rows were already answered by an interrupted run: continuing from there" in err
    assert left(tmp_path) == ["data.csv", "out.csv"]


def test_a_full_disk_in_a_library_is_reported_too(tmp_path, encoder_folder):
    # py3langid unpacks its model
    told = with_a_small_disk("check", data(tmp_path, GOOD), "--encoder", encoder_folder)
    refused(told, "no space left on a disk", "TMPDIR", code=75)


def test_ctrl_c_ends_training_in_one_line_with_a_savepoint_and_without_a_model(
    encoder_folder, tmp_path
):
    words = ("train", data(tmp_path, as_csv(*tickets(60))), "--out", tmp_path / "model")
    options = ("--recipe", "frozen", "--encoder", encoder_folder, "--epochs", "50000")
    command = [sys.executable, "-m", "bertcnn.cli.main", *map(str, (*words, *options))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as training:
        for line in training.stderr:
            if line.startswith("training"):
                break
        time.sleep(1)
        training.send_signal(signal.SIGINT)
        rest = training.stderr.read()
        assert training.wait(60) == 130
    assert "interrupted" in rest.splitlines()[-1]
    assert "Traceback" not in rest
    assert "The same command resumes" in rest.splitlines()[-1]
    assert left(tmp_path) == [".model.training", "data.csv"]


def test_help_and_import_load_no_heavy_library_and_change_nothing():
    code = (
        "import os, sys, logging\nbefore, level = dict(os.environ),"
        " logging.getLogger('tensorflow').level\nimport bertcnn, bertcnn.cli.main,"
        " bertcnn.bundle.bundle, bertcnn.scoring.score, bertcnn.tables.tables\nassert before =="
        " dict(os.environ) and level == logging.getLogger('tensorflow').level\nprint([name for name"
        " in ('keras', 'tensorflow', 'jax', 'pandas', 'sklearn', 'streamlit') if name in"
        " sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


HEAVY = {"keras", "tensorflow", "jax", "nncf", "streamlit", "huggingface_hub", "openvino_telemetry"}
SLOW = {"pandas", "sklearn", "scipy", "openvino.tools.ovc", "numpy.ma"}  # np.unique takes 50 ms


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (("classify", "MODEL", "the router cable"), HEAVY | SLOW),
        (("score", "MODEL", "in.csv", "out.csv"), HEAVY | SLOW),
        (("evaluate", "MODEL", "in.csv"), {"keras", "tensorflow"}),
    ],
    ids=["classify", "score", "evaluate"],
)
def test_a_command_is_quiet_and_imports_no_heavy_library(model, tmp_path, words, unwanted):
    (tmp_path / "in.csv").write_text(as_csv(*tickets(4)))
    arguments = ["bertcnn", *(str(model) if word == "MODEL" else word for word in words)]
    code = (
        f"import sys\nfrom bertcnn.cli.start import main\nsys.argv = {arguments!r}\n"
        "try:\n    main()\nfinally:\n"
        "    loaded = {name for name, module in sys.modules.items() if module}\n"
        "    loaded |= {name.split('.')[0] for name in loaded}\n"
        f"    print(sorted(loaded & {unwanted!r}), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert "oneDNN" not in done.stderr


def test_the_reference_engine_gives_the_same_labels(run, model):
    compiled = run("classify", model, "the router cable", "refund money")[1]
    reference = run("classify", model, "--engine", "keras", "the router cable", "refund money")[1]
    assert [line.split("\t")[0] for line in compiled.splitlines()] == [
        line.split("\t")[0] for line in reference.splitlines()
    ]


def test_a_place_in_the_home_folder_may_be_said_with_a_tilde(run, model, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "in.csv").write_text(
        "text,label\nthe router cable,hardware\nrefund money,billing\n"
    )
    code, _, err = run("evaluate", model, tmp_path / "in.csv", "--json", "~/figures.json")
    assert (code, "~/figures.json" in err) == (0, True)
    assert json.loads((tmp_path / "figures.json").read_text())["rows"] == 2


def test_a_bad_file_of_a_folder_is_reported_after_the_others_are_scored(run, model, tmp_path):
    inbox, out = tmp_path / "in", tmp_path / "out"
    inbox.mkdir()
    for name in ("a.csv", "b.csv"):
        (inbox / name).write_text("text\nrefund\n")
    code, shown, _ = run("score", "--json", model, inbox, out)
    figures = json.loads(shown)
    assert (code, figures["rows"], figures["there"], figures["failed"]) == (0, 2, [], {})
    assert figures["scored"][str(inbox / "a.csv")]["rows"] == 1
    (inbox / "bad.csv").write_text("%PDF-1.7")
    code, _, err = run("score", model, inbox, out, "--force")
    assert code == 2
    assert "Wrote 2 files with 2 rows" in err
    (line,) = [line for line in err.splitlines() if line.startswith("Not scored")]
    assert "bad.csv" in line
    assert "a PDF document" in line
    assert left(out) == ["a.csv", "b.csv"]


def test_recalibrate_reports_its_changes(encoder_folder, run, tmp_path):
    texts, labels = tickets(10)
    source = data(tmp_path, as_csv(texts, labels))
    model, out = saved_with_scope(encoder_folder), tmp_path / "again"
    code, _, told = run("recalibrate", model, source, "--out", out)
    assert code == 0
    assert "recalibrated on 30 rows: temperature " in told
    refused(run("recalibrate", model, source, "--out", out), "holds a saved model already")
    few = data(tmp_path, as_csv(texts[:3], labels[:3]), "few.csv")
    refused(run("recalibrate", model, few, "--out", tmp_path / "none"), "3 rows of", "at least 24")


def test_reasons_are_shown_on_request(encoder_folder, run, tmp_path):
    model = saved_with_scope(encoder_folder)
    code, told, _ = run("classify", model, "--reasons", "router cable")
    assert code == 0
    assert "nearest: 'hardware'" in told
    source = data(tmp_path, "text\nrouter cable\n\n")
    assert run("score", model, source, tmp_path / "out.csv", "--reasons")[0] == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert list(rows[0])[-2:] == ["because", "reason"]
    assert "nearest: 'hardware'" in rows[0]["reason"]
    source = data(tmp_path, 'text,reason\nrouter cable,mine\n"",mine\n', "taken.csv")
    assert run("score", model, source, tmp_path / "two.csv", "--reasons", "--probabilities")[0] == 0
    rows = list(csv.DictReader((tmp_path / "two.csv").open()))
    assert rows[0]["reason"] == "mine"
    assert [row["bertcnn_reason"] for row in rows][1] == "there is no text"
    assert rows[1]["p_hardware"] == ""
