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
def test_it_equals_the_equations_written_out_in_numpy(attention):
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
def test_weights_sum_to_one_and_padding_has_exactly_none(attention):
    weights = np.asarray(attention(QUERIES, MEMORY, MASK)[1])
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
    assert (weights[np.broadcast_to(MASK[:, None] == 0, weights.shape)] == 0).all()
    assert (weights[np.broadcast_to(MASK[:, None] == 1, weights.shape)] > 0).all()


def test_the_content_of_padding_changes_nothing(attention):
    other = np.where(MASK[..., None] == 1, MEMORY, 100.0).astype(np.float32)
    for one, two in zip(
        attention(QUERIES, MEMORY, MASK), attention(QUERIES, other, MASK), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_a_prepared_memory_gives_the_same(attention):
    prepared = attention.prepared(MEMORY)
    assert tuple(prepared.shape) == (BATCH, TOKENS, UNITS)
    for one, two in zip(
        attention(QUERIES, MEMORY, MASK),
        attention.look(QUERIES, MEMORY, prepared, MASK),
        strict=True,
    ):
        np.testing.assert_array_equal(one, two)


def test_its_output_shapes_are_those_it_computes(attention):
    computed = attention.compute_output_shape(QUERIES.shape, MEMORY.shape, MASK.shape)
    assert computed == tuple(tuple(part.shape) for part in attention(QUERIES, MEMORY, MASK))
    assert attention.compute_output_shape((None, None, 5), (None, None, 8)) == (
        (None, None, 8),
        (None, None, None),
    )


def test_it_can_be_part_of_a_functional_model(attention):
    symbolic = [
        keras.Input((None, QUERY_WIDTH)),
        keras.Input((None, MEMORY_WIDTH)),
        keras.Input((None,), dtype="int32"),
    ]
    model = keras.Model(symbolic, attention(*symbolic))
    assert [tuple(part.shape) for part in model.outputs] == [
        (None, None, MEMORY_WIDTH),
        (None, None, None),
    ]
    for one, two in zip(
        model([QUERIES, MEMORY, MASK]), attention(QUERIES, MEMORY, MASK), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_its_config_makes_the_same_layer():
    layer = AdditiveAttention(UNITS, seed=3, name="looking")
    layer.build(QUERIES.shape, MEMORY.shape)
    twin = keras.layers.deserialize(keras.layers.serialize(layer))
    assert twin.get_config() == layer.get_config()
    assert (twin.units, twin.seed, twin.name) == (UNITS, 3, "looking")
    np.testing.assert_array_equal(
        twin(QUERIES, MEMORY, MASK)[1], layer(QUERIES, MEMORY, MASK)[1]
    )  # the seed is part of the config


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    def kernels(seed):
        layer = AdditiveAttention(UNITS, seed=seed)
        layer.build(QUERIES.shape, MEMORY.shape)
        return {name: value for name, value in weights_by_name(layer).items() if name != "bias"}

    first, again, other = kernels(1), kernels(1), kernels(2)
    for name, kernel in first.items():
        np.testing.assert_array_equal(kernel, again[name])
        assert not np.allclose(kernel, other[name])


def test_its_weights_stay_in_float32_where_it_computes_in_half_precision():
    layer = AdditiveAttention(UNITS, dtype="mixed_bfloat16")
    contexts, weights = layer(QUERIES, MEMORY, MASK)
    assert keras.backend.standardize_dtype(contexts.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    expected = AdditiveAttention(UNITS)(QUERIES, MEMORY, MASK)[1]
    np.testing.assert_allclose(weights, expected, rtol=0, atol=0.02)
