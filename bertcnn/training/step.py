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

    Args:
        model: inputs by name to logits [B, C].
        optimizer: builds its state for the model's trainable weights here.
        loss: of logits, targets and row weights.

    Raises:
        SettingsError: the Keras backend is neither TensorFlow nor JAX.
    """
    optimizer.build(model.trainable_variables)
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return _tensorflow_step(model, optimizer, loss)
    if backend == "jax":
        return _jax_step(model, optimizer, loss)
    raise SettingsError(f"the Keras backend {backend!r}", expected="'tensorflow' or 'jax'", fix="set KERAS_BACKEND before starting")


def _tensorflow_step(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Loss) -> Step:
    import tensorflow as tf

    variables = [variable.value for variable in model.trainable_variables]

    def gradients(inputs: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        with tf.GradientTape() as tape:
            value = loss(model(inputs, training=True), targets, weights)
        return value, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(value, variables)]

    @tf.function(jit_compile=True, autograph=False)
    def update(values: Any) -> None:  # noqa: ANN401
        optimizer.apply(values, model.trainable_variables)

    programs: dict[tuple[tuple[int, ...], ...], Any] = {}  # one for each shape, so that none is traced a second time

    def step(inputs: Mapping[str, np.ndarray], targets: np.ndarray, weights: np.ndarray) -> float:
        batch = tf.nest.map_structure(tf.convert_to_tensor, (dict(inputs), targets, weights))
        shape = tuple(inputs[name].shape for name in sorted(inputs))
        if shape not in programs:
            programs[shape] = tf.function(gradients, jit_compile=True, autograph=False)
        value, values = programs[shape](*batch)
        update(values)
        return float(value)

    return step


def _jax_step(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Loss) -> Step:
    import jax

    def objective(trainable: Any, fixed: Any, inputs: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        logits, fixed = model.stateless_call(trainable, fixed, inputs, training=True)
        return loss(logits, targets, weights), fixed

    gradients = jax.jit(jax.value_and_grad(objective, has_aux=True))
    update = jax.jit(optimizer.stateless_apply, donate_argnums=(0, 2))

    def step(inputs: Mapping[str, np.ndarray], targets: np.ndarray, weights: np.ndarray) -> float:
        trainable = [variable.value for variable in model.trainable_variables]
        fixed = [variable.value for variable in model.non_trainable_variables]
        (value, fixed), values = gradients(trainable, fixed, dict(inputs), targets, weights)
        trainable, state = update([variable.value for variable in optimizer.variables], values, trainable)
        for variables, new in (
            (model.trainable_variables, trainable),
            (model.non_trainable_variables, fixed),
            (optimizer.variables, state),
        ):
            for variable, value_ in zip(variables, new, strict=True):
                variable.assign(value_)
        return float(value)

    return step
