"""A block of the Transformer decoder, post-norm as published."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.attention import KeysAndValues, MultiHeadAttention, bert_initializer
from bertcnn.layers.dropout import HashDropout
from bertcnn.layers.encoder import ACTIVATIONS
from bertcnn.layers.linear import Linear


@keras.saving.register_keras_serializable(package="bertcnn")
class DecoderBlock(keras.layers.Layer):
    """Causal self-attention, attention to the source, and a feed-forward layer of width F.

    Each is followed by dropout, residual connection and normalisation. `activation` is "relu",
    "gelu" (exact) or "gelu_tanh".

    Call arguments:
        hidden: float [B, T, D]; the output has the same shape.
        memory: float [B, S, D], the encoder's output.
        memory_mask: int [B, S], 1 at tokens and 0 at padding; by default Keras' own mask of
            `memory`, or none.

    Source: Vaswani et al. 2017, section 3.1 and figure 1.
    """

    def __init__(
        self,
        heads: int,
        feed_forward_width: int,
        *,
        activation: str = "relu",
        epsilon: float = 1e-6,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.heads, self.feed_forward_width, self.activation = heads, feed_forward_width, activation
        self.epsilon = epsilon
        self.dropout_rate = dropout
        self.attention_dropout = attention_dropout
        self.seed = seed
        policy = self.dtype_policy
        self.self_attention, self.source_attention = (
            MultiHeadAttention(
                heads, dropout=attention_dropout, seed=seed + 10 * index, name=name, dtype=policy
            )
            for index, name in enumerate(("self_attention", "source_attention"))
        )
        self.expand = Linear(
            feed_forward_width,
            kernel_initializer=bert_initializer(seed + 4),
            name="expand",
            dtype=policy,
        )
        self.self_norm, self.source_norm, self.output_norm = (
            keras.layers.LayerNormalization(epsilon=epsilon, name=name, dtype=policy)
            for name in ("self_norm", "source_norm", "output_norm")
        )
        self.self_drop, self.source_drop, self.output_drop = (
            HashDropout(dropout, seed=seed + index, dtype=policy) for index in (1, 2, 3)
        )

    def build(self, hidden_shape: tuple[Any, ...], *_: Any) -> None:
        """Create the weights for inputs of this width."""
        self.contract = Linear(
            hidden_shape[-1],
            kernel_initializer=bert_initializer(self.seed + 5),
            name="contract",
            dtype=self.dtype_policy,
        )
        for layer in (
            self.self_attention,
            self.source_attention,
            self.expand,
            self.self_norm,
            self.source_norm,
            self.output_norm,
        ):
            layer.build(hidden_shape)
        self.contract.build((*hidden_shape[:-1], self.feed_forward_width))
        self.built = True

    def call(
        self, hidden: Any, memory: Any, memory_mask: Any = None, training: bool = False
    ) -> Any:
        """Decode all tokens at once, as in training; see the class."""
        if memory_mask is None:
            memory_mask = ops.ones((1, ops.shape(memory)[1]), "int32")
        source = self.source_attention.keys_and_values(memory)
        attended = self.self_attention(hidden, use_causal_mask=True, training=training)
        return self._transform(hidden, attended, source, memory_mask, training=training)[0]

    def step(
        self, hidden: Any, position: Any, written: KeysAndValues, source: KeysAndValues, mask: Any
    ) -> tuple[Any, KeysAndValues, Any]:
        """Decode one more token, using cached keys and values.

        Args:
            hidden: float [B, 1, D], of the new token.
            position: int [], its position, from 0.
            written: cached keys and values, float [B, L, H, K] each, with L the maximum length.
            source: `source_attention.keys_and_values` of the encoder's output.
            mask: int [B, S], of the source.

        Returns:
            The output, float [B, 1, D]; the updated cache; and the attention to the source, float
            [B, S], averaged over heads.
        """
        attended, written = self.self_attention.attend_step(hidden, position, written)
        hidden, looked = self._transform(hidden, attended, source, mask, explained=True)
        return hidden, written, ops.mean(looked[:, :, 0], axis=1)

    def _transform(
        self,
        hidden: Any,
        attended: Any,
        source: KeysAndValues,
        source_mask: Any,
        *,
        training: bool = False,
        explained: bool = False,
    ) -> tuple[Any, Any]:
        hidden = self.self_norm(hidden + self.self_drop(attended, training=training))
        attended, looked = self.source_attention.attend_to(
            hidden, *source, source_mask, training=training, explained=explained
        )
        hidden = self.source_norm(hidden + self.source_drop(attended, training=training))
        expanded = ACTIVATIONS[self.activation](self.expand(hidden))  # [B, T, F]
        contracted = self.contract(expanded)  # [B, T, D]
        hidden = self.output_norm(hidden + self.output_drop(contracted, training=training))
        return hidden, looked

    def compute_output_shape(self, hidden_shape: tuple[Any, ...], *_: Any) -> tuple[Any, ...]:
        """The input's shape."""
        return hidden_shape

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "heads": self.heads,
            "feed_forward_width": self.feed_forward_width,
            "activation": self.activation,
            "epsilon": self.epsilon,
            "dropout": self.dropout_rate,
            "attention_dropout": self.attention_dropout,
            "seed": self.seed,
        }
