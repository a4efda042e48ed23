"""Compiles functions that use a model's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from bertcnn.backend import check_process
from bertcnn.models import SearchSettings, Written, search


def compiled(
    model: keras.Model,
    function: Callable[[Any], Any],
) -> Callable[[np.ndarray], Any]:
    """Compile `function` of an int array, in `keras.ops`, for each shape, with live weights."""
    if keras.backend.backend() == "jax":
        import jax

        def stateless(values: Any, array: Any) -> Any:  # noqa: ANN401
            with keras.StatelessScope(zip(model.variables, values, strict=True)):
                return function(array)

        jitted = jax.jit(stateless)

        def program(array: Any) -> Any:  # noqa: ANN401
            return jitted([variable.value for variable in model.variables], array)

    else:
        import tensorflow as tf

        program = tf.function(function, jit_compile=True, autograph=False)

    def run(array: np.ndarray) -> Any:  # noqa: ANN401
        check_process()
        return program(ops.convert_to_tensor(array, "int32"))

    return run


def compiled_search(
    model: Any,  # noqa: ANN401 - a Keras model that is a `Writer`
    settings: SearchSettings,
) -> Callable[[np.ndarray], Written]:
    """A function of sources int32 [B, S] to the texts that the model writes, compiled by XLA."""
    program = compiled(model, lambda source_ids: search(model, settings, source_ids))
    return lambda source_ids: Written(*map(np.asarray, program(source_ids)))
