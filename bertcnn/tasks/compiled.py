"""Compiles functions that use a model's weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from bertcnn.backend import check_process
from bertcnn.models import SearchSettings, Written, search


def compiled(model: keras.Model, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` of arrays, in `keras.ops`, for each of their shapes, with live weights."""
    if keras.backend.backend() == "jax":
        import jax

        def stateless(values: Any, *arrays: Any) -> Any:  # noqa: ANN401
            with keras.StatelessScope(zip(model.variables, values, strict=True)):
                return function(*arrays)

        jitted = jax.jit(stateless)

        def program(*arrays: Any) -> Any:  # noqa: ANN401
            return jitted([variable.value for variable in model.variables], *arrays)

    else:
        import tensorflow as tf

        program = tf.function(function, jit_compile=True, autograph=False)

    def run(*arrays: np.ndarray) -> Any:  # noqa: ANN401
        check_process()
        return program(*map(ops.convert_to_tensor, arrays))

    return run


def compiled_search(
    model: Any,  # noqa: ANN401 - a Keras model that is a `Writer`
    settings: SearchSettings,
) -> Callable[[np.ndarray], Written]:
    """A function of sources int32 [B, S] to the texts that the model writes, compiled by XLA."""
    program = compiled(model, lambda source_ids: search(model, settings, source_ids))
    return lambda source_ids: Written(*map(np.asarray, program(source_ids)))
