"""A translator as a folder: JSON, a vocabulary and safetensors, in which any change is noticed."""

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
from bertcnn.models.shapes import translator_shapes
from bertcnn.settings import Settings, TranslationTrainingSettings, TranslatorSettings
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

_CONFIG, _VOCABULARY, _METRICS, _WEIGHTS = (
    "config.json",
    "vocab.txt",
    "metrics.json",
    "model.safetensors",
)
FORMAT: Final = FolderFormat(
    "bertcnn translator",
    1,
    (
        Member(_CONFIG, 1 << 20),
        Member(_VOCABULARY, 32 << 20),
        Member(_METRICS, 16 << 20),
        Member(_WEIGHTS, 8 << 30),
    ),
    bulk=_WEIGHTS,
)


class TranslatorConfig(Settings):
    """`config.json`: what is needed to build the model again, and how it was trained."""

    schema_version: Literal[1] = Field(1, description="of this file")
    model: TranslatorSettings
    training: TranslationTrainingSettings
    seed: int
    pairs: int = Field(ge=0, description="pairs it learned from")
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


def check_translator_target(folder: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a place where no translator can be saved, before it is trained.

    Raises:
        OutputError: something else is there, a translator is there and `overwrite` is off, or the
            place is not writable.
    """
    check_target(folder, lambda target: _check_replaceable(target, overwrite))


def write_translator(
    saved: SavedTranslator, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> str:
    """Save a translator, all of it or nothing, and return its id.

    Raises:
        OutputError: the place cannot be written, or is taken.
        BundleError: the weights are not fit to be saved, such as NaN.
    """
    check_translator_target(folder, overwrite)
    check_tensors(_WEIGHTS, saved.tensors)
    members = {
        _CONFIG: canonical_json(saved.config.model_dump(mode="json")),
        _VOCABULARY: "".join(f"{piece}\n" for piece in saved.vocabulary).encode(),
        _METRICS: canonical_json(dict(saved.metrics)),
        _WEIGHTS: safetensors.numpy.save(dict(saved.tensors)),
    }
    identity, manifest = write_manifest(FORMAT, members)
    with new_folder(real_folder(folder), overwrite=overwrite, check=_check_replaceable) as new:
        for name, data in {**members, MANIFEST: manifest}.items():
            write_new(new / name, data)
    return identity


def read_translator(folder: str | os.PathLike[str]) -> SavedTranslator:
    """Load a saved translator, or say what is wrong with it. No code of the folder ever runs.

    Raises:
        BundleError: no translator's folder, of another schema version, or not what was saved.
    """
    _, members = read_members(Path(folder), FORMAT)
    config = settings_of(
        _CONFIG, TranslatorConfig, parse_json(_CONFIG, members[_CONFIG]), FORMAT.schema_version
    )
    try:
        vocabulary = tuple(members[_VOCABULARY].decode("utf-8").split("\n")[:-1])
    except UnicodeDecodeError as error:
        refuse(f"{_VOCABULARY} is not UTF-8 ({error})", "the vocabulary that was saved")
    if len(vocabulary) != config.model.vocabulary_size:
        refuse(
            f"{_VOCABULARY} with {len(vocabulary):,} pieces",
            f"the {config.model.vocabulary_size:,} of {_CONFIG}",
        )
    metrics = parse_json(_METRICS, members[_METRICS])
    if not isinstance(metrics, dict):
        refuse(f"{_METRICS} holds a {type(metrics).__name__}", "a JSON object")
    tensors = parse_tensors(_WEIGHTS, members[_WEIGHTS], translator_shapes(config.model))
    return SavedTranslator(config, vocabulary, tensors, metrics)


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_replaceable(
        target,
        overwrite,
        holds="a saved translator",
        expected="a translator saved by bertcnn",
        stranger=_stranger,
    )


def _stranger(place: Path) -> str | None:
    """What keeps a folder from being a saved translator, damaged or not."""
    names = {entry.name for entry in os.scandir(place) if not is_debris(entry.name)}
    foreign = sorted(names - set(FORMAT.largest) - {MANIFEST})
    if foreign:
        return f"holds {one_line(foreign[0])}, which is no part of a translator"
    return None if claims_to_be(FORMAT, place) else "is not a saved translator"
