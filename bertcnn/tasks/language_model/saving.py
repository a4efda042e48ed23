"""The saved folder of a language model."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from bertcnn.settings import LanguageModelSettings, LanguageTrainingSettings, Whole
from bertcnn.shapes import Shapes, language_model_shapes
from bertcnn.tasks.saving import ModelFolder, SavedModel, TaskConfig


class LanguageModelConfig(TaskConfig):
    """`config.json` of a language model."""

    model: LanguageModelSettings
    training: LanguageTrainingSettings
    texts: Whole = Field(description="texts it learned from")

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return self.model.vocabulary_size

    @property
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return language_model_shapes(self.model)


SavedLanguageModel = SavedModel[LanguageModelConfig]
FOLDER: Final = ModelFolder("language model", LanguageModelConfig)
