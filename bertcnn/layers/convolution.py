"""The layers of the CNN head: convolutions over tokens, and pooling by row."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.linear import matmul_tokens


@keras.saving.register_keras_serializable(package="bertcnn")
class WindowConvolution(keras.layers.Layer):
    """N filters over every window of W tokens, with ReLU (Kim 2014, section 2).

    The window at token t covers t to t + W - 1. Past the end of a text it sees zeros, so that
    padding does not change the result. The convolution is computed as the sum of W shifted slices
    of one large matrix product, which is fast on every backend.

    Args:
        packed: whether a row holds several documents; windows do not cross their ends.

    Call arguments:
        hidden: float [B, T, D].
        padding_mask: int [B, T], 0 at padding and 1 at tokens; k in a packed row's k-th document.

    Returns:
        float [B, T, N], non-negative, 0 at padding.
    """

    def __init__(
        self, window: int, filters: int, *, packed: bool = False, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.window, self.filters, self.packed, self.seed = window, filters, packed, seed

    def build(self, hidden_shape: tuple[int | None, ...], *_: Any) -> None:
        """Create the filters for inputs of this width."""
        initializer = keras.initializers.GlorotUniform(seed=self.seed)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.window, hidden_shape[-1], self.filters),
            initializer=initializer,
        )
        self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")
        self.built = True

    def call(self, hidden: Any, padding_mask: Any) -> Any:
        """Convolve; see the class."""
        real = ops.cast(ops.cast(padding_mask, "bool"), self.compute_dtype)[:, :, None]  # [B, T, 1]
        batch, length, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        kernel = ops.reshape(
            ops.transpose(self.kernel, (1, 0, 2)), (width, self.window * self.filters)
        )  # [D, W*N]
        products = ops.reshape(
            matmul_tokens(hidden * real, kernel), (batch, length, self.window, self.filters)
        )  # [B, T, W, N]
        # [B, T+W-1, W, N]
        products = ops.pad(products, ((0, 0), (0, self.window - 1), (0, 0), (0, 0)))
        shifted = [
            products[:, offset : offset + length, offset] for offset in range(self.window)
        ]  # each [B, T, N]
        if self.packed:
            shifted = [
                part * self._same_document(padding_mask, offset)
                for offset, part in enumerate(shifted)
            ]
        return ops.relu(sum(shifted) + self.bias) * real

    def _same_document(self, document_ids: Any, offset: int) -> Any:
        """1 if the token `offset` places later is in the same document, else 0; [B, T, 1]."""
        ahead = ops.pad(document_ids, ((0, 0), (0, offset)))[:, offset:]
        return ops.cast(ops.equal(document_ids, ahead), self.compute_dtype)[:, :, None]

    def compute_output_shape(
        self, hidden_shape: tuple[int | None, ...], *_: Any
    ) -> tuple[int | None, ...]:
        """[B, T, N]."""
        return (*hidden_shape[:-1], self.filters)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "window": self.window,
            "filters": self.filters,
            "packed": self.packed,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="bertcnn")
class MaskedMean(keras.layers.Layer):
    """The mean over a row's tokens without padding, summed in float32, float [B, D].

    Call arguments:
        hidden: float [B, T, D].
        padding_mask: int [B, T], 1 at tokens and 0 at padding.
    """

    def call(self, hidden: Any, padding_mask: Any) -> Any:
        """Average; see the class."""
        real = ops.cast(padding_mask, "float32")[:, :, None]  # [B, T, 1]
        total = ops.sum(ops.cast(hidden, "float32") * real, axis=1)
        return ops.cast(total / ops.maximum(ops.sum(real, axis=1), 1.0), self.compute_dtype)

    def compute_output_shape(
        self, hidden_shape: tuple[int | None, ...], *_: Any
    ) -> tuple[int | None, ...]:
        """[B, D]."""
        return (hidden_shape[0], hidden_shape[-1])


@keras.saving.register_keras_serializable(package="bertcnn")
class MaskedMax(keras.layers.Layer):
    """The maximum activation of each filter in a row, float [B, N].

    The activations, float [B, T, N], come from `WindowConvolution`: they are non-negative and 0 at
    padding, so no mask is needed.
    """

    def call(self, activations: Any) -> Any:
        """Take the maximum over tokens; see the class."""
        return ops.max(activations, axis=1)

    def compute_output_shape(
        self, activations_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """[B, N]."""
        return (activations_shape[0], activations_shape[-1])


class _PerDocument(keras.layers.Layer):
    """Base of layers that return one vector for each of a row's K documents."""

    def __init__(self, documents: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.documents = documents

    def compute_output_shape(
        self, values_shape: tuple[int | None, ...], *_: Any
    ) -> tuple[int | None, ...]:
        """[B, K, D] for an input of [B, T, D]."""
        return (values_shape[0], self.documents, values_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "documents": self.documents}


@keras.saving.register_keras_serializable(package="bertcnn")
class DocumentMean(_PerDocument):
    """`MaskedMean` of each of K `documents` in packed rows, float [B, K, D], 0 for missing ones.

    Call arguments:
        hidden: float [B, T, D].
        document_ids: int [B, T], 0 at padding and k at the tokens of the row's k-th document.
    """

    def call(self, hidden: Any, document_ids: Any) -> Any:
        """Average; see the class."""
        members = _members(document_ids, self.documents, self.compute_dtype)  # [B, K, T]
        return ops.matmul(members, hidden) / ops.maximum(
            ops.sum(members, axis=2, keepdims=True), 1.0
        )


@keras.saving.register_keras_serializable(package="bertcnn")
class DocumentMax(_PerDocument):
    """`MaskedMax` of each of K `documents` in packed rows, float [B, K, N], 0 for missing ones.

    The gradient goes in equal shares to the tokens with their document's maximum, as with `max`. It
    is written out here, since the gradient of a masked maximum would be computed for every pair of
    document and token, which took longer than the convolution.

    Call arguments:
        activations: float [B, T, N], non-negative.
        document_ids: int [B, T], 0 at padding and k at the tokens of the row's k-th document.
    """

    def call(self, activations: Any, document_ids: Any) -> Any:
        """Take the maxima; see the class."""
        members = _members(document_ids, self.documents, self.compute_dtype)  # [B, K, T]
        # [B, K, N]
        largest = ops.stop_gradient(ops.max(activations[:, None] * members[..., None], axis=2))
        at_tokens = ops.take_along_axis(
            largest, ops.maximum(document_ids - 1, 0)[:, :, None], axis=1
        )  # [B, T, N]
        won = ops.cast(ops.equal(activations, at_tokens), self.compute_dtype)  # [B, T, N]
        winners = ops.matmul(members, won * activations) / ops.maximum(
            ops.matmul(members, won), 1.0
        )  # [B, K, N]
        return largest + (winners - ops.stop_gradient(winners))


def _members(document_ids: Any, documents: int, dtype: str) -> Any:
    return ops.cast(
        ops.equal(
            document_ids[:, None],
            ops.arange(1, documents + 1, dtype=document_ids.dtype)[None, :, None],
        ),
        dtype,
    )
