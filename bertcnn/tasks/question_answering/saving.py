"""A question answerer as a folder: JSON, a vocabulary, safetensors and a compiled graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import safetensors.numpy
from pydantic import Field

from bertcnn.bundle.tensors import check_tensors, parse_tensors
from bertcnn.errors import one_line
from bertcnn.models.shapes import question_answering_shapes
from bertcnn.settings import (
    EncoderSettings,
    QuestionSettings,
    QuestionTrainingSettings,
    Settings,
)
from bertcnn.storage.files import write_new
from bertcnn.storage.folders import (
    check_replaceable,
    check_target,
    is_debris,
    new_folder,
    real_folder,
)
from bertcnn.storage.manifest import (
    MANIFEST,
    FolderFormat,
    Member,
    canonical_json,
    claims_to_be,
    parse_json,
    read_members,
    refuse,
    settings_of,
    write_manifest,
)
from bertcnn.tasks.question_answering.engine import CompiledSpans

_CONFIG, _VOCABULARY, _METRICS, _GRAPH, _CONSTANTS, _WEIGHTS = (
    "config.json",
    "vocab.txt",
    "metrics.json",
    "engine.xml",
    "engine.bin",
    "model.safetensors",
)
FORMAT: Final = FolderFormat(
    "bertcnn question answerer",
    1,
    (
        Member(_CONFIG, 1 << 20),
        Member(_VOCABULARY, 32 << 20),
        Member(_METRICS, 16 << 20),
        Member(_GRAPH, 64 << 20),
        Member(_CONSTANTS, 8 << 30),
        Member(_WEIGHTS, 8 << 30),
    ),
    bulk=_WEIGHTS,
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
        description='how far the best answer must be above "no answer", tuned on held-out questions'
    )
    temperature: float = Field(gt=0.0, description="of the confidence, fitted on the same")
    precision: Literal["int8", "float32"]
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


def check_answerer_target(folder: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a place where no question answerer can be saved, before it is trained.

    Raises:
        OutputError: something else is there, one is there and `overwrite` is off, or the place is
            not writable.
    """
    check_target(folder, lambda target: _check_replaceable(target, overwrite))


def write_answerer(
    saved: SavedAnswerer, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> str:
    """Save a question answerer, all of it or nothing, and return its id.

    Raises:
        OutputError: the place cannot be written, or is taken.
        BundleError: the weights are not fit to be saved, such as NaN.
    """
    check_answerer_target(folder, overwrite)
    check_tensors(_WEIGHTS, saved.tensors)
    members = {
        _CONFIG: canonical_json(saved.config.model_dump(mode="json")),
        _VOCABULARY: "".join(f"{piece}\n" for piece in saved.vocabulary).encode(),
        _METRICS: canonical_json(dict(saved.metrics)),
        _GRAPH: saved.engine.graph,
        _CONSTANTS: saved.engine.constants,
        _WEIGHTS: safetensors.numpy.save(dict(saved.tensors)),
    }
    identity, manifest = write_manifest(FORMAT, members)
    with new_folder(real_folder(folder), overwrite=overwrite, check=_check_replaceable) as new:
        for name, data in {**members, MANIFEST: manifest}.items():
            write_new(new / name, data)
    return identity


def read_answerer(folder: str | os.PathLike[str]) -> SavedAnswerer:
    """Load a saved question answerer, or say what is wrong with it.

    No code of the folder ever runs.

    Raises:
        BundleError: no such folder, of another schema version, or not what was saved.
    """
    identity, members = read_members(Path(folder), FORMAT)
    config = settings_of(
        _CONFIG, AnswererConfig, parse_json(_CONFIG, members[_CONFIG]), FORMAT.schema_version
    )
    try:
        vocabulary = tuple(members[_VOCABULARY].decode("utf-8").split("\n")[:-1])
    except UnicodeDecodeError as error:
        refuse(f"{_VOCABULARY} is not UTF-8 ({error})", "the vocabulary that was saved")
    if len(vocabulary) != config.encoder.vocabulary_size:
        refuse(
            f"{_VOCABULARY} with {len(vocabulary):,} pieces",
            f"the {config.encoder.vocabulary_size:,} of {_CONFIG}",
        )
    metrics = parse_json(_METRICS, members[_METRICS])
    if not isinstance(metrics, dict):
        refuse(f"{_METRICS} holds a {type(metrics).__name__}", "a JSON object")
    tensors = parse_tensors(_WEIGHTS, members[_WEIGHTS], question_answering_shapes(config.encoder))
    engine = CompiledSpans(
        config.precision, config.precision_reason, members[_GRAPH], members[_CONSTANTS]
    )
    return SavedAnswerer(config, vocabulary, tensors, metrics, engine, identity)


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_replaceable(
        target,
        overwrite,
        holds="a saved question answerer",
        expected="a question answerer saved by bertcnn",
        stranger=_stranger,
    )


def _stranger(place: Path) -> str | None:
    """What keeps a folder from being a saved question answerer, damaged or not."""
    names = {entry.name for entry in os.scandir(place) if not is_debris(entry.name)}
    foreign = sorted(names - set(FORMAT.largest) - {MANIFEST})
    if foreign:
        return f"holds {one_line(foreign[0])}, which is no part of a question answerer"
    return None if claims_to_be(FORMAT, place) else "is not a saved question answerer"
