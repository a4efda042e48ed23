"""The saved folder of a token labeller."""

from __future__ import annotations

from typing import Annotated, Final, Self

import pydantic
from pydantic import Field

from bertcnn.bundle import Temperature
from bertcnn.settings import EncoderSettings, TokenLabelSettings, TokenLabelTrainingSettings
from bertcnn.shapes import Shapes, token_labels_shapes
from bertcnn.tasks.saving import ModelFolder, SavedModel, TaskConfig
from bertcnn.tasks.token_labels.tags import count_tags


class LabellerConfig(TaskConfig):
    """`config.json` of a token labeller."""

    encoder: EncoderSettings
    encoder_name: str = Field(min_length=1, max_length=1 << 16)
    lowercase: bool
    labels: tuple[Annotated[str, Field(min_length=1, max_length=1 << 10)], ...] = Field(
        min_length=1, max_length=1 << 10, description="in the order of their tags"
    )
    windows: TokenLabelSettings
    training: TokenLabelTrainingSettings
    temperature: Temperature = Field(description="of the tags, fitted on held-out words")

    @pydantic.model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels that differ")
        return self

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return self.encoder.vocabulary_size

    @property
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return token_labels_shapes(self.encoder, count_tags(self.labels))


SavedLabeller = SavedModel[LabellerConfig]
FOLDER: Final = ModelFolder("token labeller", LabellerConfig)
