"""Input embeddings of BERT."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from bertcnn.layers.attention import bert_initializer
from bertcnn.layers.dropout import HashDropout
from bertcnn.layers.linear import matmul_tokens

_LONGEST_WAVE = 10_000.0  # divided by 2 pi, in tokens


def interleaved_sinusoids(positions: int, width: int) -> np.ndarray:
    """Alternating sine and cosine (Vaswani et al. 2017, section 3.5), float32 [positions, D].

    Entry 2i is sin(p / 10000^(2i/D)), and entry 2i+1 is its cosine. `width` is D, even.
    """
    frequencies = _LONGEST_WAVE ** (-np.arange(0, width, 2) / width)  # [D/2]
    angles = np.arange(positions)[:, None] * frequencies  # [positions, D/2]
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        .reshape(positions, width)
        .astype(np.float32)
    )


def concatenated_sinusoids(positions: int, width: int) -> np.ndarray:
    """All sines, then all cosines, float32 [positions, D]; `width` is D, even.

    The wave lengths go from 2 pi to 10000 x 2 pi, both included.

    Source: tensorflow/tensor2tensor `layers/common_attention.py`, `get_timing_signal_1d`, the
    layout of the paper's own code.
    """
    waves = width // 2
    frequencies = _LONGEST_WAVE ** (-np.arange(waves) / max(waves - 1, 1))  # [D/2]
    angles = np.arange(positions)[:, None] * frequencies  # [positions, D/2]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)


SINUSOIDS = {
    "interleaved": interleaved_sinusoids,
    "concatenated": concatenated_sinusoids,
}  # by name in `EncoderSettings.positions`


@keras.saving.register_keras_serializable(package="bertcnn")
class BertEmbeddings(keras.layers.Layer):
    """Token, position and segment embeddings (Devlin et al. 2019, figure 2), float [B, T, D].

    They are summed in float32 and normalised, then dropout is applied.

    Token and position tables stay in float32 under mixed precision: many tokens of a batch share a
    row, and the sum of their gradients would be wrong in bfloat16, and slow on a GPU. The few
    segment rows are shared by all tokens, so they are looked up by a product with one-hot vectors,
    whose gradient is a product as well (google-research/bert `modeling.py`,
    `embedding_postprocessor`).

    Args:
        positions: "learned", or the name of a table in `sinusoids`, which is not trained.
        mask_zero: give layers behind it a Keras mask that is False at tokens with id 0.

    Call arguments:
        token_ids: int [B, T].
        segment_ids: int [B, T]; by default all tokens are in the first segment.
        position_ids: int [B, T]; by default 0 to T - 1 in every row.

    Attributes:
        sinusoids: by name, functions of positions and width to tables float32 [positions, D].
    """

    sinusoids = SINUSOIDS

    def __init__(  # noqa: PLR0913 - each is a setting of the encoder
        self,
        vocabulary_size: int,
        width: int,
        *,
        max_positions: int = 512,
        positions: str = "learned",
        mask_zero: bool = False,
        segment_types: int = 2,
        epsilon: float = 1e-12,
        dropout: float = 0.0,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking, self.mask_zero = mask_zero, mask_zero
        self.vocabulary_size, self.width = vocabulary_size, width
        self.max_positions = max_positions
        self.position_kind = positions
        self.segment_types = segment_types
        self.epsilon, self.dropout_rate, self.seed = epsilon, dropout, seed
        self.normalize = keras.layers.LayerNormalization(
            epsilon=epsilon, name="normalize", dtype=self.dtype_policy
        )
        self.dropout = HashDropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, *_: Any) -> None:
        """Create the three tables."""
        self.tokens = self._table("tokens", self.vocabulary_size, bert_initializer(self.seed))
        if self.position_kind == "learned":
            self.positions = self._table(
                "positions", self.max_positions, bert_initializer(self.seed + 1)
            )
        else:
            sinusoids = SINUSOIDS[self.position_kind](self.max_positions, self.width)
            self.positions = self._table(
                "positions",
                self.max_positions,
                lambda *_, **__: ops.convert_to_tensor(sinusoids),
                trainable=False,
            )
        self.segments = self._table("segments", self.segment_types, bert_initializer(self.seed + 2))
        self.normalize.build((None, None, self.width))
        self.built = True

    def _table(self, name: str, rows: int, initializer: Any, *, trainable: bool = True) -> Any:
        return self.add_weight(
            name=name,
            shape=(rows, self.width),
            initializer=initializer,
            trainable=trainable,
            autocast=False,
        )

    def call(
        self,
        token_ids: Any,
        segment_ids: Any = None,
        position_ids: Any = None,
        training: bool = False,
    ) -> Any:
        """Look up and add; see the class."""
        hidden = ops.take(self.tokens, token_ids, axis=0)  # [B, T, D]
        segment_ids = ops.zeros_like(token_ids) if segment_ids is None else segment_ids
        segments = matmul_tokens(
            ops.one_hot(segment_ids, self.segment_types, dtype=self.compute_dtype),
            ops.cast(ops.convert_to_tensor(self.segments), self.compute_dtype),
        )
        hidden = hidden + ops.cast(segments, self.variable_dtype)
        if position_ids is None:
            hidden = hidden + self.positions[: ops.shape(token_ids)[1]]
        else:
            hidden = hidden + ops.take(self.positions, position_ids, axis=0)
        hidden = ops.cast(hidden, self.compute_dtype)
        return self.dropout(self.normalize(hidden), training=training)

    def compute_mask(self, token_ids: Any, *_: Any, **__: Any) -> Any:
        """Bool [B, T], False at tokens with id 0; None without `mask_zero`."""
        return ops.not_equal(token_ids, 0) if self.mask_zero else None

    def compute_output_shape(
        self, token_ids_shape: tuple[int | None, ...], *_: Any
    ) -> tuple[int | None, ...]:
        """[B, T, D]."""
        return (*token_ids_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "width": self.width,
            "max_positions": self.max_positions,
            "positions": self.position_kind,
            "mask_zero": self.mask_zero,
            "segment_types": self.segment_types,
            "epsilon": self.epsilon,
            "dropout": self.dropout_rate,
            "seed": self.seed,
        }
