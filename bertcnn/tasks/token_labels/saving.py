"""The saved folder of a token labeller."""

from __future__ import annotations

from typing import Annotated, Final, Self

import pydantic
from pydantic import Field

from bertcnn.bundle import INT8_TENSORS, Temperature
from bertcnn.settings import TokenLabelSettings, TokenLabelTrainingSettings
from bertcnn.shapes import Shapes, token_labels_shapes
from bertcnn.storage import Member
from bertcnn.tasks.saving import CompiledConfig, ModelFolder, SavedModel
from bertcnn.tasks.token_labels.tags import count_tags


class LabellerConfig(CompiledConfig):
    """`config.json` of a token labeller."""

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
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""
        return token_labels_shapes(self.encoder, count_tags(self.labels))


SavedLabeller = SavedModel[LabellerConfig]
FOLDER: Final = ModelFolder("token labeller", LabellerConfig, Member(INT8_TENSORS, 8 << 30))
