"""`bertcnn summarise`, as people type it: its columns and figures."""

import csv
import json

from tests.cli.outcomes import left, refused
from tests.tasks.kinds import SUMMARISER, saved
from tests.tasks.small_summaries import small_summaries


def write(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def test_evaluate_compares_summaries_and_first_sentences(shallow_encoder_folder, tmp_path, run):
    model = saved(SUMMARISER, shallow_encoder_folder)
    rows = zip(*small_summaries(), strict=True)
    pairs, place = write(tmp_path / "pairs.csv", ["body", "line"], rows), tmp_path / "f.json"
    columns = ("--text", "body", "--summary", "line")
    code, shown, err = run("summarise", "evaluate", model, pairs, *columns, "--json", place)
    assert code == 0, err
    figures = json.loads(place.read_text())
    assert figures["rouge_l"]["value"] > 0.3 > figures["first_sentence"]["value"] == 0
    assert "first sentence 0.0% (0.0% to 0.0%)" in shown
    assert "the summaries are closer to the given ones" in shown


def test_a_column_that_is_missing_is_named(tmp_path, run):
    pairs = write(tmp_path / "pairs.csv", ["ticket", "summary"], [("a modem", "modem")] * 20)
    refused(run("summarise", "train", pairs, "--out", tmp_path / "m", "--text", "body"), "'body'")
    assert left(tmp_path) == ["pairs.csv"]
