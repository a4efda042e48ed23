"""The CNN head's parts: filters over windows of tokens, and what each row keeps of them."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.linear import matmul_tokens


@keras.saving.register_keras_serializable(package="bertcnn")
class WindowConvolution(keras.layers.Layer):
    """N filters over every window of W tokens, through ReLU (Kim 2014, section 2).

    The window at token t covers t to t + W - 1; past the end of a text it sees zeros, whatever the padding holds, so that the same
    text gives the same answer in every batch. A convolution of width W is the sum of W shifted matrix products, which
    is how it is computed: one large product that every backend does well.

    Args:
        window: W, tokens under a filter.
        filters: N.
        seed: of the initial weights.

    Call arguments:
        hidden: float [B, T, D].
        padding_mask: int [B, T], 1 at tokens and 0 at padding.

    Returns:
        float [B, T, N], not negative, 0 at padding.
    """

    def __init__(self, window: int, filters: int, *, seed: int = 0, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(**kwargs)
        self.window, self.filters, self.seed = window, filters, seed

    def build(self, hidden_shape: tuple[int | None, ...], *_: Any) -> None:  # noqa: ANN401
        """Create the filters for inputs of this width."""
        initializer = keras.initializers.GlorotUniform(seed=self.seed)
        self.kernel = self.add_weight(name="kernel", shape=(self.window, hidden_shape[-1], self.filters), initializer=initializer)
        self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")
        self.built = True

    def call(self, hidden: Any, padding_mask: Any) -> Any:  # noqa: ANN401
        """Convolve; see the class."""
        real = ops.cast(padding_mask, self.compute_dtype)[:, :, None]  # [B, T, 1]
        batch, length, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        kernel = ops.reshape(ops.transpose(self.kernel, (1, 0, 2)), (width, self.window * self.filters))  # [D, W*N]
        products = ops.reshape(matmul_tokens(hidden * real, kernel), (batch, length, self.window, self.filters))  # [B, T, W, N]
        products = ops.pad(products, ((0, 0), (0, self.window - 1), (0, 0), (0, 0)))  # [B, T+W-1, W, N]
        total = sum(products[:, offset : offset + length, offset] for offset in range(self.window))  # [B, T, N]
        return ops.relu(total + self.bias) * real

    def compute_output_shape(self, hidden_shape: tuple[int | None, ...], *_: Any) -> tuple[int | None, ...]:  # noqa: ANN401
        """[B, T, N]."""
        return (*hidden_shape[:-1], self.filters)

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {**super().get_config(), "window": self.window, "filters": self.filters, "seed": self.seed}


@keras.saving.register_keras_serializable(package="bertcnn")
class MaskedMean(keras.layers.Layer):
    """The mean over a row's real tokens.

    Call arguments:
        hidden: float [B, T, D].
        padding_mask: int [B, T], 1 at tokens and 0 at padding.

    Returns:
        float [B, D].
    """

    def call(self, hidden: Any, padding_mask: Any) -> Any:  # noqa: ANN401
        """Average; see the class."""
        real = ops.cast(padding_mask, self.compute_dtype)[:, :, None]  # [B, T, 1]
        return ops.sum(hidden * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)

    def compute_output_shape(self, hidden_shape: tuple[int | None, ...], *_: Any) -> tuple[int | None, ...]:  # noqa: ANN401
        """[B, D]."""
        return (hidden_shape[0], hidden_shape[-1])


@keras.saving.register_keras_serializable(package="bertcnn")
class MaskedMax(keras.layers.Layer):
    """The largest activation of each filter in a row.

    The activations come from `WindowConvolution`, are never negative and are 0 at padding, so the plain maximum is the masked one.

    Call arguments:
        activations: float [B, T, N], not negative, 0 at padding.

    Returns:
        float [B, N].
    """

    def call(self, activations: Any) -> Any:  # noqa: ANN401
        """Take the maximum over tokens; see the class."""
        return ops.max(activations, axis=1)

    def compute_output_shape(self, activations_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """[B, N]."""
        return (activations_shape[0], activations_shape[-1])
