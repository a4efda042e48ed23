"""One training step, compiled by XLA on the backend in use.

On JAX a step is one program for each shape of its inputs: gradient, clipping and update, with the
state donated. The parts of a step run in sequence within the program; separate programs could
overtake each other, and two processes would deadlock. With several devices each has all weights and
a share of the batch's rows, and the program sums the gradients. On TensorFlow, which trains on
CPUs, the gradient is compiled for each shape and the update once: one program was no faster and
took 1.6 to 1.9 times as long to compile.

A step's figures stay on the device until they are converted, so steps can run without waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bertcnn.backend import on_gpu
from bertcnn.errors import SettingsError
from bertcnn.training.devices import everywhere, replicated, training_mesh

Arrays = Mapping[str, np.ndarray]
Part = tuple[Arrays, Arrays]  # inputs and targets
Figures = Mapping[str, Any]  # named float32 scalars; "loss" is differentiated
Objective = Callable[[Any, Any], Figures]
Gradients = Callable[[Arrays, Arrays], tuple[Figures, list[Any]]]
Step = Callable[[Sequence[Part]], Figures]

GRADIENT_NORM = "gradient_norm"
_PART_TOKENS = 1024  # on a CPU


def smoothed_cross_entropy(smoothing: float) -> Objective:
    """Cross-entropy with label smoothing (Szegedy et al. 2016, section 7).

    A function of logits float [..., C], and of `targets` float32 [..., C] from 0 to 1 and `weights`
    float32 [...], to the weighted sum.
    """

    def objective(logits: Any, batch: Arrays) -> Figures:  # noqa: ANN401
        targets = batch["targets"] * (1.0 - smoothing) + smoothing / logits.shape[-1]
        logs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        return {"loss": -ops.sum(ops.sum(targets * logs, axis=-1) * batch["weights"])}

    return objective


def independent_cross_entropy(positive_weights: np.ndarray) -> Objective:
    """Binary cross-entropy of each label, summed over the labels, for multi-label rows.

    It is used as `smoothed_cross_entropy`, with targets of 0 and 1. `positive_weights` float32 [C]
    are the loss weights of rows that have the label. There is no label smoothing: with many labels
    it would keep every probability far above the label's frequency.
    """

    def objective(logits: Any, batch: Arrays) -> Figures:  # noqa: ANN401
        targets = batch["targets"]
        logits = ops.cast(logits, "float32")
        # negative log of the probability and of its complement
        having, not_having = ops.softplus(-logits), ops.softplus(logits)
        rows = targets * positive_weights * having + (1.0 - targets) * not_having
        return {"loss": ops.sum(ops.sum(rows, axis=-1) * batch["weights"])}

    return objective


def batch_parts(inputs: Arrays, targets: Arrays, *, most_tokens: int = _PART_TOKENS) -> list[Part]:
    """Split a batch into the parts of a step.

    On a CPU a batch of long rows is split into equal parts, as few as keep each within
    `most_tokens`. The result is the same, but activations stay near the processor's caches, which
    took 6% less processor time for rows of 243 tokens (docs/benchmarks). On a GPU it is one part.
    """
    rows, length = next(iter(inputs.values())).shape[:2]
    if on_gpu():
        return [(inputs, targets)]
    size = max(
        size
        for size in range(1, rows + 1)
        if rows % size == 0 and (size * length <= most_tokens or size == 1)
    )

    def rows_from(arrays: Arrays, start: int) -> Arrays:
        return {name: values[start : start + size] for name, values in arrays.items()}

    parts = [
        (rows_from(inputs, start), rows_from(targets, start)) for start in range(0, rows, size)
    ]
    # the other parts have only filler rows
    return [part for part in parts if part[1]["weights"].any()] or parts[:1]


def make_step(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Objective
) -> Step:
    """A function that trains `model` in place by one step on the sum over all parts.

    Targets whose names end with `weights` are divided by their sum over all parts, so that weighted
    sums become means over the step. `objective` maps the model's outputs and a part's targets to
    sums over the part's rows.

    Returns:
        A function of the parts to the step's figures and `gradient_norm` (before clipping), as
        float32 scalars on the device.

    Raises:
        SettingsError: the Keras backend is neither TensorFlow nor JAX.
    """
    optimizer.build(model.trainable_variables)
    if keras.backend.backend() == "jax":
        return _jax_step(model, optimizer, objective)
    gradients, update = make_gradients(model, objective), _tensorflow_update(model, optimizer)

    def step(parts: Sequence[Part]) -> Figures:
        parts = _normalized(parts)
        figures, summed = gradients(*parts[0])
        for part in parts[1:]:
            part_figures, part_gradients = gradients(*part)
            figures = {name: figures[name] + part_figures[name] for name in figures}
            summed = [one + other for one, other in zip(summed, part_gradients, strict=True)]
        return {**figures, GRADIENT_NORM: update(summed)}

    return step


def make_gradients(model: keras.Model, objective: Objective) -> Gradients:
    """A function of inputs and targets to the figures and the gradients of their "loss"."""
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
    """A function of inputs and targets to the figures, in inference mode."""
    if keras.backend.backend() == "jax":
        import jax

        program = jax.jit(
            lambda weights, fixed, inputs, targets: objective(
                model.stateless_call(weights, fixed, inputs)[0], targets
            )
        )

        def figures(inputs: Arrays, targets: Arrays) -> Figures:
            trainable, fixed = _values(model.trainable_variables, model.non_trainable_variables)
            return program(trainable, fixed, dict(inputs), dict(targets))

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


def placed(parts: Sequence[Part], *, own: bool = False) -> Sequence[Part]:
    """Put the parts of a step on the devices; on JAX the rows are divided among them.

    A batch that cannot be divided evenly is filled up with copies of its last row, with weight 0.
    With `own` the parts hold only this process's rows; see `own_rows`.
    """
    if keras.backend.backend() != "jax":
        return parts
    import jax

    if (mesh := training_mesh()) is None:
        return jax.device_put(list(parts))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(mesh.axis_names[0]))

    def divided(name: str, values: np.ndarray) -> Any:  # noqa: ANN401
        if own:
            return jax.make_array_from_process_local_data(rows, values)
        missing = -len(values) % mesh.size
        fillers = np.repeat(values[-1:] * (0 if name.endswith("weights") else 1), missing, axis=0)
        whole = np.concatenate([values, fillers])
        return jax.make_array_from_callback(whole.shape, rows, lambda index: whole[index])

    def arrays(tensors: Arrays) -> Arrays:
        return {name: divided(name, values) for name, values in tensors.items()}

    return [(arrays(inputs), arrays(targets)) for inputs, targets in parts]


def _normalized(parts: Sequence[Part]) -> list[Part]:
    names = [name for name in parts[0][1] if name.endswith("weights")]
    totals = {name: sum(targets[name].sum() for _, targets in parts) for name in names}

    def shares(targets: Arrays) -> Arrays:
        # if all are 0 they stay 0
        return {name: targets[name] / (totals[name] + (totals[name] == 0)) for name in names}

    return [(inputs, {**targets, **shares(targets)}) for inputs, targets in parts]


def _norm(gradients: list[Any]) -> Any:  # noqa: ANN401
    return ops.sqrt(sum(ops.sum(ops.square(ops.cast(one, "float32"))) for one in gradients))


# === TensorFlow ===


def _tensorflow_gradients(model: keras.Model, objective: Objective) -> Gradients:
    import tensorflow as tf

    variables = [variable.value for variable in model.trainable_variables]
    # one per shape, so that none is retraced
    programs: dict[tuple[Any, ...], Any] = {}

    def differentiate(inputs: Any, targets: Any) -> Any:  # noqa: ANN401
        with tf.GradientTape() as tape:
            figures = objective(model(inputs, training=True), targets)
        grads = tape.gradient(
            figures["loss"], variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return figures, [tf.convert_to_tensor(gradient) for gradient in grads]

    def gradients(inputs: Arrays, targets: Arrays) -> tuple[Figures, list[Any]]:
        shapes = tuple(values.shape for values in inputs.values())
        if shapes not in programs:
            programs[shapes] = tf.function(differentiate, jit_compile=True, autograph=False)
        return programs[shapes](
            *tf.nest.map_structure(tf.convert_to_tensor, (dict(inputs), dict(targets)))
        )

    return gradients


def _tensorflow_update(
    model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> Callable[[list[Any]], Any]:
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def update(gradients: list[Any]) -> Any:  # noqa: ANN401
        norm = _norm(gradients)
        optimizer.apply(gradients, model.trainable_variables)
        return norm

    return update


# === JAX ===


def _jax_value(model: keras.Model, objective: Objective) -> Any:  # noqa: ANN401
    """A function of weights, other state, inputs and targets to the loss, figures and new state."""

    def value(trainable: Any, fixed: Any, inputs: Any, targets: Any) -> Any:  # noqa: ANN401
        outputs, after = model.stateless_call(trainable, fixed, inputs, training=True)
        figures = objective(outputs, targets)
        return figures["loss"], (figures, after)

    return value


def _jax_gradients(model: keras.Model, objective: Objective) -> Gradients:
    import jax

    differentiate = jax.jit(jax.value_and_grad(_jax_value(model, objective), has_aux=True))

    def gradients(inputs: Arrays, targets: Arrays) -> tuple[Figures, list[Any]]:
        trainable, fixed = _values(model.trainable_variables, model.non_trainable_variables)
        (_, (figures, fixed)), grads = differentiate(trainable, fixed, dict(inputs), dict(targets))
        _set(model.non_trainable_variables, fixed)
        return figures, grads

    return gradients


def _jax_step(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, objective: Objective
) -> Step:
    """A step as one program, with all state donated."""
    import jax

    kinds = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    differentiate = jax.value_and_grad(_jax_value(model, objective), has_aux=True)
    if (sharding := everywhere()) is not None:
        for variable in (variable for variables in kinds for variable in variables):
            variable.assign(replicated(ops.convert_to_numpy(variable), sharding))

    def one(trainable: Any, fixed: Any, part: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """State after a part, and its figures and gradients."""
        (_, (figures, fixed)), gradients = differentiate(trainable, fixed, *part)
        return fixed, (figures, gradients)

    def all_of(trainable: Any, fixed: Any, parts: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """The sum over several parts of one shape; the part is compiled once."""
        nothing = jax.tree.map(
            lambda like: ops.zeros(like.shape, like.dtype),
            jax.eval_shape(one, trainable, fixed, parts[0])[1],
        )

        def add(sums: Any, part: Any) -> Any:  # noqa: ANN401
            fixed, outputs = one(trainable, sums[0], part)
            return (fixed, jax.tree.map(ops.add, sums[1], outputs)), None

        stacked = jax.tree.map(lambda *values: ops.stack(values), *parts)
        return jax.lax.scan(add, (fixed, nothing), stacked)[0]

    def program(trainable: Any, fixed: Any, state: Any, parts: Any) -> Any:  # noqa: ANN401
        parts = _normalized(parts)
        fixed, (figures, gradients) = (
            one(trainable, fixed, parts[0]) if len(parts) == 1 else all_of(trainable, fixed, parts)
        )
        figures = {**figures, GRADIENT_NORM: _norm(gradients)}
        trainable, state = optimizer.stateless_apply(state, gradients, trainable)
        return figures, (trainable, fixed, state)

    compiled = jax.jit(program, donate_argnums=(0, 1, 2), out_shardings=sharding)

    def step(parts: Sequence[Part]) -> Figures:
        plain_parts = [(dict(inputs), dict(targets)) for inputs, targets in parts]
        figures, after = compiled(*_values(*kinds), plain_parts)
        for variables, values in zip(kinds, after, strict=True):
            _set(variables, values)
        return figures

    return step


def _values(*kinds: list[Any]) -> list[list[Any]]:
    return [[variable.value for variable in variables] for variables in kinds]


def _set(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
