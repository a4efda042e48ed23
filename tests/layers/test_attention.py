"""Self-attention, beside Keras' own."""

import keras
import numpy as np
import pytest

from bertcnn.layers.attention import MultiHeadAttention

BATCH, TOKENS, WIDTH, HEADS = 3, 7, 8, 2
GENERATOR = np.random.default_rng(0)
HIDDEN = GENERATOR.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
MASK = (np.arange(TOKENS) < np.array([[7], [4], [1]])).astype(np.int32)


@pytest.fixture
def attention():
    layer = MultiHeadAttention(HEADS)
    layer.build(HIDDEN.shape)
    layer.set_weights([GENERATOR.normal(0, 0.5, weight.shape) for weight in layer.weights])
    return layer


def test_it_is_a_sound_layer(check_layer):
    check_layer(MultiHeadAttention(HEADS, dropout=0.1), (HIDDEN, MASK), HIDDEN.shape, trainable_weights=8, untouched=["key/bias"])


def test_it_equals_keras_attention_with_the_same_weights(attention):
    theirs = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    theirs.build(HIDDEN.shape, HIDDEN.shape)
    ours = {weight.path.split("/", 1)[-1]: weight.numpy() for weight in attention.weights}
    names = [f"{part}/{kind}" for part in ("query", "key", "value", "output") for kind in ("kernel", "bias")]
    theirs.set_weights([ours[name].reshape(weight.shape) for name, weight in zip(names, theirs.weights, strict=True)])
    expected, expected_attention = theirs(HIDDEN, HIDDEN, attention_mask=MASK[:, None, :].astype(bool), return_attention_scores=True)
    found, found_attention = attention(HIDDEN, MASK, return_attention=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found_attention, expected_attention, rtol=0, atol=1e-6)


def test_probabilities_add_up_to_one_and_padding_gets_none(attention):
    _, probabilities = attention(HIDDEN, MASK, return_attention=True)
    probabilities = np.asarray(probabilities)
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1.0, atol=1e-6)
    assert (probabilities[np.broadcast_to(MASK[:, None, None, :] == 0, probabilities.shape)] == 0).all()


def test_dropout_acts_in_training_only():
    layer = MultiHeadAttention(HEADS, dropout=0.5, seed=3)
    np.testing.assert_array_equal(layer(HIDDEN, MASK), layer(HIDDEN, MASK))
    assert not np.allclose(layer(HIDDEN, MASK, training=True), layer(HIDDEN, MASK))
