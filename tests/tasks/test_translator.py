"""The translator: it reproduces learned pairs in both architectures."""

import keras
import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.tasks.translation.translator import Translator, alignment_page
from tests.tasks.small_pairs import QUICK, SHORT, small_pairs


@pytest.fixture(scope="module", params=["transformer", "recurrent"])
def fitted(request):
    return Translator(request.param, model=SHORT, training=QUICK).fit(*small_pairs())


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


def test_a_blank_text_has_no_translation(fitted):
    (found,) = fitted.translate([" "])
    assert (found.text, found.pieces, found.score) == ("", (), 0.0)


def test_unusable_settings_are_refused(fitted):
    for make, message in (
        (lambda: Translator("lstm"), "architecture 'lstm'; expected one of transformer, recurrent"),
        (lambda: Translator(model={"heads": 3}), "a multiple of heads"),
        (lambda: fitted.translate(["a"], beam=0), "beam 0; expected a whole number"),
    ):
        with pytest.raises(SettingsError, match=message):
            make()


def test_the_page_of_alignments_shows_each_piece_and_escapes_texts(fitted):
    page = alignment_page(fitted.translate(["two and five", "<b>one</b>", ""]))
    assert page.count("<table>") == 2
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert "<b>one" not in page
    assert "http" not in page
