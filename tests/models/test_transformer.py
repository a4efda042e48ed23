"""The Transformer as a whole."""

import keras
import numpy as np
import pytest

from bertcnn.models.transformer import Transformer
from bertcnn.settings import TranslatorSettings
from bertcnn.shapes import parameters_of, translator_shapes
from bertcnn.training.step import make_gradients

VOCABULARY, TOKENS = 11, 5
SETTINGS = TranslatorSettings(
    vocabulary_size=VOCABULARY,
    width=16,
    layers=2,
    heads=4,
    feed_forward_width=24,
    source_tokens=10,
    target_tokens=6,
    dropout=0.1,
)
SOURCE = np.array([[4, 5, 6, 7, 8, 3], [9, 4, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[2, 5, 6, 7, 8], [2, 9, 9, 4, 6], [2, 10, 7, 6, 1]], np.int32)
INPUTS = {"source_ids": SOURCE, "target_ids": TARGET}


@pytest.fixture(scope="module")
def model():
    """Weights larger than a fresh model's, and no bias at 0, so that every term matters."""
    made = Transformer(SETTINGS, seed=1)
    generator = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + generator.normal(0, 0.2, weight.shape))
    return made


def logits_of(model, source_ids=SOURCE, target_ids=TARGET):
    return np.asarray(model({"source_ids": source_ids, "target_ids": target_ids}))


def test_it_predicts_every_next_token(model):
    logits = model(INPUTS)
    assert tuple(logits.shape) == (*TARGET.shape, VOCABULARY)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("layers", [1, 3])
def test_its_weights_have_the_shapes_that_are_known_without_it(layers):
    settings = SETTINGS.model_copy(update={"layers": layers})
    model = Transformer(settings)
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == translator_shapes(
        settings
    )
    assert model.count_params() == parameters_of(translator_shapes(settings))


@pytest.mark.on_jax
@pytest.mark.parametrize("changed", range(1, TOKENS))
def test_a_later_token_never_changes_an_earlier_prediction(model, changed):
    other = TARGET.copy()
    other[:, changed] = 3
    before, after = logits_of(model), logits_of(model, target_ids=other)
    assert np.array_equal(before[:, :changed], after[:, :changed])
    assert (before[:, changed:] != after[:, changed:]).any(axis=-1).all()


@pytest.mark.on_jax
@pytest.mark.parametrize("more", [1, 4])
def test_more_padding_of_the_source_changes_next_to_nothing(model, more):
    padded = np.pad(SOURCE, ((0, 0), (0, more)))
    np.testing.assert_allclose(logits_of(model, padded), logits_of(model), rtol=0, atol=1e-5)


def test_the_order_of_the_source_matters(model):
    other = SOURCE.copy()
    other[0, :2] = SOURCE[0, 1::-1]
    assert not np.allclose(logits_of(model, other)[0], logits_of(model)[0], atol=1e-2)


@pytest.mark.on_jax
def test_step_by_step_it_predicts_the_same(model):
    expected = logits_of(model)
    source = model.read(keras.ops.convert_to_tensor(SOURCE))
    written = model.begin(source)
    for place in range(TOKENS):
        logits, written, attention = model.step(
            keras.ops.convert_to_tensor(TARGET[:, place]), place, source, written
        )
        np.testing.assert_allclose(logits, expected[:, place], rtol=0, atol=1e-5)
        attention = np.asarray(attention)
        np.testing.assert_allclose(attention.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
        assert (attention[SOURCE == 0] == 0).all()


def test_its_config_makes_the_same_model():
    model = Transformer(SETTINGS, pad_id=1, seed=3, name="translator")
    twin = Transformer.from_config(model.get_config())
    assert twin.get_config() == model.get_config()
    assert (twin.settings, twin.pad_id, twin.name) == (SETTINGS, 1, "translator")
    np.testing.assert_array_equal(logits_of(twin), logits_of(model))  # the seed is part of it
    other = Transformer(SETTINGS, pad_id=1, seed=4)
    assert not np.allclose(logits_of(other), logits_of(model))


def test_dropout_acts_in_training_only(model):
    np.testing.assert_array_equal(logits_of(model), logits_of(model))
    assert not np.allclose(model(INPUTS, training=True), logits_of(model))


def test_both_layouts_of_the_positions_can_be_chosen(model):
    settings = SETTINGS.model_copy(update={"positions": "concatenated"})
    other = Transformer(settings)
    other.set_weights(model.get_weights())
    assert not np.allclose(logits_of(other), logits_of(model))


@pytest.mark.on_jax
def test_a_gradient_reaches_every_weight(model):
    def objective(logits, targets):
        logs = keras.ops.log_softmax(logits, axis=-1)
        return {"loss": -keras.ops.sum(logs * keras.ops.one_hot(targets["next"], VOCABULARY))}

    gradients = make_gradients(model, objective)(INPUTS, {"next": np.roll(TARGET, -1, axis=1)})[1]
    largest = {
        weight.path: np.abs(gradient).max()
        for weight, gradient in zip(model.trainable_variables, gradients, strict=True)
    }
    assert largest.keys() == translator_shapes(SETTINGS).keys()
    # a constant added to all scores does not change a softmax: that bias never has a gradient
    without = {path for path, value in largest.items() if value < 1e-4}
    assert without == {path for path in largest if path.endswith("key/bias")}
