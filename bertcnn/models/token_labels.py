"""BERT for token classification."""

from __future__ import annotations

from typing import Any

import keras

from bertcnn.layers import bert_initializer
from bertcnn.models.bert import Bert

_TAG_SEED = 500_000  # distinct from the seeds of encoder and other heads


@keras.saving.register_keras_serializable(package="bertcnn")
class BertTokenLabels(keras.Model):
    """The encoder and a linear layer with a score per token and tag.

    Args:
        encoder: a `Bert`, not packed.
        tags: number of tags.

    Call arguments, a dict: the encoder's own.

    Returns:
        Scores float32 [B, T, tags].

    Source: Devlin et al. 2019, section 5.3.
    """

    def __init__(self, encoder: Bert, tags: int, *, seed: int = 0, **kwargs: Any) -> None:
        initializer = bert_initializer(_TAG_SEED + seed)
        layer = keras.layers.Dense(
            tags,
            kernel_initializer=initializer,
            name="tags",
            dtype="float32",
        )
        super().__init__(inputs=encoder.input, outputs=layer(encoder.sequence_output), **kwargs)
        self.encoder, self.tags, self.seed = encoder, tags, seed

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "encoder": self.encoder.get_config(),
            "tags": self.tags,
            "seed": self.seed,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> BertTokenLabels:
        """The same architecture with new initial weights."""
        return cls(Bert.from_config(config.pop("encoder")), **config)
