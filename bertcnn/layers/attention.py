"""Multi-head attention (Vaswani et al. 2017, section 3.2), with BERT's parameters.

Letters for shapes, used in every file of this package:

    B  batch           T  tokens            D  model width         H  attention heads
    S  source tokens that a decoder reads
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

KeysAndValues = tuple[Any, Any]
_MASKED = -1e9  # added to the scores of padding; exp() of it is exactly 0
_WIDEST_FUSED = 128  # limit of the head width in cuDNN's attention before the Hopper generation


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
    """softmax(Q K^T / sqrt(K)) V in every head; the softmax is always computed in float32.

    Queries are float [B, T, H, K], keys and values float [B, S, H, K]. For the mask see
    `MultiHeadAttention`; `drop` is applied to the probabilities.

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
    """The context of `attend`, computed by the backend's own attention.

    The softmax is in float32 there too. The mask is expanded to [B, 1, T, S], since cuDNN does not
    take [B, 1, 1, S]. Its alternative, a length per row, would allow padding only at a row's end.
    """
    mask = _for_all_heads(ops.cast(attention_mask, "bool"))  # [B, 1, T or 1, S]
    shape = (ops.shape(mask)[0], 1, ops.shape(queries)[1], ops.shape(keys)[1])
    return ops.dot_product_attention(queries, keys, values, mask=ops.broadcast_to(mask, shape))


