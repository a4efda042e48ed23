"""Multi-head self-attention (Vaswani et al. 2017, section 3.2), in BERT's parameters.

The alphabet of shapes, used in every file of this package:

    B  batch           T  tokens            D  model width         H  attention heads
    K  head width      F  feed-forward width V  vocabulary          C  classes
    W  window of a convolution               N  filters of one window size
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.dropout import HashDropout
from bertcnn.layers.linear import Linear

_MASKED = -1e9  # added to the scores of padding; exp() of it is exactly 0


@keras.saving.register_keras_serializable(package="bertcnn")
class MultiHeadAttention(keras.layers.Layer):
    """Every token looks at every token that is not padding, in several heads at once.

    Args:
        heads: H; must divide the width of the input.
        dropout: share of attention probabilities dropped in training.
        seed: of the initial weights and of dropout.

    Call arguments:
        hidden: float [B, T, D].
        attention_mask: int [B, T], 1 at tokens and 0 at padding; or int [B, T, T], 1 where a token (the second axis) may look at another
            (the third).
        return_attention: also return the probabilities, float [B, H, T, T].

    Returns:
        float [B, T, D].

    Source: Vaswani et al. 2017, equation 1; google-research/bert `modeling.py`, `attention_layer`.
    """

    def __init__(self, heads: int, *, dropout: float = 0.0, seed: int = 0, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(**kwargs)
        self.heads, self.dropout_rate, self.seed = heads, dropout, seed
        self.dropout = HashDropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, hidden_shape: tuple[Any, ...]) -> None:
        """Create the four projections for inputs of this width."""
        width = hidden_shape[-1]
        names = ("query", "key", "value", "output")
        self.query, self.key, self.value, self.projection = (
            Linear(width, initializer=bert_initializer(self.seed + index), name=name, dtype=self.dtype_policy)
            for index, name in enumerate(names)
        )
        for layer in (self.query, self.key, self.value, self.projection):
            layer.build(hidden_shape)
        self.built = True

    def call(self, hidden: Any, attention_mask: Any, training: bool = False, return_attention: bool = False) -> Any:  # noqa: ANN401
        """Attend; see the class."""
        queries = self._split_heads(self.query(hidden))  # [B, H, T, K]
        keys = self._split_heads(self.key(hidden))  # [B, H, T, K]
        values = self._split_heads(self.value(hidden))  # [B, H, T, K]

        # softmax(Q K^T / sqrt(K)) V
        head_width = queries.shape[-1]
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2))) * head_width**-0.5  # [B, H, T, T]
        scores = ops.cast(scores, "float32") + _mask_bias(attention_mask)
        attention = ops.cast(ops.softmax(scores, axis=-1), self.compute_dtype)
        context = ops.matmul(self.dropout(attention, training=training), values)  # [B, H, T, K]

        output = self.projection(self._join_heads(context))  # [B, T, D]
        return (output, attention) if return_attention else output

    def _split_heads(self, hidden: Any) -> Any:  # noqa: ANN401
        batch, length, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        hidden = ops.reshape(hidden, (batch, length, self.heads, width // self.heads))  # [B, T, H, K]
        return ops.transpose(hidden, (0, 2, 1, 3))  # [B, H, T, K]

    def _join_heads(self, context: Any) -> Any:  # noqa: ANN401
        context = ops.transpose(context, (0, 2, 1, 3))  # [B, T, H, K]
        batch, length = ops.shape(context)[0], ops.shape(context)[1]
        return ops.reshape(context, (batch, length, context.shape[2] * context.shape[3]))  # [B, T, D]

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {**super().get_config(), "heads": self.heads, "dropout": self.dropout_rate, "seed": self.seed}


def bert_initializer(seed: int) -> keras.initializers.Initializer:
    """Truncated normal with a standard deviation of 0.02, as in google-research/bert `create_initializer`."""
    return keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)


def _mask_bias(attention_mask: Any) -> Any:  # noqa: ANN401
    """float32 [B, 1, 1, T] or [B, 1, T, T]: 0 where a token may look, very negative elsewhere, for every head alike."""
    bias = (1.0 - ops.cast(attention_mask, "float32")) * _MASKED
    return bias[:, None, None, :] if len(bias.shape) == 2 else bias[:, None]


@keras.saving.register_keras_serializable(package="bertcnn")
class DocumentMask(keras.layers.Layer):
    """Who may look at whom in rows of several documents: tokens of one document at each other, in a block-diagonal matrix.

    Call arguments:
        document_ids: int [B, T], 0 at padding and k at the tokens of the row's k-th document.

    Returns:
        int32 [B, T, T], for `MultiHeadAttention`. Padding looks at padding, which keeps its own values finite.

    Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination", section 3.2.
    """

    def call(self, document_ids: Any) -> Any:  # noqa: ANN401
        """Compare; see the class."""
        return ops.cast(ops.equal(document_ids[:, :, None], document_ids[:, None, :]), "int32")  # [B, T, T]

    def compute_output_shape(self, document_ids_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:  # noqa: D102
        return (*document_ids_shape, document_ids_shape[-1])
