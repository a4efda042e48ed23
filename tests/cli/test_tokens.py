"""`bertcnn tokens`, as people type it: train, evaluate and mark."""

import json

from tests.tasks.small_answers import longer_encoder
from tests.tasks.small_spans import LEARNED, OTHERS


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
