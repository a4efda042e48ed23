"""The token labeller: it finds learned spans, in the precision of the compiled model."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bertcnn.errors import BundleError, SettingsError, TableError
from bertcnn.storage.manifest import MANIFEST, write_manifest
from bertcnn.tasks.token_labels.labelled_texts import LabelledText
from bertcnn.tasks.token_labels.labeller import TokenLabeller, load_token_labeller
from bertcnn.tasks.token_labels.saving import FOLDER
from tests.tasks.small_spans import LEARNED, OTHERS, QUICK, SMALL

TEXTS = [one.text for one in OTHERS]


def labeller(encoder):
    return TokenLabeller(encoder, windows=SMALL, training=QUICK)


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


def test_a_long_text_is_read_in_windows(fitted):
    long = "it is slow and still down " * 12 + "and the router is not"
    texts = [long, "", "\n", "the router\u0301 is"]
    found = exact(fitted.spans(texts))
    assert any(one[0] == long.index("router") for one in found[0])
    assert found[1:3] == [[], []]


def test_a_text_with_too_many_windows_is_refused_or_cut(shallow_encoder_folder):
    windows, training = {**SMALL, "windows": 2}, {**QUICK, "epochs": 1}
    model = TokenLabeller(shallow_encoder_folder, windows=windows, training=training)
    model.fit([one for one in LEARNED if len(one.text.split()) < 12])
    with pytest.raises(TableError, match="at most 2 windows"):
        model.spans(["it is slow " * 40])
    cut = model.spans(["it is slow " * 40], cut=True)[0]
    assert all(span.end <= 34 * len("it is slow ") / 3 + 12 for span in cut)


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


def test_a_forged_config_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
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


def test_unusable_texts_are_refused(shallow_encoder_folder):
    new = labeller(shallow_encoder_folder)
    with pytest.raises(TableError, match="3 labelled texts; expected at least 10"):
        new.fit(LEARNED[:3])
    with pytest.raises(TableError, match="texts without a span"):
        new.fit([LabelledText(one.text) for one in LEARNED])
    with pytest.raises(SettingsError, match="texts of the type list"):
        new.fit(TEXTS)
