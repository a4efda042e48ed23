"""AdamW with warm-up, learning rate decay and layer-wise learning rates."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import keras
from keras import ops

from bertcnn.settings import TrainingSettings

BIASES_AND_NORMALISATION = ("bias", "gamma", "beta")  # last part of a weight's name
AND_EMBEDDINGS = (*BIASES_AND_NORMALISATION, "tokens", "positions", "segments")


@keras.saving.register_keras_serializable(package="bertcnn")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to `peak`, then linear decay to 0 (Devlin et al. 2019, appendix A.2)."""

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps

    def __call__(self, step: Any) -> Any:  # noqa: ANN401
        """The learning rate of `step`, counted from 0."""
        step = ops.cast(step, "float32")
        rise = (step + 1.0) / max(1, self.warmup_steps)
        fall = (self.total_steps - step) / max(1, self.total_steps - self.warmup_steps)
        return self.peak * ops.clip(ops.minimum(rise, fall), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """The arguments of `__init__`."""
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }


@keras.saving.register_keras_serializable(package="bertcnn")
class WarmupInverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to `peak`, then decay with the inverse square root of the step.

    Vaswani et al. 2017, equation 3, where the peak is (D * warmup_steps) ** -0.5.
    """

    def __init__(self, peak: float, warmup_steps: int) -> None:
        self.peak, self.warmup_steps = peak, warmup_steps

    def __call__(self, step: Any) -> Any:  # noqa: ANN401
        """The learning rate of `step`, counted from 0."""
        share = (ops.cast(step, "float32") + 1.0) / self.warmup_steps
        return self.peak * ops.minimum(share, ops.rsqrt(share))

    def get_config(self) -> dict[str, Any]:
        """The arguments of `__init__`."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


class LayerwiseAdamW(keras.optimizers.AdamW):
    """AdamW with a learning rate multiplier for each weight.

    Loshchilov and Hutter 2019, algorithm 2. `share` maps a weight's name to its multiplier.
    `not_decayed` are the last name parts of weights without decay: fine-tuning excludes embeddings,
    since most tokens never occur and would only shrink.
    """

    def __init__(
        self,
        learning_rate: Any,  # noqa: ANN401
        share: Callable[[str], float],
        *,
        weight_decay: float,
        clip_norm: float,
        not_decayed: Collection[str] = AND_EMBEDDINGS,
        beta_2: float = 0.999,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay=weight_decay,
            beta_2=beta_2,
            global_clipnorm=clip_norm,
            name="layerwise_adamw",
        )
        self._share, self._not_decayed = share, frozenset(not_decayed)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:  # noqa: ANN401
        """Adam's step with this weight's learning rate."""
        super().update_step(gradient, variable, learning_rate * self._share(variable.path))

    def _backend_update_step(
        self,
        grads: list[Any],
        trainable_variables: list[Any],
        learning_rate: Any,  # noqa: ANN401
    ) -> None:
        """Update every weight without Keras' `tf.distribute` detour.

        Its all-reduce (of one replica) registers a custom gradient, which TensorFlow never frees:
        the update graph with weights and moments would stay in memory until the process ends.
        """
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            self.update_step(gradient, variable, learning_rate)

    def _apply_weight_decay(self, variables: list[Any]) -> None:
        for variable in variables:
            if variable.path.rsplit("/", 1)[-1] not in self._not_decayed:
                rate = ops.cast(
                    self.learning_rate * self._share(variable.path) * self.weight_decay,
                    variable.dtype,
                )
                variable.assign(variable - variable * rate)


def layer_share(layers: int, settings: TrainingSettings) -> Callable[[str], float]:
    """Learning rate multipliers by weight name.

    The head has its own; the encoder's fall layer by layer (Howard and Ruder 2018, section 3.2).

    Example:
        >>> share = layer_share(2, TrainingSettings(layer_decay=0.5, head_multiplier=5))
        >>> names = ("logits/kernel", "layer_1/expand/kernel", "layer_0/expand/kernel")
        >>> [share(name) for name in (*names, "embeddings/tokens")]
        [5.0, 1.0, 0.5, 0.25]
    """

    def share(name: str) -> float:
        first = name.split("/", 1)[0]
        if first == "embeddings":
            return settings.layer_decay**layers
        if first.startswith("layer_"):
            return settings.layer_decay ** (layers - 1 - int(first.removeprefix("layer_")))
        return settings.head_multiplier

    return share
