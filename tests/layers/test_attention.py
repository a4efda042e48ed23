"""Self-attention, compared with Keras' own."""

import keras
import numpy as np
import pytest

from bertcnn.layers.attention import DocumentMask, MultiHeadAttention, attend, attend_fused

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


def test_the_layer_passes_keras_checks(check_layer):
    check_layer(
        MultiHeadAttention(HEADS, dropout=0.1),
        (HIDDEN, MASK),
        HIDDEN.shape,
        trainable_weights=8,
        untouched=["key/bias"],
    )


def test_it_equals_keras_attention_with_the_same_weights(attention):
    theirs = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
    theirs.build(HIDDEN.shape, HIDDEN.shape)
    ours = {weight.path.split("/", 1)[-1]: weight.numpy() for weight in attention.weights}
    names = [
        f"{part}/{kind}"
        for part in ("query", "key", "value", "output")
        for kind in ("kernel", "bias")
    ]
    theirs.set_weights(
        [
            ours[name].reshape(weight.shape)
            for name, weight in zip(names, theirs.weights, strict=True)
        ]
    )
    expected, expected_attention = theirs(
        HIDDEN, HIDDEN, attention_mask=MASK[:, None, :].astype(bool), return_attention_scores=True
    )
    found, found_attention = attention(HIDDEN, MASK, return_attention=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found_attention, expected_attention, rtol=0, atol=1e-6)


def test_dropout_acts_in_training_only():
    layer = MultiHeadAttention(HEADS, dropout=0.5, seed=3)
    np.testing.assert_array_equal(layer(HIDDEN, MASK), layer(HIDDEN, MASK))
    assert not np.allclose(layer(HIDDEN, MASK, training=True), layer(HIDDEN, MASK))


def test_it_equals_the_equation_in_numpy():
    queries, keys, values = GENERATOR.normal(size=(3, BATCH, TOKENS, HEADS, 4)).astype(np.float32)
    context, attention = attend(
        *(keras.ops.convert_to_tensor(part) for part in (queries, keys, values)), MASK
    )
    for row, head in np.ndindex(BATCH, HEADS):
        length = MASK[row].sum()
        exponentials = np.exp(queries[row, :, head] @ keys[row, :length, head].T / np.sqrt(4))
        expected = exponentials / exponentials.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(attention[row, head, :, :length], expected, rtol=0, atol=1e-6)
        assert (np.asarray(attention)[row, head, :, length:] == 0).all()
        np.testing.assert_allclose(
            context[row, :, head], expected @ values[row, :length, head], rtol=0, atol=1e-5
        )


@pytest.mark.on_jax
@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("bfloat16", 0.03)])
def test_it_equals_the_backends_own_attention(dtype, close):
    parts = [
        keras.ops.cast(part, dtype)
        for part in GENERATOR.normal(size=(3, BATCH, TOKENS, HEADS, 4)).astype(np.float32)
    ]
    some_empty = MASK * np.array([[1], [1], [0]], np.int32)
    documents = np.asarray(DocumentMask()(np.cumsum(MASK, axis=1) // 3))
    for mask in (MASK, some_empty, documents, documents * some_empty[:, :, None]):
        fused = attend_fused(*parts, mask)
        assert keras.backend.standardize_dtype(fused.dtype) == dtype
        difference = keras.ops.cast(fused, "float32") - keras.ops.cast(
            attend(*parts, mask)[0], "float32"
        )
        assert np.abs(np.asarray(difference)).max() < close


def test_documents_of_a_row_do_not_see_each_other():
    documents = np.array([[1, 1, 2, 2, 2, 0, 0]], np.int32)
    mask = np.asarray(DocumentMask()(documents))[0]
    expected = np.zeros((7, 7), int)
    for place in (slice(0, 2), slice(2, 5), slice(5, 7)):
        expected[place, place] = 1
    np.testing.assert_array_equal(mask, expected)
