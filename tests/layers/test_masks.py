"""Masks are optional, and Keras' own masks are taken and passed on."""

import keras
import numpy as np
import pytest
from keras import ops

from bertcnn.layers import BertEmbeddings, DecoderBlock, MultiHeadAttention, TransformerBlock

IDS = np.array([[3, 5, 2, 0, 0], [7, 1, 4, 6, 0]], np.int32)
HIDDEN = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
MEMORY = np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)
ONES = np.ones((2, 5), np.int32)


def test_without_a_mask_all_tokens_are_attended_to():
    attention, block = MultiHeadAttention(2), TransformerBlock(2, 16)
    np.testing.assert_allclose(attention(HIDDEN), attention(HIDDEN, ONES), atol=1e-6)
    np.testing.assert_allclose(block(HIDDEN), block(HIDDEN, ONES), atol=1e-6)
    both = attention(HIDDEN, memory=MEMORY)
    np.testing.assert_allclose(both, attention(HIDDEN, ONES[:, :4], memory=MEMORY), atol=1e-6)
    decoder = DecoderBlock(2, 16)
    expected = decoder(HIDDEN, MEMORY, ONES[:, :4])
    np.testing.assert_allclose(decoder(HIDDEN, MEMORY), expected, atol=1e-6)


def test_segments_are_the_first_by_default():
    embeddings = BertEmbeddings(10, 8, max_positions=5)
    np.testing.assert_array_equal(embeddings(IDS), embeddings(IDS, np.zeros_like(IDS)))


@pytest.mark.parametrize(
    "embedded",
    [
        lambda: keras.layers.Embedding(10, 8, mask_zero=True),
        lambda: BertEmbeddings(10, 8, max_positions=5, mask_zero=True),
    ],
    ids=["keras", "ours"],
)
def test_a_keras_mask_is_used_and_passed_on(embedded):
    embedding, first, second = embedded(), TransformerBlock(2, 16), TransformerBlock(2, 16)
    attention, decoder = MultiHeadAttention(2), DecoderBlock(2, 16)
    given = keras.Input((5,), dtype="int32")
    hidden = second(first(embedding(given)))
    outputs = hidden, attention(hidden), decoder(keras.ops.tanh(hidden), hidden)
    found = keras.Model(given, outputs)(IDS)
    mask = (IDS != 0).astype(np.int32)
    plain = ops.convert_to_tensor(np.asarray(embedding(IDS)))
    expected = second(first(plain, mask), mask)
    np.testing.assert_allclose(found[0], expected, atol=1e-5)
    np.testing.assert_allclose(found[1], attention(expected, mask), atol=1e-5)
    np.testing.assert_allclose(found[2], decoder(ops.tanh(expected), expected, mask), atol=1e-5)
    assert not np.allclose(found[0], second(first(plain)), atol=1e-3)


def test_a_sequence_passed_as_mask_is_an_error_that_names_memory():
    with pytest.raises(ValueError, match="Pass a second sequence as memory="):
        MultiHeadAttention(2)(HIDDEN, MEMORY)
    with pytest.raises(TypeError):
        MultiHeadAttention(2)(HIDDEN, ONES, MEMORY)
