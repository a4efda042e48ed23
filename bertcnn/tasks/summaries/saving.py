"""The saved folder of a summariser."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from bertcnn.settings import SummariserSettings, SummaryTrainingSettings, Whole
from bertcnn.shapes import Shapes, summariser_shapes
from bertcnn.tasks.saving import EncoderConfig, ModelFolder, SavedModel


class SummariserConfig(EncoderConfig):
    """`config.json` of a summariser."""

    model: SummariserSettings
    training: SummaryTrainingSettings
    pairs: Whole = Field(description="pairs it learned from")

    @property
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return summariser_shapes(self.encoder, self.model)


SavedSummariser = SavedModel[SummariserConfig]
FOLDER: Final = ModelFolder("summariser", SummariserConfig)
