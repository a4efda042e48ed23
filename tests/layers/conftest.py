"""The check that every layer passes."""

import keras
import numpy as np
import pytest


def _check_layer(layer, inputs, output_shape, *, trainable_weights, untouched=()):
    """Check config round trip, shapes, mixed precision, and a step that changes every weight.

    Args:
        layer: not built yet.
        inputs: NumPy arrays, the call's positional arguments.
        output_shape: the expected shape.
        trainable_weights: their number.
        untouched: name endings of weights whose gradient is always zero.
    """
    output = layer(*inputs)
    assert tuple(output.shape) == output_shape
    assert len(layer.trainable_weights) == trainable_weights

    twin = keras.layers.deserialize(keras.layers.serialize(layer))
    assert twin.get_config() == layer.get_config()
    np.testing.assert_array_equal(twin(*inputs), output)  # the seed is part of the config

    half = type(layer).from_config({**layer.get_config(), "dtype": "mixed_bfloat16"})
    half_output = half(*inputs)
    assert keras.backend.standardize_dtype(half_output.dtype) == "bfloat16"
    assert {weight.dtype for weight in half.trainable_weights} <= {"float32"}
    np.testing.assert_allclose(keras.ops.cast(half_output, "float32"), output, atol=0.1)

    symbolic = [keras.Input((None, *array.shape[2:]), dtype=array.dtype.name) for array in inputs]
    model = keras.Model(symbolic, layer(*symbolic))
    assert model.output.shape[-1] == output_shape[-1]
    if trainable_weights:
        before = {weight.path: weight.numpy() for weight in layer.trainable_weights}
        model.compile("adam", "mse", run_eagerly=True)
        model.train_on_batch(list(inputs), np.random.default_rng(0).normal(size=output_shape))
        same = [
            weight.path
            for weight in layer.trainable_weights
            if np.array_equal(weight.numpy(), before[weight.path])
        ]
        assert not [name for name in same if not name.endswith(tuple(untouched))]


@pytest.fixture
def check_layer():
    return _check_layer
