"""AdamW with warm-up, linear decay, and a learning rate of its own for each layer."""

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
    """Rises from 0 to `peak` in `warmup_steps`, then falls to 0 at `total_steps`.

    Devlin et al. 2019, appendix A.2.

    Args:
        peak: the highest learning rate.
        warmup_steps: steps of the rise.
        total_steps: steps of rise and fall together.
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps

    def __call__(self, step: Any) -> Any:  # noqa: ANN401
        """The learning rate of `step`, counted from 0."""
        step = ops.cast(step, "float32")
        rise = (step + 1.0) / max(1, self.warmup_steps)
        fall = (self.total_steps - step) / max(1, self.total_steps - self.warmup_steps)
        return self.peak * ops.clip(ops.minimum(rise, fall), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
        }


@keras.saving.register_keras_serializable(package="bertcnn")
class WarmupInverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """Rises to `peak` in `warmup_steps`, then falls with the square root of the step.

    Vaswani et al. 2017, equation 3, where the peak is (D * warmup_steps) ** -0.5.

    Args:
        peak: the highest learning rate.
        warmup_steps: steps of the rise.
    """

    def __init__(self, peak: float, warmup_steps: int) -> None:
        self.peak, self.warmup_steps = peak, warmup_steps

    def __call__(self, step: Any) -> Any:  # noqa: ANN401
        """The learning rate of `step`, counted from 0."""
        share = (ops.cast(step, "float32") + 1.0) / self.warmup_steps
        return self.peak * ops.minimum(share, ops.rsqrt(share))

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


class LayerwiseAdamW(keras.optimizers.AdamW):
    """AdamW in which every weight has its own share of the learning rate.

    Loshchilov and Hutter 2019, algorithm 2.

    Args:
        learning_rate: schedule or value, before the shares.
        share: a weight's name to its multiplier of the learning rate.
        weight_decay: decoupled.
        clip_norm: largest global norm of the gradient.
        not_decayed: last parts of the names of weights that do not decay. In fine-tuning embeddings
            do not, because most pieces never occur and would only shrink.
        beta_2: how slowly the mean of the squared gradients forgets.
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
        """Adam's step at this weight's own learning rate."""
        super().update_step(gradient, variable, learning_rate * self._share(variable.path))

    def _backend_update_step(
        self,
        grads: list[Any],
        trainable_variables: list[Any],
        learning_rate: Any,  # noqa: ANN401
    ) -> None:
        """Every weight's step, without Keras' detour over `tf.distribute`.

        Its all-reduce (of one replica) registers a custom gradient, and TensorFlow never forgets
        those: the graph of the update, and with it the weights and their moments, would stay in
        memory for as long as the process lives.
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
    """Multipliers of the learning rate by weight name.

    The head's, then falling layer by layer (Howard and Ruder 2018, section 3.2).

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
