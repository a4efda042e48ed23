"""What a token starts from: its piece, its place and its segment, added and normalised."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.attention import bert_initializer
from bertcnn.layers.dropout import HashDropout


@keras.saving.register_keras_serializable(package="bertcnn")
class BertEmbeddings(keras.layers.Layer):
    """Token, position and segment embeddings, summed, normalised, dropped out (Devlin et al. 2019, figure 2).

    Args:
        vocabulary_size: V.
        width: D.
        max_positions: longest input, in tokens.
        segment_types: number of segments.
        epsilon: added to the variance in the normalisation.
        dropout: share of values dropped in training.
        seed: of the initial weights and of dropout.

    Call arguments:
        token_ids: int [B, T].
        segment_ids: int [B, T].
        position_ids: int [B, T]; without them, tokens count from 0 in every row.

    Returns:
        float [B, T, D].
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        *,
        max_positions: int = 512,
        segment_types: int = 2,
        epsilon: float = 1e-12,
        dropout: float = 0.0,
        seed: int = 0,
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size, self.width = vocabulary_size, width
        self.max_positions, self.segment_types = max_positions, segment_types
        self.epsilon, self.dropout_rate, self.seed = epsilon, dropout, seed
        self.normalize = keras.layers.LayerNormalization(epsilon=epsilon, name="normalize", dtype=self.dtype_policy)
        self.dropout = HashDropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, *_: Any) -> None:  # noqa: ANN401
        """Create the three tables."""
        tables = (("tokens", self.vocabulary_size), ("positions", self.max_positions), ("segments", self.segment_types))
        self.tokens, self.positions, self.segments = (
            self.add_weight(name=name, shape=(rows, self.width), initializer=bert_initializer(self.seed + index))
            for index, (name, rows) in enumerate(tables)
        )
        self.normalize.build((None, None, self.width))
        self.built = True

    def call(self, token_ids: Any, segment_ids: Any, position_ids: Any = None, training: bool = False) -> Any:  # noqa: ANN401
        """Look up and add; see the class."""
        hidden = ops.take(self.tokens, token_ids, axis=0)  # [B, T, D]
        hidden = hidden + ops.take(self.segments, segment_ids, axis=0)
        if position_ids is None:
            hidden = hidden + self.positions[: ops.shape(token_ids)[1]]
        else:
            hidden = hidden + ops.take(self.positions, position_ids, axis=0)
        return self.dropout(self.normalize(hidden), training=training)

    def compute_output_shape(self, token_ids_shape: tuple[int | None, ...], *_: Any) -> tuple[int | None, ...]:  # noqa: ANN401
        """[B, T, D]."""
        return (*token_ids_shape, self.width)

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "width": self.width,
            "max_positions": self.max_positions,
            "segment_types": self.segment_types,
            "epsilon": self.epsilon,
            "dropout": self.dropout_rate,
            "seed": self.seed,
        }
