"""Additive attention (Bahdanau et al. 2014)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

_MASKED = -1e9  # replaces the scores of padding; exp() of it is exactly 0


@keras.saving.register_keras_serializable(package="bertcnn")
class AdditiveAttention(keras.layers.Layer):
    """Additive attention of decoder states over source states.

    e_tj = v . tanh(W s_t + U h_j + b), alpha_tj = softmax of e_tj over j, context phi_t = sum over
    j of alpha_tj h_j. Unlike in a scalar product, the two states may differ in width.

    Args:
        units: width of the hidden layer.

    Call arguments:
        queries: float [B, T, D], decoder states, s_{t-1} for step t.
        memory: float [B, S, E], source states, h_j.
        memory_mask: int [B, S], 1 at tokens and 0 at padding.

    Returns:
        The contexts, float [B, T, E], and the attention weights, float32 [B, T, S]: each row sums
        to 1, and padding has exactly 0.

    Source: Bahdanau et al. 2014, section 3.1 and appendix A.1.2.
    """

    def __init__(self, units: int, *, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.seed = units, seed

    def build(self, queries_shape: tuple[Any, ...], memory_shape: tuple[Any, ...], *_: Any) -> None:
        """Create the weights for states of these widths."""
        shapes = {
            "query": (queries_shape[-1], self.units),
            "memory": (memory_shape[-1], self.units),
            "score": (self.units, 1),
        }
        self.query, self.memory, self.score = (
            self.add_weight(
                name=name,
                shape=shape,
                initializer=keras.initializers.GlorotUniform(seed=self.seed + index),
            )
            for index, (name, shape) in enumerate(shapes.items())
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.built = True

    def call(self, queries: Any, memory: Any, memory_mask: Any) -> tuple[Any, Any]:
        """Compute contexts and weights; see the class."""
        return self.look(queries, memory, self.prepared(memory), memory_mask)

    def prepared(self, memory: Any) -> Any:
        """U h_j + b, float [B, S, units]; the same at every step, so computed once."""
        return ops.matmul(memory, self.memory) + self.bias

    def look(self, queries: Any, memory: Any, prepared: Any, memory_mask: Any) -> tuple[Any, Any]:
        """As `call`, with `prepared` from `prepared(memory)`."""
        projected = ops.matmul(queries, self.query)  # [B, T, units]
        hidden = ops.tanh(projected[:, :, None, :] + prepared[:, None, :, :])  # [B, T, S, units]
        scores = ops.cast(ops.matmul(hidden, self.score)[..., 0], "float32")  # [B, T, S]
        seen = ops.cast(memory_mask, "bool")[:, None, :]
        weights = ops.softmax(ops.where(seen, scores, _MASKED), axis=-1)
        return ops.matmul(ops.cast(weights, memory.dtype), memory), weights

    def compute_output_shape(
        self, queries_shape: tuple[Any, ...], memory_shape: tuple[Any, ...], *_: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """[B, T, E] and [B, T, S]."""
        return (
            (*queries_shape[:-1], memory_shape[-1]),
            (*queries_shape[:-1], memory_shape[1]),
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "units": self.units, "seed": self.seed}
