"""The saved folder of a summariser."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from bertcnn.settings import (
    EncoderSettings,
    SummariserSettings,
    SummaryTrainingSettings,
    Whole,
)
from bertcnn.shapes import Shapes, summariser_shapes
from bertcnn.tasks.saving import ModelFolder, SavedModel, TaskConfig


class SummariserConfig(TaskConfig):
    """`config.json` of a summariser."""

    encoder: EncoderSettings
    encoder_name: str = Field(min_length=1, max_length=1 << 16)
    lowercase: bool
    model: SummariserSettings
    training: SummaryTrainingSettings
    pairs: Whole = Field(description="pairs it learned from")

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return self.encoder.vocabulary_size

    @property
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return summariser_shapes(self.encoder, self.model)


SavedSummariser = SavedModel[SummariserConfig]
FOLDER: Final = ModelFolder("summariser", SummariserConfig)
