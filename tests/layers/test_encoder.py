"""The Transformer block."""

import keras
import numpy as np
import pytest
from scipy.stats import norm

from bertcnn.layers.encoder import TransformerBlock, gelu

BATCH, TOKENS, WIDTH, HEADS, INNER = 2, 5, 8, 2, 12
HIDDEN = np.random.default_rng(0).normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_the_layer_passes_keras_checks(check_layer, activation):
    layer = TransformerBlock(
        HEADS, INNER, activation=activation, dropout=0.1, attention_dropout=0.1
    )
    check_layer(layer, (HIDDEN, MASK), HIDDEN.shape, trainable_weights=16, untouched=["key/bias"])


def test_gelu_is_exact():
    values = np.linspace(-6, 6, 101).astype(np.float32)
    np.testing.assert_allclose(
        gelu(keras.ops.convert_to_tensor(values)), values * norm.cdf(values), atol=1e-6
    )


def test_it_adds_and_normalises_attention_and_feed_forward():
    block = TransformerBlock(HEADS, INNER, activation="relu", epsilon=1e-12)
    found = block(HIDDEN, MASK)

    def normalised(values):
        centred = values - values.mean(axis=-1, keepdims=True)
        return centred / values.std(axis=-1, keepdims=True)

    middle = normalised(HIDDEN + np.asarray(block.attention(HIDDEN, MASK)))
    inner = np.maximum(middle @ block.expand.kernel.numpy(), 0)
    np.testing.assert_allclose(
        found, normalised(middle + inner @ block.contract.kernel.numpy()), atol=1e-5
    )
