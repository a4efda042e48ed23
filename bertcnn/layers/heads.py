"""The pretraining head for masked language modelling."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers.attention import bert_initializer
from bertcnn.layers.embeddings import BertEmbeddings
from bertcnn.layers.encoder import ACTIVATIONS


@keras.saving.register_keras_serializable(package="bertcnn")
class GatherTokens(keras.layers.Layer):
    """Gathers vectors of `hidden` [B, T, D] at `places` int [B, P] of each row, float [B, P, D].

    Source: google-research/bert `run_pretraining.py`, `gather_indexes`.
    """

    def call(self, hidden: Any, places: Any) -> Any:
        """Gather; see the class."""
        batch, length, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        first = ops.cast(ops.arange(batch) * length, "int32")[
            :, None
        ]  # [B, 1], offset of each row in the flat tokens
        tokens = ops.reshape(hidden, (batch * length, width))
        # gradients are summed in float32, since filler positions repeat
        gathered = ops.take(ops.cast(tokens, "float32"), first + places, axis=0)  # [B, P, D]
        return ops.cast(gathered, hidden.dtype)

    def compute_output_shape(
        self, hidden_shape: tuple[int | None, ...], places_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """[B, P, D]."""
        return (*places_shape, hidden_shape[-1])


@keras.saving.register_keras_serializable(package="bertcnn")
class MaskedLanguageHead(keras.layers.Layer):
    """Predicts the original token at each masked position.

    A dense layer, activation, normalisation, and the token embeddings as output layer.

    Args:
        embeddings: the encoder's embeddings; their token table is shared, the output bias is not.
        activation: as in the encoder's blocks.

    Call arguments:
        hidden: float [B, P, D], the vectors at the masked positions.

    Returns:
        Logits, float32 [B, P, V].

    Source: Devlin et al. 2019, section 3.1, task 1; google-research/bert `run_pretraining.py`,
    `get_masked_lm_output`.
    """

    def __init__(
        self,
        embeddings: BertEmbeddings,
        *,
        activation: str,
        epsilon: float,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self.activation = activation
        self.epsilon = epsilon
        self.seed = seed
        width, policy = embeddings.width, self.dtype_policy
        self.transform = keras.layers.Dense(
            width, kernel_initializer=bert_initializer(seed), name="transform", dtype=policy
        )
        self.normalize = keras.layers.LayerNormalization(
            epsilon=epsilon, name="normalize", dtype=policy
        )

    def build(self, hidden_shape: tuple[int | None, ...]) -> None:
        """Create the weights for inputs of this width."""
        self.transform.build(hidden_shape)
        self.normalize.build(hidden_shape)
        self.bias = self.add_weight(
            name="bias", shape=(self.embeddings.vocabulary_size,), initializer="zeros"
        )
        self.built = True

    def call(self, hidden: Any) -> Any:
        """Predict; see the class."""
        hidden = self.normalize(ACTIVATIONS[self.activation](self.transform(hidden)))  # [B, P, D]
        batch, positions, width = ops.shape(hidden)[0], ops.shape(hidden)[1], hidden.shape[-1]
        # [V, D]
        table = ops.cast(ops.convert_to_tensor(self.embeddings.tokens), self.compute_dtype)
        # [B*P, V]
        logits = ops.matmul(ops.reshape(hidden, (batch * positions, width)), ops.transpose(table))
        logits = ops.cast(logits, "float32") + ops.cast(ops.convert_to_tensor(self.bias), "float32")
        return ops.reshape(logits, (batch, positions, table.shape[0]))  # [B, P, V]

    def compute_output_shape(self, hidden_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """[B, P, V]."""
        return (*hidden_shape[:-1], self.embeddings.vocabulary_size)
