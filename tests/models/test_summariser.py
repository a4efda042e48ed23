"""The decoder that generates and copies, on a frozen encoder."""

import keras
import numpy as np
import pytest

from bertcnn.models.bert import Bert
from bertcnn.models.summariser import BertSummariser
from bertcnn.settings import EncoderSettings, SummariserSettings
from bertcnn.shapes import encoder_shapes, summariser_shapes
from bertcnn.tasks.summaries.fitting import summary_figures
from bertcnn.training.step import make_gradients

VOCABULARY, TOKENS = 11, 5
ENCODER = EncoderSettings(
    vocabulary_size=VOCABULARY, width=16, layers=1, heads=4, feed_forward_width=24
)
SETTINGS = SummariserSettings(
    layers=2, feed_forward_width=24, source_tokens=10, target_tokens=TOKENS
)
SOURCE = np.array([[4, 5, 6, 7, 8, 3], [9, 4, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[2, 5, 6, 7, 8], [2, 9, 9, 4, 6], [2, 10, 7, 6, 1]], np.int32)


@pytest.fixture(scope="module")
def model():
    """Weights larger than a fresh model's, and no bias at 0, so that every term matters."""
    made = BertSummariser(Bert(ENCODER, seed=2), SETTINGS, dropout=0.1, seed=1)
    generator = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + generator.normal(0, 0.2, weight.shape))
    return made


def inputs_of(model, source_ids=SOURCE, target_ids=TARGET):
    memory = model.encoder(
        {
            "token_ids": source_ids,
            "segment_ids": np.zeros_like(source_ids),
            "padding_mask": (source_ids != 0).astype(np.int32),
        }
    )
    return {"sequence_output": memory, "source_ids": source_ids, "target_ids": target_ids}


def mixture(model, **changes):
    """Probabilities of every next token, float [B, T, V], from the three outputs."""
    inputs = inputs_of(model, **changes)
    outputs = {name: np.asarray(value) for name, value in model(inputs).items()}
    copied = outputs["pointer"] @ np.eye(VOCABULARY)[inputs["source_ids"]]
    share = outputs["generated"][..., None]
    return share * np.exp(outputs["vocabulary"]) + (1 - share) * copied


def test_its_probabilities_sum_to_1_and_padding_is_never_copied(model):
    np.testing.assert_allclose(mixture(model).sum(axis=-1), 1.0, rtol=0, atol=1e-5)
    pointer = np.asarray(model(inputs_of(model))["pointer"])
    assert (pointer[np.repeat((SOURCE == 0)[:, None], TOKENS, axis=1)] == 0).all()


@pytest.mark.parametrize("layers", [1, 2])
def test_its_weights_have_the_shapes_that_are_known_without_it(layers):
    settings = SETTINGS.model_copy(update={"layers": layers})
    weights = BertSummariser(Bert(ENCODER), settings).weights
    shapes = summariser_shapes(ENCODER, settings)
    assert {weight.path: tuple(weight.shape) for weight in weights} == shapes


@pytest.mark.on_jax
def test_step_by_step_it_predicts_the_same(model):
    expected = mixture(model)
    source = model.read(keras.ops.convert_to_tensor(SOURCE))
    written = model.begin(source)
    for place in range(TOKENS):
        logs, written, _ = model.step(
            keras.ops.convert_to_tensor(TARGET[:, place]), place, source, written
        )
        np.testing.assert_allclose(np.exp(logs), expected[:, place], rtol=0, atol=1e-5)


def test_the_pointer_goes_on_after_the_word_written_last(model):
    """With a large score for it, and no other, the token after "5" and after "9" is copied."""
    twin = BertSummariser.from_config(model.get_config())
    twin.gate.bias.assign([-20.0])
    twin.continuation.bias.assign([20.0])
    following = mixture(twin)
    assert following[0, 1, 6] > 0.99
    assert following[0, 2, 7] > 0.99
    assert following[1, 1, 4] > 0.99


def test_without_copying_only_the_vocabulary_counts(model):
    twin = BertSummariser(
        Bert(ENCODER), SETTINGS.model_copy(update={"copies": False}), dropout=0.1, seed=1
    )
    twin.set_weights(model.get_weights())
    logs = np.asarray(twin(inputs_of(twin))["vocabulary"])
    np.testing.assert_allclose(mixture(twin), np.exp(logs), rtol=0, atol=1e-6)
    assert not np.allclose(mixture(twin), mixture(model), atol=1e-3)


def test_its_config_makes_the_same_model(model):
    twin = BertSummariser.from_config(model.get_config())
    assert twin.get_config() == model.get_config()
    twin.set_weights(model.get_weights())
    np.testing.assert_array_equal(mixture(twin), mixture(model))


@pytest.mark.on_jax
def test_a_gradient_reaches_every_weight_but_the_encoder(model):
    targets = {
        "target_ids": np.roll(TARGET, -1, axis=1),
        "source_ids": SOURCE,
        "weights": np.ones(TARGET.shape, np.float32),
    }
    inputs = {name: np.asarray(value) for name, value in inputs_of(model).items()}
    gradients = make_gradients(model, summary_figures)(inputs, targets)[1]
    largest = {
        weight.path: np.abs(gradient).max()
        for weight, gradient in zip(model.trainable_variables, gradients, strict=True)
    }
    expected = summariser_shapes(ENCODER, SETTINGS).keys() - encoder_shapes(ENCODER).keys()
    assert largest.keys() == expected
    # a constant added to all scores does not change a softmax: that bias never has a gradient
    without = {path for path, value in largest.items() if value < 1e-4}
    assert without == {path for path in largest if path.endswith("key/bias")}
