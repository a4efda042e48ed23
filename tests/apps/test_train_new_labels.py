"""The example script that people copy for a new label set."""

import csv
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


def test_a_folder_that_is_in_use_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "evaluation.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "missing.csv", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert re.search(r"evaluation.json' exists; .*--force", done.stderr.splitlines()[-1])


def test_a_missing_file_is_a_one_line_error(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "missing.csv", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "missing.csv" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
