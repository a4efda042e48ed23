"""Attribution: attention maps and integrated gradients."""

import keras
import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.inference.attribution import gradient_of
from tests.tiny import trained

TEXTS = ["My router's led is red", "refund \ud83d\ude00 the bill", ""]
LAYERS, HEADS = 2, 2


def test_attention_has_a_map_for_each_layer_and_head(encoder_folder):
    for maps in trained(encoder_folder).attention(TEXTS):
        length = len(maps.tokens)
        assert (maps.tokens[0], maps.tokens[-1]) == ("[CLS]", "[SEP]")
        assert maps.weights.shape == (LAYERS, HEADS, length, length)
        np.testing.assert_allclose(maps.weights.sum(axis=-1), 1.0, atol=1e-5)
    assert not np.allclose(maps.weights[0], maps.weights[1])


@pytest.mark.parametrize("label", ["billing", "hardware", "software"])
def test_integrated_gradients_are_complete(encoder_folder, label):
    """Sundararajan et al. 2017, proposition 1."""
    coarse, fine = (
        trained(encoder_folder).explain(
            TEXTS[:2], label=label, method="integrated_gradients", steps=steps
        )
        for steps in (4, 400)
    )
    exact = trained(encoder_folder).explain(TEXTS[:2], label=label)
    for attribution, rough, explanation in zip(fine, coarse, exact, strict=True):
        difference = attribution.logit - attribution.baseline
        assert attribution.logit == pytest.approx(explanation.logit, abs=1e-4)
        assert sum(token.share for token in attribution.tokens) == pytest.approx(
            difference, abs=0.01
        )
        assert abs(sum(token.share for token in rough.tokens) - difference) < 0.5


@pytest.mark.on_jax
def test_the_backends_gradient_is_the_derivative_of_each_row():
    hidden = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    found = gradient_of(lambda rows: keras.ops.sum(rows**3, axis=(1, 2)))(hidden)
    np.testing.assert_allclose(found, 3 * hidden**2, rtol=1e-5)


def test_unknown_methods_labels_and_steps_are_refused(encoder_folder):
    classifier = trained(encoder_folder)
    with pytest.raises(
        SettingsError, match=r"method 'lime'; expected 'windows' or 'integrated_gradients'"
    ):
        classifier.explain(["refund"], method="lime")
    with pytest.raises(SettingsError, match=r"label 'spam'; expected one of the model's"):
        classifier.explain(["refund"], label="spam", method="integrated_gradients")
    with pytest.raises(SettingsError, match=r"steps '0'; expected a whole number of at least 1"):
        classifier.explain(["refund"], method="integrated_gradients", steps=0)
