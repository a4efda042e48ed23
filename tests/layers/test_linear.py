"""The linear layer, applied at every token."""

import keras
import numpy as np

from bertcnn.layers.linear import Linear

HIDDEN = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def test_the_layer_passes_keras_checks(check_layer):
    layer = Linear(5, kernel_initializer=keras.initializers.GlorotUniform(seed=1))
    check_layer(layer, (HIDDEN,), (2, 3, 5), trainable_weights=2)


def test_it_equals_keras_dense():
    ours, theirs = Linear(5), keras.layers.Dense(5, bias_initializer="ones")
    theirs.build(HIDDEN.shape)
    ours.build(HIDDEN.shape)
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(HIDDEN), theirs(HIDDEN), rtol=0, atol=1e-6)
