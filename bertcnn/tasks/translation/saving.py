"""The saved folder of a translator."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from bertcnn.settings import TranslationTrainingSettings, TranslatorSettings, Whole
from bertcnn.shapes import Shapes, translator_shapes
from bertcnn.tasks.saving import ModelFolder, SavedModel, TaskConfig


class TranslatorConfig(TaskConfig):
    """`config.json` of a translator."""

    model: TranslatorSettings
    training: TranslationTrainingSettings
    pairs: Whole = Field(description="pairs it learned from")

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return self.model.vocabulary_size

    @property
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return translator_shapes(self.model)


SavedTranslator = SavedModel[TranslatorConfig]
FOLDER: Final = ModelFolder("translator", TranslatorConfig)
