"""Token, position and segment embeddings."""

import math

import keras
import numpy as np
import pytest

from bertcnn.layers.embeddings import (
    SINUSOIDS,
    BertEmbeddings,
    concatenated_sinusoids,
    interleaved_sinusoids,
)
from bertcnn.training.step import make_gradients

BATCH, TOKENS, WIDTH, VOCABULARY = 2, 5, 6, 11
TOKEN_IDS = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, TOKENS)).astype(np.int32)
SEGMENT_IDS = np.array([[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]], np.int32)


def test_the_layer_passes_keras_checks(check_layer):
    layer = BertEmbeddings(VOCABULARY, WIDTH, max_positions=TOKENS, dropout=0.1)
    check_layer(layer, (TOKEN_IDS, SEGMENT_IDS), (BATCH, TOKENS, WIDTH), trainable_weights=5)


def test_it_is_the_normalised_sum_of_three_tables():
    layer = BertEmbeddings(VOCABULARY, WIDTH, max_positions=9)
    found = layer(TOKEN_IDS, SEGMENT_IDS)
    tokens, positions, segments = (
        np.asarray(table) for table in (layer.tokens, layer.positions, layer.segments)
    )
    total = tokens[TOKEN_IDS] + positions[:TOKENS] + segments[SEGMENT_IDS]
    centred = total - total.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, centred / centred.std(axis=-1, keepdims=True), atol=1e-4)


def test_interleaved_positions_follow_the_paper():
    found = interleaved_sinusoids(50, 12)
    assert found.dtype == np.float32
    for position in range(50):
        for i in range(6):
            angle = position / 10_000 ** (2 * i / 12)
            assert abs(found[position, 2 * i] - math.sin(angle)) < 1e-6
            assert abs(found[position, 2 * i + 1] - math.cos(angle)) < 1e-6


def test_concatenated_positions_follow_tensor2tensor():
    found = concatenated_sinusoids(50, 12)
    timescales = 6
    # get_timing_signal_1d with its default timescales of 1 and 10,000
    increment = math.log(1.0e4 / 1.0) / (timescales - 1)
    for position in range(50):
        for i in range(timescales):
            scaled_time = position * 1.0 * math.exp(i * -increment)
            assert abs(found[position, i] - math.sin(scaled_time)) < 1e-6
            assert abs(found[position, timescales + i] - math.cos(scaled_time)) < 1e-6


@pytest.mark.parametrize("positions", ["interleaved", "concatenated"])
def test_sinusoids_are_a_table_that_is_not_trained(check_layer, positions):
    layer = BertEmbeddings(VOCABULARY, WIDTH, max_positions=TOKENS, positions=positions)
    check_layer(layer, (TOKEN_IDS, SEGMENT_IDS), (BATCH, TOKENS, WIDTH), trainable_weights=4)
    np.testing.assert_array_equal(layer.positions, SINUSOIDS[positions](TOKENS, WIDTH))
    assert [weight.path.split("/")[-1] for weight in layer.non_trainable_weights] == ["positions"]


@pytest.mark.parametrize("positions", ["learned", "interleaved"])
def test_given_positions_select_table_rows(positions):
    layer = BertEmbeddings(VOCABULARY, WIDTH, max_positions=9, positions=positions)
    counted = np.broadcast_to(np.arange(TOKENS), TOKEN_IDS.shape).astype(np.int32)
    plain = np.asarray(layer(TOKEN_IDS, SEGMENT_IDS))
    np.testing.assert_array_equal(layer(TOKEN_IDS, SEGMENT_IDS, counted), plain)
    restarted = layer(TOKEN_IDS, SEGMENT_IDS, counted % 3)
    np.testing.assert_allclose(
        restarted[:, 3:], layer(TOKEN_IDS[:, 3:], SEGMENT_IDS[:, 3:]), rtol=0, atol=1e-6
    )


@pytest.mark.on_jax
@pytest.mark.parametrize("packed", [False, True])
def test_gradients_of_a_frequent_token_are_not_lost_in_bfloat16(packed):
    ids = np.zeros((256, 8), np.int32)
    towards = np.random.default_rng(1).normal(size=WIDTH).astype(np.float32)
    names = ("token_ids", "segment_ids", "position_ids")[: 3 if packed else 2]
    found = {}
    for dtype in ("float32", "mixed_bfloat16"):
        layer = BertEmbeddings(VOCABULARY, WIDTH, max_positions=8, dtype=dtype)
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
        model = keras.Model(inputs, layer(*inputs.values()))
        gradients = make_gradients(
            model,
            lambda output, given: {
                "loss": keras.ops.sum(keras.ops.cast(output, "float32") * given["towards"])
            },
        )(dict.fromkeys(names, ids), {"towards": towards})[1]
        found[dtype] = [np.asarray(gradient) for gradient in gradients[:3]]  # sizes of the tables
    for exact, mixed in zip(found["float32"], found["mixed_bfloat16"], strict=True):
        np.testing.assert_allclose(mixed, exact, rtol=0, atol=0.03 * np.abs(exact).max())
