"""The recurrent translator, compared with its equations in NumPy."""

import keras
import numpy as np
import pytest

from bertcnn.models.recurrent import RecurrentTranslator
from bertcnn.models.weights import extract
from bertcnn.settings import TranslatorSettings

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


@pytest.mark.on_jax
def test_the_encoder_and_every_step_equal_the_equations_in_numpy(model):
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
