"""Multi-head attention (Vaswani et al. 2017, section 3.2), in BERT's parameters.

The alphabet of shapes, used in every file of this package:

    B  batch           T  tokens            D  model width         H  attention heads
    S  tokens of the source, which a decoder reads
    K  head width      F  feed-forward width V  vocabulary          C  classes
    W  window of a convolution               N  filters of one window size
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bertcnn.backend import on_gpu
from bertcnn.layers.dropout import HashDropout
from bertcnn.layers.linear import Linear

_MASKED = -1e9  # added to the scores of padding; exp() of it is exactly 0
_WIDEST_FUSED = 128  # head width, of cuDNN's attention before the Hopper generation


def bert_initializer(seed: int) -> keras.initializers.Initializer:
    """Truncated normal with a standard deviation of 0.02, as in google-research/bert."""
    return keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)


def attend(
    queries: Any,
    keys: Any,
    values: Any,
    attention_mask: Any,
    drop: Callable[[Any], Any] | None = None,
) -> tuple[Any, Any]:
    """softmax(Q K^T / sqrt(K)) V in every head.

    The softmax is in float32, whatever the inputs are in.

    Args:
        queries: float [B, T, H, K].
        keys: float [B, S, H, K]; in self-attention S is T.
        values: likewise.
        attention_mask: int [B, S] or [B, T, S], see `MultiHeadAttention`.
        drop: applied to the probabilities.

    Returns:
        The context, float [B, T, H, K], and the probabilities before `drop`, float [B, H, T, S].
    """
    queries, keys, values = (
        ops.transpose(part, (0, 2, 1, 3)) for part in (queries, keys, values)
    )  # [B, H, T, K], and twice [B, H, S, K]
    scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))  # [B, H, T, S]
    scores = ops.cast(scores, "float32") * queries.shape[-1] ** -0.5
    scores = scores + _for_all_heads((1.0 - ops.cast(attention_mask, "float32")) * _MASKED)
    attention = ops.cast(ops.softmax(scores, axis=-1), values.dtype)
    context = ops.matmul(attention if drop is None else drop(attention), values)  # [B, H, T, K]
    return ops.transpose(context, (0, 2, 1, 3)), attention


def attend_fused(queries: Any, keys: Any, values: Any, attention_mask: Any) -> Any:
    """The context that `attend` returns, from the backend's own attention.

    The softmax is in float32 there too. The mask goes there as [B, 1, T, S]: cuDNN takes no
    [B, 1, 1, S], and the lengths that it takes instead would allow padding at a row's end only.
    """
    mask = _for_all_heads(ops.cast(attention_mask, "bool"))  # [B, 1, T or 1, S]
    shape = (ops.shape(mask)[0], 1, ops.shape(queries)[1], ops.shape(keys)[1])
    return ops.dot_product_attention(queries, keys, values, mask=ops.broadcast_to(mask, shape))


def _fused_pays(queries: Any, keys: Any) -> bool:
    """Whether the backend's own attention is a fused kernel for these, [B, T, H, K], [B, S, H, K].

    It is cuDNN's, which Keras 3.15 calls on JAX on a GPU. cuDNN's conditions are checked here, as
    Keras logs a traceback for what cuDNN refuses: half precision, a head width of a multiple of 8
    up to 128, and even lengths, which its gradient needs where there is a mask.

    Elsewhere the backend writes out the products that `attend` does. Forward and backward, XLA, 2
    CPU cores, `attend` / `attend_fused` in ms: B 32, T 128, H 4, K 64 in float32 68 / 73 on
    TensorFlow and 73 / 100 on JAX; B 8, T 512 129 / 126 and 244 / 304.
    """
    width, dtype = queries.shape[-1], keras.backend.standardize_dtype(queries.dtype)
    return (
        keras.backend.backend() == "jax"
        and dtype in ("bfloat16", "float16")
        and width % 8 == 0
        and width <= _WIDEST_FUSED
        and queries.shape[1] % 2 == keys.shape[1] % 2 == 0
        and on_gpu()
    )


def _for_all_heads(mask: Any) -> Any:
    """[B, 1, 1, S] of [B, S], [B, 1, T, S] of [B, T, S]."""
    return mask[:, None, None, :] if len(mask.shape) == 2 else mask[:, None]


@keras.saving.register_keras_serializable(package="bertcnn")
class MultiHeadAttention(keras.layers.Layer):
    """Every token looks at every token that is not padding, in several heads at once.

    Its own row's tokens (self-attention), or those of `memory`, as a decoder looks at its source.

    Args:
        heads: H; must divide the width of the input.
        dropout: share of attention probabilities dropped in training.
        seed: of the initial weights and of dropout.

    Call arguments:
        hidden: float [B, T, D].
        attention_mask: int [B, S], 1 at tokens and 0 at padding; or int [B, T, S], 1 where a token
            (the second axis) may look at another (the third). In self-attention S is T.
        memory: float [B, S, D], what is looked at; by default `hidden` itself.
        return_attention: also return the probabilities, float [B, H, T, S].

    Returns:
        float [B, T, D].

    Source: Vaswani et al. 2017, equation 1; google-research/bert `modeling.py`, `attention_layer`.
    """

    def __init__(self, heads: int, *, dropout: float = 0.0, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads, self.dropout_rate, self.seed = heads, dropout, seed
        self.dropout = HashDropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, hidden_shape: tuple[Any, ...]) -> None:
        """Create the four projections for inputs of this width."""
        width = hidden_shape[-1]
        names = ("query", "key", "value", "output")
        self.query, self.key, self.value, self.projection = (
            Linear(
                width,
                initializer=bert_initializer(self.seed + index),
                name=name,
                dtype=self.dtype_policy,
            )
            for index, name in enumerate(names)
        )
        for layer in (self.query, self.key, self.value, self.projection):
            layer.build(hidden_shape)
        self.built = True

    def call(
        self,
        hidden: Any,
        attention_mask: Any,
        memory: Any = None,
        training: bool = False,
        return_attention: bool = False,
    ) -> Any:
        """Attend; see the class."""
        keys, values = self.keys_and_values(hidden if memory is None else memory)
        output, attention = self.attend_to(
            hidden, keys, values, attention_mask, training=training, explained=return_attention
        )
        return (output, attention) if return_attention else output

    def keys_and_values(self, memory: Any) -> tuple[Any, Any]:
        """What is looked at, float [B, S, H, K] twice; a decoder computes it once and keeps it."""
        return self._split_heads(self.key(memory)), self._split_heads(self.value(memory))

    def attend_to(
        self,
        hidden: Any,
        keys: Any,
        values: Any,
        attention_mask: Any,
        *,
        training: bool = False,
        explained: bool = False,
    ) -> tuple[Any, Any]:
        """The output of `hidden` over keys and values, float [B, T, D], and the probabilities.

        The latter only if `explained`; otherwise they may be None.
        """
        queries = self._split_heads(self.query(hidden))  # [B, T, H, K]
        dropping = training and self.dropout_rate > 0
        attention = None
        if not dropping and not explained and _fused_pays(queries, keys):
            context = attend_fused(queries, keys, values, attention_mask)  # [B, T, H, K]
        else:
            drop = (
                (lambda probabilities: self.dropout(probabilities, training=True))
                if dropping
                else None
            )
            context, attention = attend(queries, keys, values, attention_mask, drop)
        return self.projection(self._join_heads(context)), attention

    def _split_heads(self, hidden: Any) -> Any:
        batch, length, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        return ops.reshape(hidden, (batch, length, self.heads, width // self.heads))  # [B, T, H, K]

    def _join_heads(self, context: Any) -> Any:
        batch, length = ops.shape(context)[0], ops.shape(context)[1]
        return ops.reshape(
            context, (batch, length, context.shape[2] * context.shape[3])
        )  # [B, T, D]

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {
            **super().get_config(),
            "heads": self.heads,
            "dropout": self.dropout_rate,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="bertcnn")
class DocumentMask(keras.layers.Layer):
    """Block-diagonal attention mask for packed rows.

    Tokens of one document at each other, in a block-diagonal matrix.
    Call arguments:
        document_ids: int [B, T], 0 at padding and k at the tokens of the row's k-th document.

    Returns:
        int32 [B, T, T], for `MultiHeadAttention`. Padding looks at padding, which keeps its own
        values finite.

    Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination", section
    3.2.
    """

    def call(self, document_ids: Any) -> Any:
        """Compare; see the class."""
        return ops.cast(
            ops.equal(document_ids[:, :, None], document_ids[:, None, :]), "int32"
        )  # [B, T, T]

    def compute_output_shape(
        self, document_ids_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """[B, T, T]."""
        return (*document_ids_shape, document_ids_shape[-1])
