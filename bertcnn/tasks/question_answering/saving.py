"""A question answerer as a folder, with its compiled graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from bertcnn.bundle.schemas import Temperature
from bertcnn.models.shapes import question_answering_shapes
from bertcnn.settings import (
    EncoderSettings,
    QuestionSettings,
    QuestionTrainingSettings,
    Settings,
)
from bertcnn.storage.manifest import Member
from bertcnn.tasks.question_answering.engine import CompiledSpans
from bertcnn.tasks.saving import ModelFiles, ModelFolder

_GRAPH, _CONSTANTS = "engine.xml", "engine.bin"
FOLDER: Final = ModelFolder(
    "question answerer", Member(_GRAPH, 64 << 20), Member(_CONSTANTS, 8 << 30)
)


class AnswererConfig(Settings):
    """`config.json`: what is needed to build the model again, and how it was trained."""

    schema_version: Literal[1] = Field(1, description="of this file")
    encoder: EncoderSettings
    encoder_name: str = Field(min_length=1, max_length=1 << 16)
    lowercase: bool
    questions: QuestionSettings
    training: QuestionTrainingSettings
    threshold: float = Field(
        ge=-1e6,
        le=1e6,
        description=(
            'how far the best answer must be above "no answer", tuned on held-out questions'
        ),
    )
    temperature: Temperature = Field(description="of the confidence, fitted on the same")
    precision: Literal["int8", "bfloat16", "float32"]
    precision_reason: str = Field(max_length=1 << 12)
    seed: int
    versions: dict[str, str] = Field(max_length=64, description="of the software")


@dataclass(frozen=True, eq=False)
class SavedAnswerer:
    """A question answerer in memory.

    Attributes:
        config: how to build it.
        vocabulary: pieces in the order of their ids.
        tensors: weights by name, float32.
        metrics: figures of its training, a JSON object.
        engine: the same model compiled.
        identity: names this exact model; set by `read_answerer`.
    """

    config: AnswererConfig
    vocabulary: tuple[str, ...]
    tensors: Mapping[str, np.ndarray]
    metrics: Mapping[str, Any]
    engine: CompiledSpans
    identity: str = ""


def write_answerer(
    saved: SavedAnswerer, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> str:
    """Save a question answerer, all of it or nothing, and return its id.

    See `ModelFolder.write`.
    """
    graph = {_GRAPH: saved.engine.graph, _CONSTANTS: saved.engine.constants}
    files = ModelFiles(saved.vocabulary, saved.tensors, saved.metrics, graph)
    return FOLDER.write(saved.config, files, folder, overwrite=overwrite)


def read_answerer(folder: str | os.PathLike[str]) -> SavedAnswerer:
    """Load a saved question answerer, or say what is wrong with it; see `ModelFolder.read`."""
    config, members, identity = FOLDER.read(folder, AnswererConfig)
    shapes = question_answering_shapes(config.encoder)
    files = FOLDER.files(members, config.encoder.vocabulary_size, shapes, identity)
    engine = CompiledSpans(
        config.precision, config.precision_reason, files.more[_GRAPH], files.more[_CONSTANTS]
    )
    return SavedAnswerer(
        config, files.vocabulary, files.tensors, files.metrics, engine, files.identity
    )
