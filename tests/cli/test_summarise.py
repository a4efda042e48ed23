"""`bertcnn summarise`, as people type it: train, evaluate and run."""

import csv
import json

from tests.cli.outcomes import left, refused
from tests.tasks.small_answers import longer_encoder
from tests.tasks.small_summaries import small_summaries


def write(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def test_train_evaluate_and_run(shallow_encoder_folder, tmp_path, run):
    encoder = longer_encoder(shallow_encoder_folder, tmp_path / "encoder")
    rows = list(zip(*small_summaries(), strict=True))
    pairs, out = write(tmp_path / "pairs.csv", ["body", "line"], rows), tmp_path / "model"
    columns = ("--text", "body", "--summary", "line")
    options = (*columns, "--encoder", encoder, "--epochs", 150, "--learning-rate", 0.02)
    code, _, err = run("summarise", "train", pairs, "--out", out, *options)
    assert code == 0, err
    assert "On 4 validation pairs, which chose the epoch: ROUGE-L" in err
    assert "Next: bertcnn summarise evaluate" in err
    code, shown, err = run(
        "summarise", "evaluate", out, pairs, *columns, "--json", tmp_path / "f.json"
    )
    assert code == 0, err
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["rouge_l"]["value"] > 0.3 > figures["first_sentence"]["value"] == 0
    assert "first sentence 0.0% (0.0% to 0.0%)" in shown
    assert "the summaries are closer to the given ones" in shown
    source = write(tmp_path / "in.csv", ["id", "text"], [(1, rows[0][0]), (2, "")])
    code, _, err = run("summarise", "run", out, source, tmp_path / "out.csv", "--beam", 1)
    assert code == 0, err
    assert "in the new column summary" in err
    assert "1 row without a text got no summary." in err
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as stream:
        written = list(csv.DictReader(stream))
    assert written[0]["summary"]
    assert written[1] == {"id": "2", "text": "", "summary": ""}


def test_a_column_that_is_missing_is_named(tmp_path, run):
    pairs = write(tmp_path / "pairs.csv", ["ticket", "summary"], [("a modem", "modem")] * 20)
    refused(run("summarise", "train", pairs, "--out", tmp_path / "m", "--text", "body"), "'body'")
    assert left(tmp_path) == ["pairs.csv"]
