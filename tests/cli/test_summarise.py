"""`bertcnn summarise`, as people type it: train, evaluate and run, and one-line errors."""

import csv
import json

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
    code, shown, err = run("summarise", "evaluate", out, pairs, *columns, "--json", out / "f.json")
    assert code == 2  # not into a saved model
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


def test_what_cannot_be_used_is_one_line(shallow_encoder_folder, tmp_path, run):
    pairs = write(tmp_path / "pairs.csv", ["ticket", "summary"], [("a modem", "modem")] * 20)
    for arguments, words in (
        (("train", pairs, "--out", tmp_path / "m", "--text", "body"), "'body'"),
        (("train", tmp_path / "none.csv", "--out", tmp_path / "m"), "none.csv"),
        (
            ("train", pairs, "--out", tmp_path / "m", "--encoder", shallow_encoder_folder),
            "64 positions",
        ),
        (("evaluate", shallow_encoder_folder, pairs), "manifest.json"),
        (("run", shallow_encoder_folder, pairs, tmp_path / "out.csv"), "manifest.json"),
    ):
        code, _, err = run("summarise", *arguments)
        assert code == 2
        assert words in err.splitlines()[-1]
        assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.csv"]
