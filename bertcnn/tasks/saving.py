"""Saved folders of task models: JSON, vocabulary and safetensors, with a manifest."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np
import safetensors.numpy
from pydantic import Field

from bertcnn.bundle import Precision, check_tensors, parse_tensors
from bertcnn.settings import EncoderSettings, Settings
from bertcnn.shapes import Shapes
from bertcnn.storage import (
    MANIFEST,
    FolderFormat,
    Member,
    canonical_json,
    check_saved_target,
    check_target,
    new_folder,
    object_of,
    parse_json,
    read_members,
    real_folder,
    refuse,
    settings_of,
    write_manifest,
    write_new,
)

_CONFIG = "config.json"
_VOCABULARY = "vocab.txt"
_METRICS = "metrics.json"
_WEIGHTS = "model.safetensors"
_MEMBERS: Final = (
    Member(_CONFIG, 1 << 20),
    Member(_VOCABULARY, 32 << 20),
    Member(_METRICS, 16 << 20),
    Member(_WEIGHTS, 8 << 30),
)


class TaskConfig(Settings):
    """`config.json`: everything needed to rebuild the model, and how it was trained."""

    schema_version: Literal[1] = Field(1, description="of this file")
    seed: int
    versions: dict[str, str] = Field(max_length=64, description="of the software")

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """Number of tokens."""

    @property
    @abstractmethod
    def shapes(self) -> Shapes:
        """The shapes of the weights, by name."""


class EncoderConfig(TaskConfig):
    """`config.json` of a model with a published encoder."""

    encoder: EncoderSettings
    encoder_name: str = Field(min_length=1, max_length=1 << 16)
    lowercase: bool

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens."""
        return self.encoder.vocabulary_size


class CompiledConfig(EncoderConfig):
    """`config.json` of an encoder that scores tokens; see `CompiledSpans`."""

    precision: Precision
    precision_reason: str = Field(max_length=1 << 12)


Config = TypeVar("Config", bound=TaskConfig)


@dataclass(frozen=True, eq=False)
class SavedModel(Generic[Config]):
    """A task model in memory; `more` are additional members. Unsaved models have no identity."""

    config: Config
    vocabulary: tuple[str, ...]
    tensors: Mapping[str, np.ndarray]
    metrics: Mapping[str, Any]
    more: Mapping[str, bytes] = field(default_factory=dict)
    identity: str = ""


class ModelFolder(Generic[Config]):
    """Reads and writes the saved folders of one kind of model, such as "translator".

    `more` are members in addition to configuration, vocabulary, metrics and weights.
    """

    def __init__(self, kind: str, schema: type[Config], *more: Member) -> None:
        self.kind, self._schema = kind, schema
        self.form = FolderFormat(f"bertcnn {kind}", 1, (*_MEMBERS, *more), bulk=_WEIGHTS)
        self._check_place = partial(check_saved_target, self.form, kind)

    def check_target(self, folder: str | os.PathLike[str], overwrite: bool) -> None:
        """Refuse an unusable target folder before training.

        Raises:
            OutputError: another kind of folder, a model without `overwrite`, or not writable.
        """
        check_target(folder, lambda target: self._check_place(target, overwrite))

    def write(
        self, saved: SavedModel[Config], folder: str | os.PathLike[str], *, overwrite: bool = False
    ) -> str:
        """Save a model atomically, and return its id.

        Raises:
            OutputError: the folder exists or cannot be written.
            BundleError: the weights cannot be saved, such as NaN.
        """
        self.check_target(folder, overwrite)
        members = {
            _CONFIG: canonical_json(saved.config.model_dump(mode="json")),
            _VOCABULARY: "".join(f"{piece}\n" for piece in saved.vocabulary).encode(),
            _METRICS: canonical_json(dict(saved.metrics)),
            _WEIGHTS: safetensors.numpy.save(check_tensors(_WEIGHTS, saved.tensors)),
            **saved.more,
        }
        identity, manifest = write_manifest(self.form, members)
        target = real_folder(folder)
        with new_folder(target, overwrite=overwrite, check=self._check_place) as new:
            for name, data in {**members, MANIFEST: manifest}.items():
                write_new(new / name, data)
        return identity

    def read(self, folder: str | os.PathLike[str]) -> SavedModel[Config]:
        """Load and validate a saved model, running none of its code; raises BundleError."""
        identity, members = read_members(Path(folder), self.form)
        version = self.form.schema_version
        value = parse_json(_CONFIG, members.pop(_CONFIG))
        config = settings_of(_CONFIG, self._schema, value, version)
        try:
            vocabulary = tuple(members.pop(_VOCABULARY).decode("utf-8").split("\n")[:-1])
        except UnicodeDecodeError as error:
            refuse(f"{_VOCABULARY} is not UTF-8 ({error})", "the vocabulary that was saved")
        if len(vocabulary) != config.vocabulary_size:
            refuse(
                f"{_VOCABULARY} with {len(vocabulary):,} pieces",
                f"the {config.vocabulary_size:,} of {_CONFIG}",
            )
        metrics = object_of(_METRICS, parse_json(_METRICS, members.pop(_METRICS)), version)
        tensors = parse_tensors(_WEIGHTS, members.pop(_WEIGHTS), config.shapes)
        return SavedModel(config, vocabulary, tensors, metrics, members, identity)
