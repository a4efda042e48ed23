"""A block of the Transformer encoder, post-norm as in BERT."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.attention import KeysAndValues, MultiHeadAttention, bert_initializer
from bertcnn.layers.dropout import HashDropout
from bertcnn.layers.linear import Linear


def gelu(values: Any) -> Any:
    """Exact GELU (Hendrycks and Gimpel 2016): x times the standard normal CDF of x.

    It is written with erf, since exporters do not know erfc, which backends choose.
    """
    return 0.5 * values * (1.0 + ops.erf(values * 2.0**-0.5))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": lambda values: ops.gelu(values, approximate=True),
    "relu": ops.relu,
}


@keras.saving.register_keras_serializable(package="bertcnn")
class TransformerBlock(keras.layers.Layer):
    """Self-attention, then a feed-forward layer of width F.

    Each is followed by dropout, residual connection and normalisation. `activation` is "gelu"
    (exact), "gelu_tanh" or "relu".

    Call arguments:
        hidden: float [B, T, D]; the output has the same shape.
        attention_mask: int [B, T] or [B, T, T]; by default Keras' own mask, if there is one; see
            `MultiHeadAttention`, also for `use_causal_mask`.

    Source: Devlin et al. 2019, section 3; google-research/bert `modeling.py`, `transformer_model`.
    """

    def __init__(
        self,
        heads: int,
        feed_forward_width: int,
        *,
        activation: str = "gelu",
        epsilon: float = 1e-12,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.heads, self.feed_forward_width, self.activation = heads, feed_forward_width, activation
        self.epsilon = epsilon
        self.dropout_rate = dropout
        self.attention_dropout = attention_dropout
        self.seed = seed
        policy = self.dtype_policy
        self.attention = MultiHeadAttention(
            heads, dropout=attention_dropout, seed=seed, name="attention", dtype=policy
        )
        self.attention_norm = keras.layers.LayerNormalization(
            epsilon=epsilon, name="attention_norm", dtype=policy
        )
        self.expand = Linear(
            feed_forward_width,
            kernel_initializer=bert_initializer(seed + 4),
            name="expand",
            dtype=policy,
        )
        self.output_norm = keras.layers.LayerNormalization(
            epsilon=epsilon, name="output_norm", dtype=policy
        )
        self.attention_drop = HashDropout(dropout, seed=seed + 1, dtype=policy)
        self.output_drop = HashDropout(dropout, seed=seed + 2, dtype=policy)

    def build(self, hidden_shape: tuple[Any, ...], *_: Any) -> None:
        """Create the weights for inputs of this width."""
        width = hidden_shape[-1]
        self.contract = Linear(
            width,
            kernel_initializer=bert_initializer(self.seed + 5),
            name="contract",
            dtype=self.dtype_policy,
        )
        for layer in (self.attention, self.attention_norm, self.expand, self.output_norm):
            layer.build(hidden_shape)
        self.contract.build((*hidden_shape[:-1], self.feed_forward_width))
        self.built = True

    def call(
        self,
        hidden: Any,
        attention_mask: Any = None,
        training: bool = False,
        mask: Any = None,
        *,
        use_causal_mask: bool = False,
    ) -> Any:
        """Transform; see the class."""
        attention_mask = mask if attention_mask is None else attention_mask
        attended = self.attention(
            hidden, attention_mask, use_causal_mask=use_causal_mask, training=training
        )  # [B, T, D]
        return self._transform(hidden, attended, training=training)

    def step(self, hidden: Any, position: Any, kept: KeysAndValues) -> tuple[Any, KeysAndValues]:
        """Transform one more token of a causal model; see `MultiHeadAttention.attend_step`."""
        attended, kept = self.attention.attend_step(hidden, position, kept)
        return self._transform(hidden, attended), kept

    def _transform(self, hidden: Any, attended: Any, *, training: bool = False) -> Any:
        hidden = self.attention_norm(hidden + self.attention_drop(attended, training=training))
        expanded = ACTIVATIONS[self.activation](self.expand(hidden))  # [B, T, F]
        contracted = self.contract(expanded)  # [B, T, D]
        return self.output_norm(hidden + self.output_drop(contracted, training=training))

    def compute_output_shape(
        self, hidden_shape: tuple[int | None, ...], *_: Any
    ) -> tuple[int | None, ...]:
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
