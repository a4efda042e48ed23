"""The decoder block, compared with PyTorch's."""

from pathlib import Path

import numpy as np
import pytest

from bertcnn.layers.attention import causal_mask
from bertcnn.layers.decoder import DecoderBlock

HEADS, INNER = 4, 32  # as in golden/make_decoder_golden.py
with np.load(Path(__file__).parent.parent / "golden" / "decoder_golden.npz") as file:
    GOLDEN = dict(file)
HIDDEN, MEMORY, MASK = (GOLDEN[name] for name in ("hidden", "memory", "memory_mask"))
ROWS, TOKENS, WIDTH = HIDDEN.shape
THEIR_NAMES = {
    "self_attention": "self_attn",
    "source_attention": "multihead_attn",
    "expand": "linear1",
    "contract": "linear2",
    "self_norm": "norm1",
    "source_norm": "norm2",
    "output_norm": "norm3",
}
THEIR_PARTS = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}


def golden_value(path):
    """PyTorch's value of one of our weights; its matrices are transposed, its projections fused."""
    layer, *projection, part = path.split("/")[-3 if "attention" in path else -2 :]
    name = f"weights/{THEIR_NAMES[layer]}"
    if projection == ["output"]:
        return GOLDEN[f"{name}.out_proj.{THEIR_PARTS[part]}"].T
    if projection:
        place = ("query", "key", "value").index(projection[0])
        joined = GOLDEN[f"{name}.in_proj_{THEIR_PARTS[part]}"]
        return joined[place * WIDTH : (place + 1) * WIDTH].T
    return GOLDEN[f"{name}.{THEIR_PARTS[part]}"].T


@pytest.fixture(scope="module")
def block():
    layer = DecoderBlock(HEADS, INNER)
    layer.build(HIDDEN.shape)
    for weight in layer.weights:
        weight.assign(golden_value(weight.path))
    return layer


def test_the_layer_passes_keras_checks(check_layer):
    settings = {"activation": "gelu", "epsilon": 1e-5, "dropout": 0.1, "attention_dropout": 0.2}
    layer = DecoderBlock(HEADS, INNER, **settings, seed=4)
    assert settings.items() <= layer.get_config().items()
    check_layer(
        layer, (HIDDEN, MEMORY, MASK), HIDDEN.shape, trainable_weights=26, untouched=["key/bias"]
    )


@pytest.mark.on_jax
def test_it_equals_pytorch_with_the_same_weights(block):
    np.testing.assert_allclose(block(HIDDEN, MEMORY, MASK), GOLDEN["output"], rtol=0, atol=1e-5)


def test_dropout_acts_in_training_only():
    for name in ("dropout", "attention_dropout"):
        layer = DecoderBlock(HEADS, INNER, **{name: 0.5})
        settled = layer(HIDDEN, MEMORY, MASK)
        np.testing.assert_array_equal(layer(HIDDEN, MEMORY, MASK), settled)
        assert not np.allclose(layer(HIDDEN, MEMORY, MASK, training=True), settled)


def test_each_token_attends_to_itself_and_earlier_ones():
    mask = np.asarray(causal_mask(4))
    assert mask.dtype == np.int32
    np.testing.assert_array_equal(mask, [[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]])
