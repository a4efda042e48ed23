"""The forward pass over rows of any length."""

import keras
import numpy as np
import pytest

from bertcnn.data.batches import BatchPlan, pad
from bertcnn.models.classifier import build_classifier
from bertcnn.models.forward import Forward
from bertcnn.settings import EncoderSettings, HeadSettings

LONGEST = 20
ENCODER = EncoderSettings(
    vocabulary_size=30, width=8, layers=1, heads=2, feed_forward_width=8, max_positions=LONGEST
)


@pytest.mark.on_jax
def test_rows_keep_their_order_and_do_not_depend_on_the_batch():
    model = build_classifier(ENCODER, HeadSettings(window_sizes=(2,), filters=4), classes=3)
    generator = np.random.default_rng(0)
    token_ids = [
        generator.integers(1, 30, length).astype(np.int32)
        for length in generator.integers(2, LONGEST + 1, 12)
    ]
    lengths = np.array([len(row) for row in token_ids])
    forward = Forward(model, padded_lengths=(8, LONGEST), token_budget=100)
    found = forward.rows(lambda plan: pad(token_ids, plan).inputs(), lengths)
    assert found.shape == (12, 3)
    assert found.dtype == np.float32
    everything = pad(token_ids, BatchPlan(np.arange(12), LONGEST, 12))
    np.testing.assert_allclose(
        found, model.predict_on_batch(everything.inputs()), rtol=0, atol=1e-6
    )


@pytest.mark.on_jax
def test_on_a_gpu_batches_are_large_and_full(monkeypatch):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cuda:0"])
    lengths = np.random.default_rng(0).integers(2, LONGEST + 1, 10_000)
    inputs = keras.Input((2,))
    forward = Forward(keras.Model(inputs, keras.layers.Dense(3)(inputs)), (8, LONGEST))
    plans = forward.plan(lengths)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([plan.rows for plan in plans])), np.arange(10_000)
    )
    assert all(lengths[plan.rows].max() <= plan.length for plan in plans)
    tokens = [plan.size * plan.length for plan in plans]
    assert max(tokens) <= 2**15
    assert min(tokens[:-1]) > 2**14
    if keras.backend.backend() == "jax":  # a GPU compiles each shape
        assert {(plan.size, plan.length) for plan in plans} == {(2**15 // 20, 20), (2**12, 8)}
        assert all(len(plan.rows) == plan.size for plan in plans[:-1])


def test_without_rows_there_are_no_outputs():
    inputs = keras.Input((2,))
    forward = Forward(keras.Model(inputs, keras.layers.Dense(3)(inputs)), padded_lengths=(8,))
    assert forward.rows(dict, np.empty(0, int)).shape == (0, 3)
