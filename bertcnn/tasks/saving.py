"""A task's model as a folder in which any change is noticed: JSON, vocabulary, safetensors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy

from bertcnn.bundle.tensors import check_tensors, parse_tensors
from bertcnn.errors import one_line
from bertcnn.models.shapes import Shapes
from bertcnn.settings import Settings
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
    SettingsType,
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
_MEMBERS: Final = (
    Member(_CONFIG, 1 << 20),
    Member(_VOCABULARY, 32 << 20),
    Member(_METRICS, 16 << 20),
    Member(_WEIGHTS, 8 << 30),
)


@dataclass(frozen=True, eq=False)
class ModelFiles:
    """What a saved model of a task is made of.

    Attributes:
        vocabulary: pieces in the order of their ids.
        tensors: weights by name, float32.
        metrics: figures of its training, a JSON object.
        more: further members by name.
        identity: names this exact model; empty before it is saved.
    """

    vocabulary: tuple[str, ...]
    tensors: Mapping[str, np.ndarray]
    metrics: Mapping[str, Any]
    more: Mapping[str, bytes]
    identity: str = ""


class ModelFolder:
    """A kind of folder: that of a task's models.

    Args:
        kind: what such a model is called, as "translator".
        more: members beside configuration, vocabulary, metrics and weights.

    Attributes:
        form: the folder's format.
    """

    def __init__(self, kind: str, *more: Member) -> None:
        self._kind = kind
        self.form = FolderFormat(f"bertcnn {kind}", 1, (*_MEMBERS, *more), bulk=_WEIGHTS)

    def check_target(self, folder: str | os.PathLike[str], overwrite: bool) -> None:
        """Refuse a place where no model can be saved, before it is trained.

        Raises:
            OutputError: something else is there, a model is there and `overwrite` is off, or the
                place is not writable.
        """
        check_target(folder, lambda target: self._check_replaceable(target, overwrite))

    def write(
        self,
        config: Settings,
        files: ModelFiles,
        folder: str | os.PathLike[str],
        *,
        overwrite: bool = False,
    ) -> str:
        """Save a model, all of it or nothing, and return its id.

        Raises:
            OutputError: the place cannot be written, or is taken.
            BundleError: the weights are not fit to be saved, such as NaN.
        """
        self.check_target(folder, overwrite)
        members = {
            _CONFIG: canonical_json(config.model_dump(mode="json")),
            _VOCABULARY: "".join(f"{piece}\n" for piece in files.vocabulary).encode(),
            _METRICS: canonical_json(dict(files.metrics)),
            _WEIGHTS: safetensors.numpy.save(check_tensors(_WEIGHTS, files.tensors)),
            **files.more,
        }
        identity, manifest = write_manifest(self.form, members)
        with new_folder(
            real_folder(folder), overwrite=overwrite, check=self._check_replaceable
        ) as new:
            for name, data in {**members, MANIFEST: manifest}.items():
                write_new(new / name, data)
        return identity

    def read(
        self, folder: str | os.PathLike[str], schema: type[SettingsType]
    ) -> tuple[SettingsType, dict[str, bytes], str]:
        """The configuration, all members and the id of a saved model; no code of it ever runs.

        Raises:
            BundleError: no such folder, of another schema version, or not what was saved.
        """
        identity, members = read_members(Path(folder), self.form)
        value = parse_json(_CONFIG, members[_CONFIG])
        return (
            settings_of(_CONFIG, schema, value, self.form.schema_version),
            members,
            identity,
        )

    def files(
        self, members: Mapping[str, bytes], vocabulary_size: int, shapes: Shapes, identity: str
    ) -> ModelFiles:
        """The parts of a saved model.

        Args:
            members: of `read`.
            vocabulary_size: pieces, by the configuration.
            shapes: of the weights, likewise.
            identity: of `read`.

        Raises:
            BundleError: a part is not what was saved, or does not fit the configuration.
        """
        try:
            vocabulary = tuple(members[_VOCABULARY].decode("utf-8").split("\n")[:-1])
        except UnicodeDecodeError as error:
            refuse(f"{_VOCABULARY} is not UTF-8 ({error})", "the vocabulary that was saved")
        if len(vocabulary) != vocabulary_size:
            refuse(
                f"{_VOCABULARY} with {len(vocabulary):,} pieces",
                f"the {vocabulary_size:,} of {_CONFIG}",
            )
        metrics = parse_json(_METRICS, members[_METRICS])
        if not isinstance(metrics, dict):
            refuse(f"{_METRICS} holds a {type(metrics).__name__}", "a JSON object")
        tensors = parse_tensors(_WEIGHTS, members[_WEIGHTS], shapes)
        known = {member.name for member in _MEMBERS}
        more = {name: data for name, data in members.items() if name not in known}
        return ModelFiles(vocabulary, tensors, metrics, more, identity)

    def _check_replaceable(self, target: Path, overwrite: bool) -> None:
        check_replaceable(
            target,
            overwrite,
            holds=f"a saved {self._kind}",
            expected=f"a {self._kind} saved by bertcnn",
            stranger=self._stranger,
        )

    def _stranger(self, place: Path) -> str | None:
        """What keeps a folder from being a saved model of this kind, damaged or not."""
        names = {entry.name for entry in os.scandir(place) if not is_debris(entry.name)}
        foreign = sorted(names - set(self.form.largest) - {MANIFEST})
        if foreign:
            return f"holds {one_line(foreign[0])}, which is no part of a {self._kind}"
        return None if claims_to_be(self.form, place) else f"is not a saved {self._kind}"
