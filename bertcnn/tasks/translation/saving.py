"""A translator as a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from bertcnn.models.shapes import translator_shapes
from bertcnn.settings import Settings, TranslationTrainingSettings, TranslatorSettings, Whole
from bertcnn.tasks.saving import ModelFiles, ModelFolder

FOLDER: Final = ModelFolder("translator")


class TranslatorConfig(Settings):
    """`config.json`: what is needed to build the model again, and how it was trained."""

    schema_version: Literal[1] = Field(1, description="of this file")
    model: TranslatorSettings
    training: TranslationTrainingSettings
    seed: int
    pairs: Whole = Field(description="pairs it learned from")
    versions: dict[str, str] = Field(max_length=64, description="of the software")


@dataclass(frozen=True, eq=False)
class SavedTranslator:
    """A translator in memory.

    Attributes:
        config: how to build it.
        vocabulary: pieces in the order of their ids.
        tensors: weights by name, float32.
        metrics: figures of its training, a JSON object.
    """

    config: TranslatorConfig
    vocabulary: tuple[str, ...]
    tensors: Mapping[str, np.ndarray]
    metrics: Mapping[str, Any]


def write_translator(
    saved: SavedTranslator, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> str:
    """Save a translator, all of it or nothing, and return its id; see `ModelFolder.write`."""
    files = ModelFiles(saved.vocabulary, saved.tensors, saved.metrics, {})
    return FOLDER.write(saved.config, files, folder, overwrite=overwrite)


def read_translator(folder: str | os.PathLike[str]) -> SavedTranslator:
    """Load a saved translator, or say what is wrong with it; see `ModelFolder.read`."""
    config, members, identity = FOLDER.read(folder, TranslatorConfig)
    shapes = translator_shapes(config.model)
    files = FOLDER.files(members, config.model.vocabulary_size, shapes, identity)
    return SavedTranslator(config, files.vocabulary, files.tensors, files.metrics)
