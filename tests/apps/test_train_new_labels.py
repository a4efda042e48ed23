"""The script people copy for a new label set."""

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from tests.tickets import as_csv, tickets

SCRIPT = Path(__file__).parents[2] / "apps" / "train_new_labels.py"


def test_it_trains_evaluates_saves_and_scores(encoder_folder, tmp_path):
    (tmp_path / "tickets.csv").write_text(as_csv(*tickets()))
    (tmp_path / "inbox.csv").write_text("id,text\n1,the router cable\n2,a refund\n")
    files = [
        str(tmp_path / "tickets.csv"),
        "--out",
        str(tmp_path / "run"),
        "--score",
        str(tmp_path / "inbox.csv"),
    ]
    done = subprocess.run(
        [
            sys.executable,
            str(SCRIPT),
            *files,
            "--encoder",
            str(encoder_folder),
            "--recipe",
            "frozen",
            "--epochs",
            "2",
            "--max-tokens",
            "5",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"rows \([\d.]+%\) are longer than 5 tokens: their first 1 and last 2 are used", done.stderr
    )
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["tokenizer"]["max_tokens"] == 5
    assert "Next:" in done.stdout
    assert re.search(
        r"Done in .*: reading \d+ s, loading \d+ s, training .*, evaluating .*, scoring \d+ s\.",
        done.stdout,
    )
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())["rows"] == 12
    assert [row["id"] for row in csv.DictReader((tmp_path / "run" / "scored.csv").open())] == [
        "1",
        "2",
    ]
    assert (tmp_path / "run" / "model" / "MODEL_CARD.md").exists()


def test_rows_with_several_labels_are_read_as_such(tmp_path):
    spec = importlib.util.spec_from_file_location("train_new_labels", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # where dataclasses look their module up
    spec.loader.exec_module(script)
    rows = (
        "text,label\n"
        + "my bill,billing\nmy router,hardware\nbill for the router,billing; hardware\n,billing\n"
        * 5
    )
    (tmp_path / "tickets.csv").write_text(rows)
    data = script.read(tmp_path / "tickets.csv", "text", "label")
    assert (data.separator, data.labels[:3]) == (
        ";",
        [("billing",), ("hardware",), ("billing", "hardware")],
    )
    assert (len(data.texts), data.rarest[:3]) == (15, ["billing", "hardware", "billing"])
    (tmp_path / "tickets.csv").write_text(as_csv(*tickets(2)))
    assert script.read(tmp_path / "tickets.csv", "text", "label").labels == tickets(2)[1]
    (tmp_path / "tickets.csv").write_text(as_csv(*tickets(2)) + '90,"cable",\n91,"  ",\n')
    data = script.read(tmp_path / "tickets.csv", "text", "label")
    assert (data.labels, data.unlabelled) == (tickets(2)[1], ["cable"])


def test_a_file_that_is_not_there_is_told_in_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "missing.csv", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "missing.csv" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
