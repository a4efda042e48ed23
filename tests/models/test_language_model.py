"""The decoder-only Transformer, with and without kept keys and values."""

import keras
import numpy as np
import pytest

from bertcnn.models import CausalTransformer
from bertcnn.settings import LanguageModelSettings
from bertcnn.shapes import language_model_shapes
from bertcnn.training.step import make_gradients

VOCABULARY, LENGTH = 11, 8
SETTINGS = LanguageModelSettings(
    vocabulary_size=VOCABULARY,
    width=16,
    layers=2,
    heads=4,
    feed_forward_width=24,
    context_tokens=LENGTH,
    dropout=0.1,
)
TOKENS = np.array([[2, 5, 6, 7, 8, 9, 5, 4], [2, 9, 9, 4, 6, 10, 1, 7]], np.int32)


@pytest.fixture(scope="module")
def model():
    """Weights larger than a fresh model's, and no bias at 0, so that every term matters."""
    made = CausalTransformer(SETTINGS, seed=1)
    generator = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + generator.normal(0, 0.2, weight.shape))
    return made


def logits_of(model, token_ids=TOKENS):
    return np.asarray(model({"token_ids": token_ids}))


def test_it_predicts_every_next_token(model):
    logits = logits_of(model)
    assert logits.shape == (*TOKENS.shape, VOCABULARY)
    assert logits.dtype == "float32"
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("layers", [1, 3])
def test_its_weights_have_the_shapes_that_are_known_without_it(layers):
    settings = SETTINGS.model_copy(update={"layers": layers})
    shapes = {weight.path: tuple(weight.shape) for weight in CausalTransformer(settings).weights}
    assert shapes == language_model_shapes(settings)


@pytest.mark.on_jax
@pytest.mark.parametrize("changed", range(1, LENGTH))
def test_a_later_token_never_changes_an_earlier_prediction(model, changed):
    other = TOKENS.copy()
    other[:, changed] = 3
    before, after = logits_of(model), logits_of(model, other)
    assert np.array_equal(before[:, :changed], after[:, :changed])
    assert (before[:, changed:] != after[:, changed:]).any(axis=-1).all()


@pytest.mark.on_jax
@pytest.mark.parametrize("known", [1, 3, LENGTH])
def test_steps_with_kept_keys_and_values_equal_recomputing_the_whole_prefix(model, known):
    whole = logits_of(model)
    prefix = np.where(np.arange(LENGTH) < known, TOKENS, 0)  # the rest is not known yet
    kept = model.read(keras.ops.convert_to_tensor(prefix))
    for position in range(known - 1, LENGTH):
        token_ids = keras.ops.convert_to_tensor(TOKENS[:, position])
        logits, kept = model.step(token_ids, position, kept)
        np.testing.assert_allclose(logits, whole[:, position], rtol=0, atol=1e-5)


def test_a_step_of_training_reaches_every_weight(model):
    targets = {"target_ids": np.roll(TOKENS, -1, axis=1), "weights": np.ones(TOKENS.shape)}

    def loss(logits, batch):
        logs = keras.ops.log_softmax(logits)
        true = keras.ops.one_hot(batch["target_ids"], VOCABULARY)
        return {"loss": -keras.ops.sum(logs * true)}

    _, gradients = make_gradients(model, loss)({"token_ids": TOKENS}, targets)
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        # a bias of the keys adds the same to all scores of a query
        assert np.abs(gradient).max() > 1e-6 or weight.path.endswith("key/bias"), weight.path


def test_it_is_made_again_from_its_configuration(model):
    again = CausalTransformer.from_config(model.get_config())
    assert again.settings == SETTINGS
    assert [one.path for one in again.weights] == [one.path for one in model.weights]
