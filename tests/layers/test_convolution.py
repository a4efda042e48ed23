"""Convolution over token windows, and pooling over real tokens."""

import keras
import numpy as np
import pytest

from bertcnn.layers.convolution import (
    DocumentMax,
    DocumentMean,
    MaskedMax,
    MaskedMean,
    WindowConvolution,
)

BATCH, TOKENS, WIDTH, FILTERS = 3, 6, 4, 5
GENERATOR = np.random.default_rng(0)
HIDDEN = GENERATOR.normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
LENGTHS = (6, 4, 1)
MASK = (np.arange(TOKENS) < np.array(LENGTHS)[:, None]).astype(np.int32)


def convolution(window):
    layer = WindowConvolution(window, FILTERS)
    layer.build(HIDDEN.shape)
    layer.set_weights([GENERATOR.normal(size=weight.shape) for weight in layer.weights])
    return layer


def test_the_convolution_passes_keras_checks(check_layer):
    check_layer(
        WindowConvolution(3, FILTERS, seed=2),
        (HIDDEN, MASK),
        (BATCH, TOKENS, FILTERS),
        trainable_weights=2,
    )


def test_pooling_layers_pass_keras_checks(check_layer):
    check_layer(MaskedMean(), (HIDDEN, MASK), (BATCH, WIDTH), trainable_weights=0)
    check_layer(MaskedMax(), (np.abs(HIDDEN),), (BATCH, WIDTH), trainable_weights=0)


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_a_convolution_equals_keras_on_texts_without_padding(window):
    ours = convolution(window)
    theirs = keras.layers.Conv1D(FILTERS, window, activation="relu")
    padded = np.pad(HIDDEN, ((0, 0), (0, window - 1), (0, 0)))  # a text is zero-padded at its end
    theirs.build(padded.shape)
    theirs.set_weights(ours.get_weights())
    np.testing.assert_allclose(ours(HIDDEN, np.ones_like(MASK)), theirs(padded), rtol=0, atol=1e-5)


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_padding_has_no_effect(window):
    layer = convolution(window)
    garbage = np.where(MASK[:, :, None] == 1, HIDDEN, 1e4).astype(np.float32)
    found = np.asarray(layer(garbage, MASK))
    for row, length in enumerate(LENGTHS):
        alone = layer(HIDDEN[row : row + 1, :length], np.ones((1, length), np.int32))
        np.testing.assert_allclose(found[row, :length], alone[0], rtol=0, atol=1e-5)
        assert (found[row, length:] == 0).all()
    pooled = np.asarray(MaskedMax()(found))
    np.testing.assert_array_equal(
        pooled, [found[row, :length].max(axis=0) for row, length in enumerate(LENGTHS)]
    )


def test_the_mean_covers_real_tokens_and_is_0_without_any():
    expected = [HIDDEN[row, :length].mean(axis=0) for row, length in enumerate(LENGTHS)]
    np.testing.assert_allclose(MaskedMean()(HIDDEN, MASK), expected, atol=1e-6)
    assert (np.asarray(MaskedMean()(HIDDEN, np.zeros_like(MASK))) == 0).all()


def test_the_mean_of_a_long_text_is_right_in_half_precision():
    tokens = 257  # in bfloat16 that would be 256
    hidden = GENERATOR.normal(5, 1, (1, tokens, WIDTH)).astype(np.float32)
    found = MaskedMean(dtype="mixed_bfloat16")(hidden, np.ones((1, tokens), np.int32))
    np.testing.assert_allclose(keras.ops.cast(found, "float32"), hidden.mean(axis=1), rtol=0.003)


# === Several documents in a row ===

DOCUMENT_IDS = np.array([[1, 1, 2, 2, 2, 3], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]], np.int32)


def test_document_layers_pass_keras_checks(check_layer):
    packed = WindowConvolution(3, FILTERS, packed=True, seed=2)
    check_layer(packed, (HIDDEN, DOCUMENT_IDS), (BATCH, TOKENS, FILTERS), trainable_weights=2)
    check_layer(DocumentMean(3), (HIDDEN, DOCUMENT_IDS), (BATCH, 3, WIDTH), trainable_weights=0)
    check_layer(
        DocumentMax(3), (np.abs(HIDDEN), DOCUMENT_IDS), (BATCH, 3, FILTERS - 1), trainable_weights=0
    )


@pytest.mark.parametrize("window", [1, 2, 3, 7])
def test_a_packed_document_gets_the_same_values_as_alone(window):
    plain = convolution(window)
    packed = WindowConvolution(window, FILTERS, packed=True)
    packed.build(HIDDEN.shape)
    packed.set_weights(plain.get_weights())
    found = packed(
        np.where(DOCUMENT_IDS[:, :, None] > 0, HIDDEN, 1e4).astype(np.float32), DOCUMENT_IDS
    )
    largest, mean = (
        np.asarray(DocumentMax(4)(found, DOCUMENT_IDS)),
        np.asarray(DocumentMean(4)(HIDDEN, DOCUMENT_IDS)),
    )
    for row, document_ids in enumerate(DOCUMENT_IDS):
        for document in range(1, 5):
            alone = HIDDEN[row][document_ids == document][None]
            if not alone.shape[1]:
                assert not largest[row, document - 1].any()
                assert not mean[row, document - 1].any()
                continue
            activations = np.asarray(plain(alone, np.ones(alone.shape[:2], np.int32)))
            np.testing.assert_allclose(
                np.asarray(found)[row][document_ids == document], activations[0], rtol=0, atol=1e-5
            )
            np.testing.assert_allclose(
                largest[row, document - 1], activations[0].max(axis=0), rtol=0, atol=1e-5
            )
            np.testing.assert_allclose(
                mean[row, document - 1], alone[0].mean(axis=0), rtol=0, atol=1e-6
            )
