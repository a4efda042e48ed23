"""The encoder as a whole."""

import keras
import numpy as np
import pytest

from bertcnn.models.bert import Bert
from bertcnn.settings import EncoderSettings

VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 50, 16, 2, 2, 32
SETTINGS = EncoderSettings(vocabulary_size=VOCABULARY, width=WIDTH, layers=LAYERS, heads=HEADS, feed_forward_width=INNER, max_positions=12)
TOKEN_IDS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 7)).astype(np.int32)
INPUTS = {"token_ids": TOKEN_IDS, "segment_ids": np.zeros_like(TOKEN_IDS), "padding_mask": np.ones_like(TOKEN_IDS)}


def parameters(vocabulary, width, layers, inner, positions=512, segments=2):
    """From the paper's description: tables, four attention projections, two feed-forward ones, normalisations, the pooler."""
    dense = lambda rows, columns: rows * columns + columns  # noqa: E731
    norm = 2 * width
    block = 4 * dense(width, width) + norm + dense(width, inner) + dense(inner, width) + norm
    return (vocabulary + positions + segments) * width + norm + layers * block + dense(width, width)


def test_it_has_as_many_parameters_as_the_paper_says():
    assert parameters(30_522, 768, 12, 3072) == 109_482_240  # bert-base-uncased
    assert Bert(SETTINGS).count_params() == parameters(VOCABULARY, WIDTH, LAYERS, INNER, positions=12)


def test_its_outputs_are_a_vector_a_token_and_one_a_text():
    outputs = Bert(SETTINGS)(INPUTS)
    assert outputs["sequence_output"].shape == (3, 7, WIDTH)
    assert outputs["pooled_output"].shape == (3, WIDTH)


def test_config_makes_the_same_network_again():
    encoder = Bert(SETTINGS, seed=4, name="bert")
    twin = Bert.from_config(encoder.get_config())
    assert twin.get_config() == encoder.get_config()
    np.testing.assert_array_equal(twin(INPUTS)["sequence_output"], encoder(INPUTS)["sequence_output"])


def test_another_seed_makes_other_weights_everywhere():
    one, other = Bert(SETTINGS, seed=0), Bert(SETTINGS, seed=1)
    for first, second in zip(one.trainable_weights, other.trainable_weights, strict=True):
        assert np.array_equal(first.numpy(), second.numpy()) == first.path.endswith(("bias", "gamma", "beta")), first.path


def test_no_two_weights_start_equal():
    values = [weight.numpy() for weight in Bert(SETTINGS).trainable_weights if not weight.path.endswith(("bias", "gamma", "beta"))]
    assert len({value.ravel()[:8].tobytes() for value in values}) == len(values)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_it_runs_in_half_precision(policy):
    full, half = Bert(SETTINGS), Bert(SETTINGS, dtype=policy)
    outputs = half(INPUTS)
    assert {keras.backend.standardize_dtype(output.dtype) for output in outputs.values()} == {policy.removeprefix("mixed_")}
    found = keras.ops.cast(outputs["sequence_output"], "float32")
    np.testing.assert_allclose(found, full(INPUTS)["sequence_output"], atol=0.1)
