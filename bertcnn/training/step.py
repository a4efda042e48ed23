"""One training step, compiled by XLA on the backend in use.

On JAX a step is one program for each shape of its inputs: gradient, clipping and update, with the
state donated. On TensorFlow, which trains on CPUs, the gradient is compiled for each shape, and the
update once in all: one program made a step no faster there, and took 1.6 to 1.9 times as long to
compile.

What a step returns stays on the device until it is converted, so steps can follow each other
without waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np

from bertcnn.errors import SettingsError
from bertcnn.layers.device import on_gpu

_PART_TOKENS = 1024  # on a CPU
Arrays = Mapping[str, np.ndarray]
Figures = Mapping[str, Any]  # named float32 scalars; "loss" is the one that is differentiated
Objective = Callable[[Any, Any], Figures]
Gradients = Callable[[Arrays, Arrays], tuple[Figures, list[Any]]]
Update = Callable[[list[Any]], Any]
Step = Callable[[Arrays, np.ndarray, np.ndarray], Any]
PartsStep = Callable[[Iterable[tuple[Arrays, Arrays]]], Figures]
Loss = Callable[[Any, Any, Any], Any]

GRADIENT_NORM = "gradient_norm"


def smoothed_cross_entropy(smoothing: float) -> Loss:
    """Cross-entropy against labels of which `smoothing` is spread evenly over all labels.

    Szegedy et al. 2016, section 7.

    Returns:
        A function of logits float [..., C], one-hot targets float32 [..., C] and weights float32
        [...] to the weighted sum.
    """

    def loss(logits: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        logits = keras.ops.cast(logits, "float32")
        targets = targets * (1.0 - smoothing) + smoothing / targets.shape[-1]
        rows = -keras.ops.sum(targets * keras.ops.log_softmax(logits, axis=-1), axis=-1)  # [B]
        return keras.ops.sum(rows * weights)

    return loss


def independent_cross_entropy(positive_weights: np.ndarray) -> Loss:
    """The loss where a row may have several labels.

    Each label's own binary cross-entropy, summed over the labels. Labels are not smoothed: with
    many labels that would keep every probability far above the share of rows that have the label.

    Args:
        positive_weights: float32 [C], how much more a label counts in rows that have it.

    Returns:
        A function of logits float [..., C], targets float32 [..., C] of 0 and 1 and weights float32
        [...] to the weighted sum.
    """

    def loss(logits: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        logits = keras.ops.cast(logits, "float32")
        having, not_having = (
            keras.ops.softplus(-logits),
            keras.ops.softplus(logits),
        )  # -log of the probability and of its complement
        rows = keras.ops.sum(
            targets * positive_weights * having + (1.0 - targets) * not_having, axis=-1
        )  # [B]
        return keras.ops.sum(rows * weights)

    return loss


def make_step(model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Loss) -> Step:
    """A function that trains `model` in place on one batch, and returns its weighted mean loss.

    The loss is a float32 scalar on the device. On a CPU, a batch of long rows is worked off in
    parts of about a thousand tokens, whose gradients are added up: the same step, but what it
    computes stays near the processor's caches.

    Args:
        model: inputs by name to logits [B, C].
        optimizer: builds its state for the model's trainable weights here.
        loss: of logits, targets and row weights; a weighted sum over the rows.

    Raises:
        SettingsError: the Keras backend is neither TensorFlow nor JAX.
    """
    in_parts = make_parts_step(
        model,
        optimizer,
        lambda logits, given: {"loss": loss(logits, given["targets"], given["weights"])},
    )

    def step(inputs: Arrays, targets: np.ndarray, weights: np.ndarray) -> Any:  # noqa: ANN401
        # so that the parts' sums add up to the mean
        shares = (weights / max(float(weights.sum()), 1e-6)).astype(np.float32)
        slices = batch_parts(inputs, len(weights))
        counting = [rows for rows in slices if shares[rows].any()] or slices[
            :1
        ]  # the others are filler rows only
        parts = (
            (
                {name: values[rows] for name, values in inputs.items()},
                {"targets": targets[rows], "weights": shares[rows]},
            )
            for rows in counting
        )
        return in_parts(parts)["loss"]

    return step


def batch_parts(inputs: Arrays, rows: int) -> list[slice]:
    """Equal parts of a batch, as few as keep each within `_PART_TOKENS`, or single rows.

    On a GPU it is the whole batch.
    """
    if on_gpu():
        return [slice(0, rows)]
    length = next(iter(inputs.values())).shape[1]
    size = next(
        size
        for size in range(rows, 0, -1)
        if rows % size == 0 and (size * length <= _PART_TOKENS or size == 1)
    )
    return [slice(start, start + size) for start in range(0, rows, size)]


def make_parts_step(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Objective
) -> PartsStep:
    """A function that trains `model`, in place, by one step on the sum of what all its parts give.

    Args:
        model: inputs by name to one or more outputs.
        optimizer: builds its state for the model's trainable weights here.
        objective: of the model's outputs and a part's targets; sums over the part's rows, with
            weights that make them what is wanted when all parts are added up.

    Returns:
        A function of (inputs, targets) by part to the figures of the step, and `gradient_norm`,
        before clipping; float32 scalars on the device.

    Raises:
        SettingsError: the Keras backend is neither TensorFlow nor JAX.
    """
    optimizer.build(model.trainable_variables)
    gradients = make_gradients(model, objective)
    on_jax = keras.backend.backend() == "jax"
    update = (_jax_update if on_jax else _tensorflow_update)(model, optimizer)
    whole = _jax_step(model, optimizer, objective) if on_jax else None

    def step(parts: Iterable[tuple[Arrays, Arrays]]) -> Figures:
        parts = list(parts)
        if whole is not None and len(parts) == 1:
            return whole(*parts[0])
        figures: list[Figures] = []
        summed: list[Any] | None = None
        for inputs, targets in parts:
            values, found = gradients(inputs, targets)
            figures.append(values)
            summed = (
                found
                if summed is None
                else [one + other for one, other in zip(summed, found, strict=True)]
            )
        if summed is None:
            raise ValueError("a step needs at least one part")
        norm = update(summed)
        return {
            **{name: sum(values[name] for values in figures) for name in figures[0]},
            GRADIENT_NORM: norm,
        }

    return step


def make_gradients(model: keras.Model, objective: Objective) -> Gradients:
    """A function of inputs and targets to the figures and the gradients of their "loss".

    Raises:
        SettingsError: the Keras backend is neither TensorFlow nor JAX.
    """
    backend = keras.backend.backend()
    if backend not in ("tensorflow", "jax"):
        raise SettingsError(
            f"the Keras backend {backend!r}",
            expected="'tensorflow' or 'jax'",
            fix="set KERAS_BACKEND before starting",
        )
    return (_tensorflow_gradients if backend == "tensorflow" else _jax_gradients)(model, objective)


def make_figures(
    model: keras.Model, objective: Objective
) -> Callable[[Arrays, Arrays], dict[str, float]]:
    """A function of inputs and targets to the figures, without dropout or training."""
    if keras.backend.backend() == "jax":
        import jax

        program = jax.jit(
            lambda weights, fixed, inputs, targets: objective(
                model.stateless_call(weights, fixed, inputs)[0], targets
            )
        )

        def figures(inputs: Arrays, targets: Arrays) -> Figures:
            trainable = [variable.value for variable in model.trainable_variables]
            return program(
                trainable,
                [variable.value for variable in model.non_trainable_variables],
                dict(inputs),
                dict(targets),
            )

    else:
        import tensorflow as tf

        traced = tf.function(
            lambda inputs, targets: objective(model(inputs, training=False), targets),
            jit_compile=True,
            autograph=False,
        )

        def figures(inputs: Arrays, targets: Arrays) -> Figures:
            return traced(
                *tf.nest.map_structure(tf.convert_to_tensor, (dict(inputs), dict(targets)))
            )

    return lambda inputs, targets: {
        name: float(value) for name, value in figures(inputs, targets).items()
    }


def _norm(gradients: list[Any]) -> Any:  # noqa: ANN401
    """The Euclidean norm of all gradients as one vector, float32 []."""
    return keras.ops.sqrt(
        sum(
            keras.ops.sum(keras.ops.square(keras.ops.cast(gradient, "float32")))
            for gradient in gradients
        )
    )


# === TensorFlow ===


def _tensorflow_gradients(model: keras.Model, objective: Objective) -> Gradients:
    import tensorflow as tf

    variables = [variable.value for variable in model.trainable_variables]
    programs: dict[
        tuple[Any, ...], Any
    ] = {}  # one for each shape, so that none is traced a second time

    def differentiate(inputs: Any, targets: Any) -> Any:  # noqa: ANN401
        with tf.GradientTape() as tape:
            figures = objective(model(inputs, training=True), targets)
        found = tape.gradient(
            figures["loss"], variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return figures, [tf.convert_to_tensor(gradient) for gradient in found]

    def gradients(inputs: Arrays, targets: Arrays) -> tuple[Figures, list[Any]]:
        shapes = tuple(values.shape for values in inputs.values())
        if shapes not in programs:
            programs[shapes] = tf.function(differentiate, jit_compile=True, autograph=False)
        return programs[shapes](
            *tf.nest.map_structure(tf.convert_to_tensor, (dict(inputs), dict(targets)))
        )

    return gradients


def _tensorflow_update(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Update:
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def update(values: list[Any]) -> Any:  # noqa: ANN401
        norm = _norm(values)
        optimizer.apply(values, model.trainable_variables)
        return norm

    return update


# === JAX ===


def _jax_gradients(model: keras.Model, objective: Objective) -> Gradients:
    import jax

    def value(trainable: Any, fixed: Any, inputs: Any, targets: Any) -> Any:  # noqa: ANN401
        outputs, fixed = model.stateless_call(trainable, fixed, inputs, training=True)
        figures = objective(outputs, targets)
        return figures["loss"], (figures, fixed)

    differentiate = jax.jit(jax.value_and_grad(value, has_aux=True))

    def gradients(inputs: Arrays, targets: Arrays) -> tuple[Figures, list[Any]]:
        trainable = [variable.value for variable in model.trainable_variables]
        fixed = [variable.value for variable in model.non_trainable_variables]
        (_, (figures, fixed)), found = differentiate(trainable, fixed, dict(inputs), dict(targets))
        _set(model.non_trainable_variables, fixed)
        return figures, found

    return gradients


def jax_program(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Objective
) -> Any:  # noqa: ANN401 - a jitted function
    """A step as one program, whose first three arguments are donated.

    Returns:
        A function of the values of the trainable, the other and the optimizer's variables, and of
        inputs and targets, to the figures and to the trainable, the optimizer's and the other
        values after the step.
    """
    import jax

    def program(
        trainable: list[Any],
        fixed: list[Any],
        state: list[Any],
        inputs: dict[str, Any],
        targets: dict[str, Any],
    ) -> tuple[Figures, list[Any], list[Any], list[Any]]:
        def value(trainable: list[Any]) -> Any:  # noqa: ANN401
            outputs, after = model.stateless_call(trainable, fixed, inputs, training=True)
            figures = objective(outputs, targets)
            return figures["loss"], (figures, after)

        (_, (figures, after)), found = jax.value_and_grad(value, has_aux=True)(trainable)
        figures = {**figures, GRADIENT_NORM: _norm(found)}
        return figures, *optimizer.stateless_apply(state, found, trainable), after

    return jax.jit(program, donate_argnums=(0, 1, 2))


def _jax_step(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Objective
) -> Callable[[Arrays, Arrays], Figures]:
    program = jax_program(model, optimizer, objective)

    def step(inputs: Arrays, targets: Arrays) -> Figures:
        trainable, fixed, state = (
            [variable.value for variable in variables]
            for variables in (
                model.trainable_variables,
                model.non_trainable_variables,
                optimizer.variables,
            )
        )
        figures, trainable, state, fixed = program(
            trainable, fixed, state, dict(inputs), dict(targets)
        )
        _set(model.trainable_variables, trainable)
        _set(model.non_trainable_variables, fixed)
        _set(optimizer.variables, state)
        return figures

    return step


def _jax_update(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> Update:
    import jax

    apply = jax.jit(optimizer.stateless_apply, donate_argnums=(0, 2))
    measure = jax.jit(_norm)

    def update(values: list[Any]) -> Any:  # noqa: ANN401
        norm = measure(values)
        trainable = [variable.value for variable in model.trainable_variables]
        trainable, state = apply(
            [variable.value for variable in optimizer.variables], values, trainable
        )
        _set(model.trainable_variables, trainable)
        _set(optimizer.variables, state)
        return norm

    return update


def _set(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
