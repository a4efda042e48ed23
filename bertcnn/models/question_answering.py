"""BERT for extractive question answering."""

from __future__ import annotations

from typing import Any

import keras

from bertcnn.layers import bert_initializer
from bertcnn.models.bert import Bert

_SPAN_SEED = 300_000  # distinct from the seeds of encoder and other heads


@keras.saving.register_keras_serializable(package="bertcnn")
class BertQuestionAnswering(keras.Model):
    """The encoder and a linear layer with two scores per token: start and end of the answer.

    Args:
        encoder: a `Bert`, not packed.

    Call arguments, a dict: the encoder's own; segment 0 is the question, segment 1 the context.

    Returns:
        Scores float32 [B, T, 2], for the answer's first and last token.

    Source: Devlin et al. 2019, section 4.2.
    """

    def __init__(self, encoder: Bert, *, seed: int = 0, **kwargs: Any) -> None:
        spans = keras.layers.Dense(
            2, kernel_initializer=bert_initializer(_SPAN_SEED + seed), name="spans", dtype="float32"
        )
        super().__init__(inputs=encoder.input, outputs=spans(encoder.sequence_output), **kwargs)
        self.encoder, self.seed = encoder, seed

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"encoder": self.encoder.get_config(), "seed": self.seed, "name": self.name}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> BertQuestionAnswering:
        """The same architecture with new initial weights."""
        return cls(Bert.from_config(config.pop("encoder")), **config)
