"""Additive attention, compared with Keras' own."""

import keras
import numpy as np
import pytest

from bertcnn.layers.additive_attention import AdditiveAttention

BATCH, WRITTEN, TOKENS, QUERY_WIDTH, MEMORY_WIDTH, UNITS = 3, 4, 6, 5, 8, 7
GENERATOR = np.random.default_rng(0)
QUERIES = GENERATOR.normal(size=(BATCH, WRITTEN, QUERY_WIDTH)).astype(np.float32)
MEMORY = GENERATOR.normal(size=(BATCH, TOKENS, MEMORY_WIDTH)).astype(np.float32)
LENGTHS = np.array([6, 3, 1])
MASK = (np.arange(TOKENS) < LENGTHS[:, None]).astype(np.int32)


@pytest.fixture
def attention():
    layer = AdditiveAttention(UNITS)
    layer.build(QUERIES.shape, MEMORY.shape)
    layer.set_weights([GENERATOR.normal(0, 0.7, weight.shape) for weight in layer.weights])
    return layer


def weights_by_name(layer):
    return {weight.name: weight.numpy() for weight in layer.weights}


@pytest.mark.on_jax
def test_it_equals_the_equations_in_numpy(attention):
    contexts, weights = map(np.asarray, attention(QUERIES, MEMORY, MASK))
    ours = weights_by_name(attention)
    for row, place in np.ndindex(BATCH, WRITTEN):
        states = MEMORY[row, : LENGTHS[row]]
        hidden = np.tanh(
            QUERIES[row, place] @ ours["query"] + states @ ours["memory"] + ours["bias"]
        )
        exponentials = np.exp(hidden @ ours["score"][:, 0])
        expected = exponentials / exponentials.sum()
        np.testing.assert_allclose(weights[row, place, : LENGTHS[row]], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(contexts[row, place], expected @ states, rtol=0, atol=1e-5)


def test_it_equals_keras_attention_of_projected_queries_and_keys(attention):
    ours = weights_by_name(attention)
    queries = QUERIES @ ours["query"]
    keys = MEMORY @ ours["memory"] + ours["bias"]
    theirs = keras.layers.AdditiveAttention()
    theirs.build([queries.shape, MEMORY.shape, keys.shape])
    theirs.set_weights([ours["score"][:, 0]])
    expected_contexts, expected_weights = theirs(
        [queries, MEMORY, keys], mask=[None, MASK.astype(bool)], return_attention_scores=True
    )
    contexts, weights = attention(QUERIES, MEMORY, MASK)
    np.testing.assert_allclose(contexts, expected_contexts, rtol=0, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=1e-6)


@pytest.mark.on_jax
def test_padding_has_no_weight_and_no_effect(attention):
    contexts, weights = map(np.asarray, attention(QUERIES, MEMORY, MASK))
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(MASK[:, None], weights.shape))
    other = np.where(MASK[..., None] == 1, MEMORY, 100.0).astype(np.float32)
    np.testing.assert_array_equal(attention(QUERIES, other, MASK)[0], contexts)


def test_the_layer_passes_keras_checks(check_layer):
    shapes = [(BATCH, WRITTEN, MEMORY_WIDTH), (BATCH, WRITTEN, TOKENS)]
    layer = AdditiveAttention(UNITS, seed=3, name="looking")
    check_layer(layer, (QUERIES, MEMORY, MASK), shapes, trainable_weights=4)
    inputs = [part.shape for part in (QUERIES, MEMORY, MASK)]
    assert list(layer.compute_output_shape(*inputs)) == shapes


def test_weights_stay_in_float32_in_half_precision():
    _, weights = AdditiveAttention(UNITS, dtype="mixed_bfloat16")(QUERIES, MEMORY, MASK)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
