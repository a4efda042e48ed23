"""The check that every layer passes."""

import keras
import numpy as np
import pytest


def _check_layer(layer, inputs, output_shape, *, trainable_weights, untouched=()):
    """Check config round trip, shapes, mixed precision, and a step that changes every weight.

    Args:
        layer: not built yet.
        inputs: NumPy arrays, the call's positional arguments.
        output_shape: the expected shape, or a list of them.
        trainable_weights: their number.
        untouched: name endings of weights whose gradient is always zero.
    """
    shapes = output_shape if isinstance(output_shape, list) else [output_shape]
    outputs = keras.tree.flatten(layer(*inputs))
    assert [tuple(output.shape) for output in outputs] == shapes
    assert len(layer.trainable_weights) == trainable_weights

    twin = keras.layers.deserialize(keras.layers.serialize(layer))
    assert twin.get_config() == layer.get_config()
    half = type(layer).from_config({**layer.get_config(), "dtype": "mixed_bfloat16"})
    half_outputs = keras.tree.flatten(half(*inputs))
    assert keras.backend.standardize_dtype(half_outputs[0].dtype) == "bfloat16"
    assert {weight.dtype for weight in half.trainable_weights} <= {"float32"}
    others = keras.tree.flatten(twin(*inputs))
    for output, other, half_output in zip(outputs, others, half_outputs, strict=True):
        np.testing.assert_array_equal(other, output)  # the seed is part of the config
        np.testing.assert_allclose(keras.ops.cast(half_output, "float32"), output, atol=0.1)

    symbolic = [keras.Input((None, *array.shape[2:]), dtype=array.dtype.name) for array in inputs]
    model = keras.Model(symbolic, keras.tree.flatten(layer(*symbolic)))
    assert model.outputs[0].shape[-1] == shapes[0][-1]
    if trainable_weights:
        before = {weight.path: weight.numpy() for weight in layer.trainable_weights}
        model.compile("adam", ["mse"] * len(shapes), run_eagerly=True)
        generator = np.random.default_rng(0)
        model.train_on_batch(list(inputs), [generator.normal(size=shape) for shape in shapes])
        same = [
            weight.path
            for weight in layer.trainable_weights
            if np.array_equal(weight.numpy(), before[weight.path])
        ]
        assert not [name for name in same if not name.endswith(tuple(untouched))]


@pytest.fixture
def check_layer():
    return _check_layer
