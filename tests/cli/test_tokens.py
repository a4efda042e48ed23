"""`bertcnn tokens`, as people type it: spans, one-line errors, and no half-written files."""

import csv
import json

import pytest

from bertcnn.errors import ColumnError, OutputError
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tasks import text_columns
from bertcnn.tasks.token_labels.labeller import TokenLabeller, extract_spans
from tests.scoring.test_resume import Told, interrupt
from tests.tasks.small_answers import longer_encoder
from tests.tasks.test_labeller import LEARNED, OTHERS, QUICK, SMALL, TEXTS


@pytest.fixture(scope="module")
def model(shallow_encoder_folder, tmp_path_factory):
    """A saved token labeller; do not write to its folder."""
    folder = tmp_path_factory.mktemp("labeller") / "model"
    TokenLabeller(shallow_encoder_folder, windows=SMALL, training=QUICK).fit(LEARNED).save(folder)
    return folder


def write(path, texts):
    rows = [
        {
            "text": one.text,
            "spans": [{"start": s.start, "end": s.end, "label": s.label} for s in one.spans],
        }
        for one in texts
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_train_evaluate_and_mark(shallow_encoder_folder, tmp_path, run):
    encoder = longer_encoder(shallow_encoder_folder, tmp_path / "encoder")
    data = write(tmp_path / "data.jsonl", LEARNED)
    with data.open("a") as file:
        file.write('{"text": "the router", "spans": [[0, 99, "THING"]]}\n')
    out, valid = tmp_path / "model", write(tmp_path / "valid.jsonl", OTHERS)
    options = ("--encoder", encoder, "--epochs", 8, "--learning-rate", 0.01, "--valid", valid)
    code, _, err = run("tokens", "train", data, "--out", out, *options)
    assert code == 0, err
    assert "Next: bertcnn tokens mark" in err
    rejects = (tmp_path / "model.rejects.csv").read_text()
    assert "is not within the text" in rejects
    code, shown, err = run("tokens", "evaluate", out, valid, "--json", tmp_path / "f.json")
    assert code == 0, err
    assert shown.split()[:4] == ["precision", "recall", "F1", "spans"]
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["micro"]["f1"] > 0.9
    code, shown, err = run("tokens", "mark", out, "and the router is slow")
    assert code == 0, err
    label, words, place, share = shown.strip().split("\t")
    assert (label, words, place) == ("THING", "router", "8:14")
    assert 0.5 < float(share) <= 1
    code, shown, _ = run("tokens", "mark", out, "--json", "and the router is slow")
    assert json.loads(shown)[0]["label"] == "THING"
    code, _, err = run("tokens", "train", data, "--out", out, "--encoder", encoder)
    assert code == 2
    assert "--force" in err


def test_extract_adds_a_column_and_resumes(model, tmp_path, run, monkeypatch):
    labeller = TokenLabeller.load(model)
    source, texts = tmp_path / "in.csv", [*TEXTS, "", *TEXTS[:3]]
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(texts)])
    code, _, err = run("tokens", "extract", model, source, tmp_path / "out.csv")
    assert code == 0, err
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == texts
    for row, spans in zip(rows, labeller.spans(texts), strict=True):
        given = json.loads(row["spans"])
        assert [(one["start"], one["end"], one["label"]) for one in given] == [
            (one.start, one.end, one.label) for one in spans
        ]
        assert all(row["text"][one["start"] : one["end"]] == one["text"] for one in given)
    assert sum(row["spans"] != "[]" for row in rows) > 20
    monkeypatch.setattr(text_columns, "_CHUNK_ROWS", 8)
    extract_spans(labeller, source, tmp_path / "whole.csv")
    target = tmp_path / "again.csv"
    with pytest.raises(ScoringInterrupted):
        extract_spans(labeller, source, target, progress=Told(interrupt, 2))
    told = Told()
    extract_spans(labeller, source, target, progress=told)
    assert told.going_on
    assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    with pytest.raises(OutputError, match="exists"):
        extract_spans(labeller, source, target)
    with pytest.raises(ColumnError, match="a new column 'spans'"):
        extract_spans(labeller, target, tmp_path / "third.csv")