def _fused_pays(queries: Any, keys: Any) -> bool:
    """Whether the backend has a fused attention kernel for these, [B, T, H, K], [B, S, H, K].

    Keras 3.15 calls cuDNN's kernel on JAX on a GPU. cuDNN's conditions are checked here, since
    Keras logs a traceback if cuDNN refuses: half precision, a head width that is a multiple of 8 up
    to 128, and even lengths, which its gradient needs with a mask.

    Elsewhere the backend computes the same products as `attend`. Forward and backward, XLA, 2 CPU
    cores, `attend` / `attend_fused` in ms: B 32, T 128, H 4, K 64 in float32 68 / 73 on TensorFlow
    and 73 / 100 on JAX; B 8, T 512 129 / 126 and 244 / 304.
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
    """Broadcast a mask over heads: [B, S] to [B, 1, 1, S], [B, T, S] to [B, 1, T, S]."""
    return _by_token(mask)[:, None]


def _by_token(mask: Any) -> Any:
    """Broadcast a mask over tokens: [B, S] to [B, 1, S]; [B, T, S] stays."""
    return mask[:, None] if len(mask.shape) == 2 else mask


def causal_mask(length: int) -> Any:
    """Causal attention mask, int32 [1, T, T]: each token attends to itself and earlier tokens."""
    return ops.cast(ops.tril(ops.ones((1, length, length))), "int32")


@keras.saving.register_keras_serializable(package="bertcnn")
class MultiHeadAttention(keras.layers.Layer):
    """Multi-head self-attention, or attention to `memory` as in a decoder.

    Args:
        heads: H; must divide the width of the input.
        dropout: dropout rate of attention probabilities.

    Call arguments:
        hidden: float [B, T, D].
        attention_mask: int or bool [B, S], 1 at tokens and 0 at padding; or [B, T, S], 1 if a
            token (second axis) may attend to another (third axis). In self-attention S is T. By
            default the Keras mask of `memory`, as from `Embedding(mask_zero=True)`; without one,
            all tokens are attended to.
        memory: float [B, S, D], by default `hidden` itself.
        return_attention: also return the probabilities, float [B, H, T, S].
        use_causal_mask: each token attends to itself and earlier tokens only.

    The call returns float [B, T, D].

    Source: Vaswani et al. 2017, equation 1; google-research/bert `modeling.py`, `attention_layer`.
    """

    def __init__(self, heads: int, *, dropout: float = 0.0, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.heads, self.dropout_rate, self.seed = heads, dropout, seed
        self.dropout = HashDropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, hidden_shape: tuple[Any, ...]) -> None:
        """Create the four projections for inputs of this width."""
        width = hidden_shape[-1]
        names = ("query", "key", "value", "output")
        self.query, self.key, self.value, self.projection = (
            Linear(
                width,
                kernel_initializer=bert_initializer(self.seed + index),
                name=name,
                dtype=self.dtype_policy,
            )
            for index, name in enumerate(names)
        )
        for layer in (self.query, self.key, self.value, self.projection):
            layer.build(hidden_shape)
        self.built = True

    def call(  # noqa: PLR0913 - Keras passes the last three
        self,
        hidden: Any,
        attention_mask: Any = None,
        *,
        memory: Any = None,
        training: bool = False,
        return_attention: bool = False,
        use_causal_mask: bool = False,
        mask: Any = None,
        hidden_mask: Any = None,
        memory_mask: Any = None,
    ) -> Any:
        """Attend; see the class. Keras passes the last three, its own masks of the arguments."""
        if attention_mask is None:
            own = hidden_mask if mask is None else mask
            attention_mask = own if memory is None else memory_mask
        if attention_mask is None:
            attended = hidden if memory is None else memory
            attention_mask = ops.ones((1, ops.shape(attended)[1]), "int32")
        elif "float" in keras.backend.standardize_dtype(attention_mask.dtype):
            raise ValueError(
                f"attention_mask is {attention_mask.dtype}{tuple(attention_mask.shape)}; expected"
                " int or bool [B, S] or [B, T, S]. Pass a second sequence as memory=..."
            )
        if use_causal_mask:
            attention_mask = ops.cast(_by_token(attention_mask), "int32")
            attention_mask = attention_mask * causal_mask(ops.shape(hidden)[1])
        keys, values = self.keys_and_values(hidden if memory is None else memory)
        output, attention = self.attend_to(
            hidden, keys, values, attention_mask, training=training, explained=return_attention
        )
        return (output, attention) if return_attention else output

    def keys_and_values(self, memory: Any) -> tuple[Any, Any]:
        """Keys and values of `memory`, float [B, S, H, K] each; a decoder caches them."""
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
        """Attend to keys and values: float [B, T, D], and the probabilities if `explained`."""
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

    def attend_step(
        self, hidden: Any, position: Any, kept: KeysAndValues
    ) -> tuple[Any, KeysAndValues]:
        """Attend from one more token to itself and all earlier tokens, as with a causal mask.

        Args:
            hidden: float [B, 1, D], of the new token.
            position: int [], its position, from 0.
            kept: keys and values of earlier tokens, float [B, L, H, K] each, with L the maximum
                length.

        Returns:
            float [B, 1, D]; and `kept` with the new token.
        """
        keys, values = (
            ops.slice_update(all_, (0, position, 0, 0), one)
            for all_, one in zip(kept, self.keys_and_values(hidden), strict=True)
        )
        so_far = ops.cast(ops.arange(keys.shape[1]) <= position, "int32")[None]  # [1, L]
        return self.attend_to(hidden, keys, values, so_far)[0], (keys, values)

    def _split_heads(self, hidden: Any) -> Any:
        batch, length, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        return ops.reshape(hidden, (batch, length, self.heads, width // self.heads))  # [B, T, H, K]

    def _join_heads(self, context: Any) -> Any:
        batch, length = ops.shape(context)[0], ops.shape(context)[1]
        return ops.reshape(
            context, (batch, length, context.shape[2] * context.shape[3])
        )  # [B, T, D]

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "heads": self.heads,
            "dropout": self.dropout_rate,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="bertcnn")
class DocumentMask(keras.layers.Layer):
    """Block-diagonal attention mask for packed rows.

    Call arguments:
        document_ids: int [B, T], 0 at padding and k at the tokens of the row's k-th document.

    Returns:
        int32 [B, T, T]. Padding attends to padding, which keeps its values finite.

    Source: Krell et al. 2021, "Efficient sequence packing without cross-contamination", 3.2.
    """

    def call(self, document_ids: Any) -> Any:
        """Compute the mask; see the class."""
        return ops.cast(
            ops.equal(document_ids[:, :, None], document_ids[:, None, :]), "int32"
        )  # [B, T, T]

    def compute_output_shape(
        self, document_ids_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """[B, T, T]."""
        return (*document_ids_shape, document_ids_shape[-1])
