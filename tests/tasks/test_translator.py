"""The translator: it reproduces learned pairs in both architectures, also after loading."""

import json
import shutil

import keras
import numpy as np
import pytest

from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import BundleError, OutputError, SettingsError, TrainingError
from bertcnn.tasks.translation.saving import FOLDER
from bertcnn.tasks.translation.translator import Translator, alignment_page
from bertcnn.training import savepoints as saving
from tests.tasks.small_pairs import QUICK, SHORT, small_pairs
from tests.test_classifier import Notes
from tests.tiny import saved


def translator(architecture, **changes):
    return Translator(architecture, model=SHORT, training={**QUICK, **changes})


@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def fitted(request):
    return translator(request.param).fit(*small_pairs())


def test_pairs_come_back(fitted):
    sources, targets = small_pairs()
    for beam in (1, 3):
        found = fitted.translate(sources, beam=beam)
        right = [one.text == target for one, target in zip(found, targets, strict=True)]
        assert np.mean(right) > 0.9
        assert all(one.score <= 0 for one in found)
        assert [one.source for one in found] == sources
    assert all(len(one.alternatives) == 2 for one in found)
    assert all(one.alternatives[0][1] <= one.score for one in found)
    assert fitted.metrics_["validation_token_accuracy"] > 0.6


@pytest.mark.parametrize("architecture", ["transformer", "recurrent"])
def test_it_learns_in_bfloat16_as_well_and_ends_in_float32(architecture):
    heard = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: heard.append(logs))
    found = Translator(
        architecture, model=SHORT, training={**QUICK, "precision": "bfloat16"}, callbacks=[callback]
    ).fit(*small_pairs())
    assert len(heard) == found.metrics_["epochs"]
    sources, targets = small_pairs()
    right = [
        one.text == target for one, target in zip(found.translate(sources), targets, strict=True)
    ]
    assert np.mean(right) > 0.8


def test_an_alignment_has_a_row_for_each_piece_and_each_sums_to_1(fitted):
    (found,) = fitted.translate(["two and five"])
    assert found.alignment.shape == (len(found.pieces), len(found.source_pieces))
    np.testing.assert_allclose(found.alignment.sum(axis=1), 1, atol=1e-5)
    assert found.source_pieces[-1] == found.pieces[-1] == "[SEP]"


def test_a_text_is_translated_alike_alone_and_among_others(fitted):
    sources = [*small_pairs()[0], "", "one " * 40, "?"]
    together = fitted.translate(sources)
    assert [one.text for one in fitted.translate(sources[::-1])][::-1] == [
        one.text for one in together
    ]
    for row in (0, 17, 36, 37):
        (alone,) = fitted.translate([sources[row]])
        assert alone.text == together[row].text
        assert alone.score == pytest.approx(together[row].score, abs=1e-4)
    assert (together[36].text, together[36].pieces) == ("", ())
    assert fitted.translate([]) == []


def test_a_saved_translator_translates_alike(fitted, tmp_path):
    identity = fitted.save(tmp_path / "model")
    again = Translator.load(tmp_path / "model")
    sources = small_pairs()[0]
    for one, other in zip(again.translate(sources), fitted.translate(sources), strict=True):
        assert (one.text, one.score, one.alternatives) == (
            other.text,
            other.score,
            other.alternatives,
        )
    assert again.metrics_ == fitted.metrics_
    assert again.save(tmp_path / "again") == identity
    with pytest.raises(OutputError, match="holds a saved translator"):
        again.save(tmp_path / "model")
    again.save(tmp_path / "model", overwrite=True)


def test_an_interrupted_training_ends_with_the_weights_of_another(tmp_path, monkeypatch):
    architecture = "transformer"  # the other one is trained by the same loop
    monkeypatch.setattr(saving, "_SECONDS_BETWEEN", 0.0)
    whole = translator(architecture, epochs=4).fit(*small_pairs())

    class Stop(Notes):
        batches = 0

        def advance(self, done, **_):
            self.batches += done
            if self.batches == 9:
                raise KeyboardInterrupt

    stopped = Translator(
        architecture, model=SHORT, training={**QUICK, "epochs": 4}, progress=Stop()
    )
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(*small_pairs(), savepoints=tmp_path / "points")
    notes = Notes()
    resumed = Translator(architecture, model=SHORT, training={**QUICK, "epochs": 4}, progress=notes)
    resumed.fit(*small_pairs(), savepoints=tmp_path / "points")
    assert any("resuming an interrupted training after step " in note for note in notes.notes)
    assert resumed.save(tmp_path / "one") == whole.save(tmp_path / "other")


def test_what_cannot_be_used_is_refused(fitted, tmp_path):
    for make, message in (
        (lambda: Translator("lstm"), "architecture 'lstm'; expected one of transformer, recurrent"),
        (lambda: Translator(model={"heads": 3}), "a multiple of heads"),
        (lambda: Translator(training={"epochs": 0}), "epochs was '0'"),
        (lambda: fitted.translate(["a"], beam=0), "beam 0; expected a whole number"),
        (lambda: fitted.translate("a"), "list"),
    ):
        with pytest.raises(SettingsError, match=message):
            make()
    for use in (
        lambda: Translator().translate(["a"]),
        lambda: Translator().save(tmp_path / "new"),
    ):
        with pytest.raises(TrainingError, match="a translator without a model"):
            use()


def test_a_damaged_or_another_folder_is_refused(fitted, tmp_path, encoder_folder):
    classifier = saved(encoder_folder)
    fitted.save(tmp_path / "model")
    for name in ("config.json", "vocab.txt", "model.safetensors", "metrics.json"):
        shutil.copytree(tmp_path / "model", tmp_path / name)
        content = (tmp_path / name / name).read_bytes()
        (tmp_path / name / name).write_bytes(content[:-2] + b"9\n")
        with pytest.raises(BundleError, match=r"changed|damaged|saved"):
            Translator.load(tmp_path / name)
    with pytest.raises(
        BundleError, match="holds a 'bertcnn bundle'; expected a bertcnn translator"
    ):
        FOLDER.read(classifier)
    with pytest.raises(
        BundleError, match="holds a 'bertcnn translator'; expected a bertcnn bundle"
    ):
        read_bundle(tmp_path / "model")
    with pytest.raises(OutputError):
        fitted.save(classifier, overwrite=True)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["schema_version"] == 1


def test_the_page_of_alignments_shows_each_piece_and_escapes_texts(fitted):
    page = alignment_page(fitted.translate(["two and five", "<b>one</b>", ""]))
    assert page.count("<table>") == 2
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert "<b>one" not in page
    assert "http" not in page
