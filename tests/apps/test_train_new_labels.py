"""The example script that people copy for a new label set."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tickets import as_csv, tickets

SCRIPT = Path(__file__).parents[2] / "apps" / "train_new_labels.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True
    )


def test_it_trains_evaluates_saves_and_scores(encoder_folder, tmp_path):
    data, inbox, out = (tmp_path / name for name in ("tickets.csv", "inbox.csv", "run"))
    data.write_text(as_csv(*tickets()))
    inbox.write_text("id,text\n1,the router cable\n2,a refund\n")
    options = ("--encoder", encoder_folder, "--recipe", "frozen", "--epochs", 2, "--max-tokens", 5)
    done = run(data, "--out", out, "--score", inbox, *options)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"rows \([\d.]+%\) are longer than 5 tokens: their first 1 and last 2 are used", done.stderr
    )
    config = json.loads((out / "model" / "config.json").read_text())
    assert config["tokenizer"]["max_tokens"] == 5
    assert "Next:" in done.stdout
    assert re.search(
        r"Done in .*: reading \d+ s, loading \d+ s, training .*, evaluating .*, scoring \d+ s\.",
        done.stdout,
    )
    assert json.loads((out / "evaluation.json").read_text())["rows"] == 12
    assert [row["id"] for row in csv.DictReader((out / "scored.csv").open())] == ["1", "2"]
    assert (out / "model" / "MODEL_CARD.md").exists()


@pytest.mark.parametrize(
    ("in_use", "message"),
    [(True, r"evaluation.json' exists; .*--force"), (False, "missing.csv")],
)
def test_wrong_paths_are_one_line_errors(tmp_path, in_use, message):
    """A folder in use is refused before anything is read."""
    if in_use:
        (tmp_path / "evaluation.json").write_text("{}")
    done = run("missing.csv", "--out", tmp_path)
    assert done.returncode == 1
    assert re.search(message, done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr
