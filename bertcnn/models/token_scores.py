"""BERT with a linear layer on each token: question answering and token labels."""

from __future__ import annotations

from typing import Any, Self

import keras

from bertcnn.layers import bert_initializer
from bertcnn.models.bert import Bert

# distinct from the seeds of encoder and other heads
_SPAN_SEED, _TAG_SEED = 300_000, 500_000


class _TokenScores(keras.Model):
    """The encoder, not packed, and a linear layer `layer` with `scores` outputs per token."""

    def __init__(
        self, encoder: Bert, layer: str, scores: int, layer_seed: int, seed: int, **kwargs: Any
    ) -> None:
        initializer = bert_initializer(layer_seed + seed)
        linear = keras.layers.Dense(
            scores, kernel_initializer=initializer, name=layer, dtype="float32"
        )
        super().__init__(inputs=encoder.input, outputs=linear(encoder.sequence_output), **kwargs)
        self.encoder, self.seed = encoder, seed

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"encoder": self.encoder.get_config(), "seed": self.seed, "name": self.name}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """The same architecture with new initial weights."""
        return cls(Bert.from_config(config.pop("encoder")), **config)


@keras.saving.register_keras_serializable(package="bertcnn")
class BertQuestionAnswering(_TokenScores):
    """The encoder and a linear layer with two scores per token: start and end of the answer.

    Args:
        encoder: a `Bert`, not packed.

    Call arguments, a dict: the encoder's own; segment 0 is the question, segment 1 the context.

    Returns:
        Scores float32 [B, T, 2], for the answer's first and last token.

    Source: Devlin et al. 2019, section 4.2.
    """

    def __init__(self, encoder: Bert, *, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(encoder, "spans", 2, _SPAN_SEED, seed, **kwargs)


@keras.saving.register_keras_serializable(package="bertcnn")
class BertTokenLabels(_TokenScores):
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
        super().__init__(encoder, "tags", tags, _TAG_SEED, seed, **kwargs)
        self.tags = tags

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "tags": self.tags}
