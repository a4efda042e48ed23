"""The token labeller: it finds learned spans, also after saving and loading."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bertcnn.errors import BundleError, OutputError, SettingsError, TableError, TrainingError
from bertcnn.storage.manifest import MANIFEST, write_manifest
from bertcnn.tasks.question_answering.saving import FOLDER as ANSWERER
from bertcnn.tasks.token_labels.labelled_texts import LabelledText, Span
from bertcnn.tasks.token_labels.labeller import TokenLabeller, load_token_labeller
from bertcnn.tasks.token_labels.saving import FOLDER
from bertcnn.training import savepoints as saving

SMALL = {"max_tokens": 24, "stride": 12}
QUICK = {
    "epochs": 4,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "dropout": 0.05,
    "validation_fraction": 0.3,
    "compiled_shapes": 1,
}
THINGS = ("router", "modem", "cable", "box")
WORDS = ("the", "is", "not", "and", "it", "has", "no", "still", "slow", "down", "since", "today")


def made_up(rows=160):
    """Texts that name a thing, mostly, of one or two words; some are long."""
    generator = np.random.default_rng(0)
    texts = []
    for row in range(rows):
        words = generator.choice(WORDS, generator.integers(6, 40 if row % 9 == 0 else 9)).tolist()
        spans = []
        if row % 4:
            place = int(generator.integers(len(words)))
            words[place] = str(generator.choice(THINGS)) + (" light" if row % 2 else "")
            start = len(" ".join([*words[:place], ""]))
            spans.append(Span(start, start + len(words[place]), "THING"))
        spans.extend(Span(at, at + 5, "DAY") for at in found(" ".join(words), "today"))
        texts.append(LabelledText(" ".join(words), tuple(sorted(spans))))
    return texts


def found(text, word):
    return [match.start() for match in re.finditer(word, text)]


LEARNED, OTHERS = made_up()[:120], made_up()[120:]
TEXTS = [one.text for one in OTHERS]


def labeller(encoder, **changes):
    return TokenLabeller(encoder, windows=SMALL, training={**QUICK, **changes})


@pytest.fixture(scope="module", autouse=True)
def _int8(cpu_with_vnni):
    """Engines are in int8, and are used."""


@pytest.fixture(scope="module")
def fitted(shallow_encoder_folder):
    """Do not change it."""
    return labeller(shallow_encoder_folder).fit(LEARNED)


def exact(spans):
    return [[(one.start, one.end, one.label) for one in row] for row in spans]


def test_it_finds_spans_in_other_texts(fitted):
    figures = fitted.evaluate(OTHERS)
    assert figures.micro.f1 > 0.9
    assert fitted.labels == ("DAY", "THING")
    assert fitted.metrics_["micro"]["f1"] > 0.9
    for row in fitted.spans(TEXTS):
        assert all(0 < span.probability <= 1 for span in row)


def test_a_text_is_read_alike_alone_and_among_others_and_in_windows(fitted):
    long = "it is slow and still down " * 12 + "and the router is not"
    texts = [*TEXTS[:4], long, "", "\n", "☃ 你好", "the router\u0301 is"]
    together = exact(fitted.spans(texts))
    assert together == [exact(fitted.spans([text]))[0] for text in texts]
    start = long.index("router")
    assert any(one[0] == start for one in together[4])
    assert together[5:7] == [[], []]
    assert fitted.spans([]) == []


def test_a_text_with_too_many_windows_is_refused_or_cut(shallow_encoder_folder):
    model = TokenLabeller(shallow_encoder_folder, windows={**SMALL, "windows": 2})
    model._training = model._training.model_copy(update={**QUICK, "epochs": 1})
    model.fit([one for one in LEARNED if len(one.text.split()) < 12])
    with pytest.raises(TableError, match="at most 2 windows"):
        model.spans(["it is slow " * 40])
    cut = model.spans(["it is slow " * 40], cut=True)[0]
    assert all(span.end <= 34 * len("it is slow ") / 3 + 12 for span in cut)


def test_a_saved_one_finds_the_same_without_keras(fitted, tmp_path):
    identity = fitted.save(tmp_path / "model")
    again = load_token_labeller(tmp_path / "model")
    assert again.spans(TEXTS) == fitted.spans(TEXTS)
    assert (again.identity, again.metrics_) == (identity, fitted.metrics_)
    with pytest.raises(OutputError, match="holds a saved token labeller"):
        again.save(tmp_path / "model")
    script = (
        "import json, sys\n"
        "from bertcnn.tasks.token_labels import load_token_labeller\n"
        "spans = load_token_labeller(sys.argv[1]).spans(json.loads(sys.argv[2]))\n"
        "heavy = sorted({'keras', 'tensorflow', 'jax', 'torch', 'nncf'} & set(sys.modules))\n"
        "print(json.dumps([heavy, [[(s.start, s.end, s.label) for s in row] for row in spans]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model", json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy, spans = json.loads(done.stdout)
    assert heavy == []
    assert [list(map(tuple, row)) for row in spans] == exact(fitted.spans(TEXTS))


def test_it_runs_in_the_precision_that_finds_what_float32_finds(fitted):
    config = fitted._model.config
    assert fitted.engine_name == f"openvino-{config.precision}"
    assert config.precision_reason.startswith("int8 gives the result of float32 for ")
    assert "of the validation texts, with F1 " in config.precision_reason
    plain = {"precision": "float32"}
    again = TokenLabeller()
    again._take(replace(fitted._model, config=config.model_copy(update=plain)))
    assert again.engine_name == "openvino-float32"
    spans, others = exact(fitted.spans(TEXTS)), exact(again.spans(TEXTS))
    assert np.mean([one == other for one, other in zip(spans, others, strict=True)]) > 0.95


def test_a_changed_file_and_a_forged_config_are_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for name in FOLDER.form.largest:
        shutil.copytree(tmp_path / "model", tmp_path / name)
        content = (tmp_path / name / name).read_bytes()
        (tmp_path / name / name).write_bytes(content[:-2] + b"9\n")
        with pytest.raises(BundleError, match="was changed after the model was saved"):
            load_token_labeller(tmp_path / name)
        (tmp_path / name / name).unlink()
        with pytest.raises(BundleError, match=re.escape(name)):
            load_token_labeller(tmp_path / name)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for change in (
        {"labels": []},
        {"labels": ["A", "A"]},
        {"labels": ["A", "B", "C"]},
        {"precision": "int4"},
        {"more": 1},
    ):
        (tmp_path / "model" / "config.json").write_text(json.dumps(config | change))
        members = {n: (tmp_path / "model" / n).read_bytes() for n in FOLDER.form.largest}
        manifest = write_manifest(FOLDER.form, members)[1]
        (tmp_path / "model" / MANIFEST).write_bytes(manifest)
        with pytest.raises(BundleError):
            load_token_labeller(tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / MANIFEST).write_bytes(write_manifest(ANSWERER.form, {})[1])
    with pytest.raises(BundleError, match="expected a bertcnn token labeller"):
        load_token_labeller(tmp_path / "other")


def test_a_seed_gives_the_same_model_also_after_an_interruption(
    fitted, shallow_encoder_folder, tmp_path, monkeypatch
):
    class StopsError(Exception):
        pass

    save = saving.Savepoints.save
    monkeypatch.setattr(saving.Savepoints, "is_due", True)

    def stops(self, step, *rest):
        save(self, step, *rest)
        if step == 8:
            raise StopsError

    monkeypatch.setattr(saving.Savepoints, "save", stops)
    with pytest.raises(StopsError):
        labeller(shallow_encoder_folder).fit(LEARNED, savepoints=tmp_path)
    monkeypatch.setattr(saving.Savepoints, "save", save)
    again = labeller(shallow_encoder_folder).fit(LEARNED, savepoints=tmp_path)
    ours, theirs = again._model.tensors, fitted._model.tensors
    assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_what_cannot_be_learned_is_refused_in_one_line(shallow_encoder_folder):
    new = labeller(shallow_encoder_folder)
    with pytest.raises(TrainingError, match="a token labeller without a model"):
        new.spans(["a"])
    with pytest.raises(TableError, match="3 labelled texts; expected at least 10"):
        new.fit(LEARNED[:3])
    with pytest.raises(TableError, match="texts without a span"):
        new.fit([LabelledText(one.text) for one in LEARNED])
    with pytest.raises(SettingsError, match="texts of the type list"):
        new.fit(TEXTS)
    with pytest.raises(SettingsError, match="max_tokens 4000 and an encoder with"):
        TokenLabeller(shallow_encoder_folder, windows={"max_tokens": 4000}).fit(LEARNED)
