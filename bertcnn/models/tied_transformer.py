"""The bases of models that predict the next token."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import keras
from keras import ops

from bertcnn.backend import check_process
from bertcnn.layers import BertEmbeddings
from bertcnn.settings import Settings

_EPSILON = 1e-6


class TiedModel(keras.Model):
    """One float32 table for input tokens and, transposed, the output (Vaswani et al. 2017, 3.4)."""

    settings_class: ClassVar[type[Settings]]

    def __init__(self, settings: Any, *, pad_id: int = 0, seed: int = 0, **kwargs: Any) -> None:
        check_process()
        super().__init__(**kwargs)
        self.settings, self.pad_id, self.seed = settings, pad_id, seed
        width = settings.width
        self.tokens = keras.layers.Embedding(
            settings.vocabulary_size,
            width,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=width**-0.5, seed=seed),
            name="tokens",
            dtype="float32",
        )
        self.tokens.build()

    def logits(self, hidden: Any) -> Any:
        """Logits of the next token, float32 [B, T, V]."""
        tokens = ops.cast(ops.transpose(self.tokens.embeddings), self.compute_dtype)
        return ops.cast(ops.matmul(hidden, tokens), "float32")

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "settings": self.settings.model_dump(),
            "pad_id": self.pad_id,
            "seed": self.seed,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """The same architecture with new initial weights."""
        return cls(cls.settings_class(**config.pop("settings")), **config)


class TiedTransformer(TiedModel):
    """Blocks on the table's vectors and fixed sinusoidal positions (Vaswani et al. 2017, 3.5)."""

    def __init__(self, settings: Any, longest: int, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        sinusoids = BertEmbeddings.sinusoids[settings.positions]
        self.sinusoids = sinusoids(longest, settings.width)  # [longest, D]

    def block_settings(self, activation: str) -> dict[str, Any]:
        """Arguments of every block."""
        return {
            "heads": self.settings.heads,
            "feed_forward_width": self.settings.feed_forward_width,
            "activation": activation,
            "epsilon": _EPSILON,
            "dropout": self.settings.dropout,
            "dtype": self.dtype_policy,
        }

    def embedded(self, token_ids: Any, first: Any = 0) -> Any:
        """Scaled embeddings float [B, T, D] of tokens at positions from `first` on."""
        indices = ops.arange(ops.shape(token_ids)[1]) + first
        positions = ops.take(ops.convert_to_tensor(self.sinusoids), indices, axis=0)
        embedded = self.tokens(token_ids) * self.settings.width**0.5
        return ops.cast(embedded + ops.cast(positions, embedded.dtype), self.compute_dtype)
