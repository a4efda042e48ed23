"""One training step, compiled by XLA on the backend in use.

The gradient is compiled once for each padded length, the optimizer's update once in all: it does not depend on a batch's
shape, and compiling it with every shape would double the time until the first steps run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from bertcnn.errors import SettingsError

_PART_TOKENS = 1024
Inputs = Mapping[str, np.ndarray]
Gradients = Callable[[Inputs, np.ndarray, np.ndarray], Any]
Update = Callable[[Any], None]
Step = Callable[[Mapping[str, np.ndarray], np.ndarray, np.ndarray], float]
Loss = Callable[[Any, Any, Any], Any]


def smoothed_cross_entropy(smoothing: float) -> Loss:
    """The loss: cross-entropy against labels of which `smoothing` is spread evenly (Szegedy et al. 2016, section 7).

    Returns:
        A function of logits float [B, C], one-hot targets float32 [B, C] and row weights float32 [B] to the weighted mean over the rows.
    """

    def loss(logits: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        logits = keras.ops.cast(logits, "float32")
        targets = targets * (1.0 - smoothing) + smoothing / targets.shape[-1]
        rows = -keras.ops.sum(targets * keras.ops.log_softmax(logits, axis=-1), axis=-1)  # [B]
        return keras.ops.sum(rows * weights) / keras.ops.maximum(keras.ops.sum(weights), 1e-6)

    return loss


def make_step(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Loss) -> Step:
    """A function that trains `model` on one batch, in place, and returns the batch's loss.

    A batch of long rows is worked off in parts of about a thousand tokens, whose gradients are added up: the same step, but what it
    computes stays near the processor's caches.

    Args:
        model: inputs by name to logits [B, C].
        optimizer: builds its state for the model's trainable weights here.
        loss: of logits, targets and row weights; a weighted mean over the rows.

    Raises:
        SettingsError: the Keras backend is neither TensorFlow nor JAX.
    """
    optimizer.build(model.trainable_variables)
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise SettingsError(f"the Keras backend {backend!r}", expected="'tensorflow' or 'jax'", fix="set KERAS_BACKEND before starting")
    gradients, update = (_tensorflow_functions if backend == "tensorflow" else _jax_functions)(model, optimizer, loss)

    def step(inputs: Mapping[str, np.ndarray], targets: np.ndarray, weights: np.ndarray) -> float:
        whole, total, summed = max(float(weights.sum()), 1e-6), 0.0, None
        for rows in _parts(inputs, len(weights)):
            share = float(weights[rows].sum()) / whole
            if share == 0 and summed is not None:  # filler rows only
                continue
            value, found = gradients({name: values[rows] for name, values in inputs.items()}, targets[rows], weights[rows])
            total += share * float(value)
            if share != 1:
                found = [gradient * share for gradient in found]
            summed = found if summed is None else [one + other for one, other in zip(summed, found, strict=True)]
        update(summed)
        return total

    return step


def _parts(inputs: Mapping[str, np.ndarray], rows: int) -> list[slice]:
    """Equal parts of a batch, as few as keep each within `_PART_TOKENS`."""
    length = next(iter(inputs.values())).shape[1]
    parts = 1
    while rows % (2 * parts) == 0 and rows // parts * length > _PART_TOKENS:
        parts *= 2
    size = rows // parts
    return [slice(start, start + size) for start in range(0, rows, size)]


def _tensorflow_functions(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Loss) -> tuple[Gradients, Update]:
    import tensorflow as tf

    variables = [variable.value for variable in model.trainable_variables]
    programs: dict[tuple[int, ...], Any] = {}  # one for each shape, so that none is traced a second time

    def differentiate(inputs: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        with tf.GradientTape() as tape:
            value = loss(model(inputs, training=True), targets, weights)
        return value, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(value, variables)]

    def gradients(inputs: Inputs, targets: np.ndarray, weights: np.ndarray) -> Any:  # noqa: ANN401
        shape = inputs["padding_mask"].shape
        if shape not in programs:
            programs[shape] = tf.function(differentiate, jit_compile=True, autograph=False)
        return programs[shape](*tf.nest.map_structure(tf.convert_to_tensor, (dict(inputs), targets, weights)))

    @tf.function(jit_compile=True, autograph=False)
    def update(values: Any) -> None:  # noqa: ANN401
        optimizer.apply(values, model.trainable_variables)

    return gradients, update


def _jax_functions(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Loss) -> tuple[Gradients, Update]:
    import jax

    def objective(trainable: Any, fixed: Any, inputs: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        logits, fixed = model.stateless_call(trainable, fixed, inputs, training=True)
        return loss(logits, targets, weights), fixed

    differentiate = jax.jit(jax.value_and_grad(objective, has_aux=True))
    apply = jax.jit(optimizer.stateless_apply, donate_argnums=(0, 2))

    def gradients(inputs: Inputs, targets: np.ndarray, weights: np.ndarray) -> Any:  # noqa: ANN401
        trainable = [variable.value for variable in model.trainable_variables]
        fixed = [variable.value for variable in model.non_trainable_variables]
        (value, fixed), values = differentiate(trainable, fixed, dict(inputs), targets, weights)
        _set(model.non_trainable_variables, fixed)
        return value, values

    def update(values: Any) -> None:  # noqa: ANN401
        trainable = [variable.value for variable in model.trainable_variables]
        trainable, state = apply([variable.value for variable in optimizer.variables], values, trainable)
        _set(model.trainable_variables, trainable)
        _set(optimizer.variables, state)

    return gradients, update


def _set(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
