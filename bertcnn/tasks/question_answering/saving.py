"""The saved folder of a question answerer."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from bertcnn.bundle import INT8_TENSORS, Temperature
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.shapes import Shapes, question_answering_shapes
from bertcnn.storage import Member
from bertcnn.tasks.saving import CompiledConfig, ModelFolder, SavedModel


class AnswererConfig(CompiledConfig):
    """`config.json` of a question answerer."""

    questions: QuestionSettings
    training: QuestionTrainingSettings
    threshold: float = Field(
        ge=-1e6,
        le=1e6,
        description='how far the best answer must be above "no answer", tuned on held-out'
        " questions",
    )
    temperature: Temperature = Field(description="of the confidence, fitted on the same")

    @property
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return question_answering_shapes(self.encoder)


SavedAnswerer = SavedModel[AnswererConfig]
FOLDER: Final = ModelFolder("question answerer", AnswererConfig, Member(INT8_TENSORS, 8 << 30))
