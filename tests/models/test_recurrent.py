"""The recurrent translator as a whole, compared with its equations in NumPy."""

import keras
import numpy as np
import pytest

from bertcnn.models.recurrent import RecurrentTranslator
from bertcnn.models.weights import extract
from bertcnn.settings import TranslatorSettings
from bertcnn.shapes import parameters_of, translator_shapes
from bertcnn.training.step import make_gradients

VOCABULARY, WIDTH, TOKENS = 11, 8, 5
SETTINGS = TranslatorSettings(
    architecture="recurrent",
    vocabulary_size=VOCABULARY,
    width=WIDTH,
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
    made = RecurrentTranslator(SETTINGS, seed=1)
    generator = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + generator.normal(0, 0.3, weight.shape))
    return made


def logits_of(model, source_ids=SOURCE, target_ids=TARGET):
    return np.asarray(model({"source_ids": source_ids, "target_ids": target_ids}))


class Plain:
    """The equations of Bahdanau et al. 2014 for one text without padding, with an LSTM."""

    def __init__(self, model):
        self.weights = {
            name: value.astype(np.float64) for name, value in extract(model.weights).items()
        }

    def affine(self, name, *inputs):
        return (
            np.concatenate(inputs) @ self.weights[f"{name}/kernel"] + self.weights[f"{name}/bias"]
        )

    def lstm(self, name, given, state, cell):
        gates = self.affine(name, given) + state @ self.weights[f"{name}/recurrent_kernel"]
        entering, kept, candidate, leaving = np.split(gates, 4)
        sigmoid = lambda values: 1 / (1 + np.exp(-values))  # noqa: E731
        cell = sigmoid(kept) * cell + sigmoid(entering) * np.tanh(candidate)
        return sigmoid(leaving) * np.tanh(cell), cell

    def states(self, name, embedded):
        state, cell, found = np.zeros(WIDTH), np.zeros(WIDTH), []
        for given in embedded:
            state, cell = self.lstm(name, given, state, cell)
            found.append(state)
        return found

    def read(self, source_ids):
        """The source states [S, 2D] and the first decoder state [D]."""
        embedded = self.weights["tokens/embeddings"][source_ids]
        forward = self.states("forward/lstm_cell", embedded)
        backward = self.states("backward/lstm_cell", embedded[::-1])[::-1]
        memory = np.concatenate([forward, backward], axis=1)
        return memory, np.tanh(self.affine("first_state", backward[0]))

    def step(self, token_id, memory, state, cell):
        """Logits [V], attention [S], and the next state and cell, [D] each."""
        given = self.weights["tokens/embeddings"][token_id]
        query, key, bias, score = (
            self.weights[f"attention/{name}"] for name in ("query", "memory", "bias", "score")
        )
        exponentials = np.exp(np.tanh(state @ query + memory @ key + bias) @ score[:, 0])
        attention = exponentials / exponentials.sum()
        context = attention @ memory
        state, cell = self.lstm("cell", np.concatenate([given, context]), state, cell)
        output = np.tanh(self.affine("output", given, state, context))
        return self.weights["tokens/embeddings"] @ output, attention, state, cell


def test_it_predicts_every_next_token(model):
    logits = model(INPUTS)
    assert tuple(logits.shape) == (*TARGET.shape, VOCABULARY)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert np.isfinite(logits).all()


def test_its_weights_have_the_shapes_that_are_known_without_it(model):
    shapes = translator_shapes(SETTINGS)
    assert {weight.path: tuple(weight.shape) for weight in model.weights} == shapes
    assert model.count_params() == parameters_of(shapes)


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
    assert not np.allclose(logits_of(model, other)[0], logits_of(model)[0], atol=1e-3)


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
        assert (attention[SOURCE != 0] > 0).all()


@pytest.mark.on_jax
def test_reading_and_every_step_equal_the_equations_written_out_in_numpy(model):
    plain = Plain(model)
    source = model.read(keras.ops.convert_to_tensor(SOURCE))
    lengths = (SOURCE != 0).sum(axis=1)
    states = []
    for row, length in enumerate(lengths):
        memory, first = plain.read(SOURCE[row, :length])
        np.testing.assert_allclose(source[1][row, :length], memory, rtol=0, atol=1e-5)
        np.testing.assert_allclose(source[3][row], first, rtol=0, atol=1e-5)
        states.append((memory, first, np.zeros(WIDTH)))
    written = model.begin(source)
    for place in range(TOKENS):
        found_logits, written, found_attention = model.step(
            keras.ops.convert_to_tensor(TARGET[:, place]), place, source, written
        )
        for row, length in enumerate(lengths):
            memory, state, cell = states[row]
            logits, attention, state, cell = plain.step(TARGET[row, place], memory, state, cell)
            states[row] = memory, state, cell
            np.testing.assert_allclose(found_logits[row], logits, rtol=0, atol=1e-5)
            np.testing.assert_allclose(found_attention[row, :length], attention, rtol=0, atol=1e-5)
            np.testing.assert_allclose(written[0][row], state, rtol=0, atol=1e-5)
            np.testing.assert_allclose(written[1][row], cell, rtol=0, atol=1e-5)


def test_its_config_makes_the_same_model():
    model = RecurrentTranslator(SETTINGS, pad_id=1, seed=3, name="translator")
    twin = RecurrentTranslator.from_config(model.get_config())
    assert twin.get_config() == model.get_config()
    assert (twin.settings, twin.pad_id, twin.name) == (SETTINGS, 1, "translator")
    np.testing.assert_array_equal(logits_of(twin), logits_of(model))  # the seed is part of it
    other = RecurrentTranslator(SETTINGS, pad_id=1, seed=4)
    assert not np.allclose(logits_of(other), logits_of(model))


def test_dropout_acts_in_training_only(model):
    np.testing.assert_array_equal(logits_of(model), logits_of(model))
    assert not np.allclose(model(INPUTS, training=True), logits_of(model))


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
    assert min(largest.values()) > 1e-4, largest
