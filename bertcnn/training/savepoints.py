"""Savepoints: a training that is killed goes on, and ends as if nothing had happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import keras
import numpy as np
import safetensors.numpy

from bertcnn.errors import BundleError, SettingsError
from bertcnn.progress import Progress
from bertcnn.storage.files import companion
from bertcnn.training.checkpoint import (
    Checkpoint,
    check_same_settings,
    newest_checkpoint,
    restore_state,
    save_checkpoint,
    training_state,
)
from bertcnn.training.devices import agreed, is_alone, is_first, of_first

_SECONDS_BETWEEN = 60.0
_BESIDE = "beside/"  # before the names of tensors that are no state of model or optimizer
Tensors = Mapping[str, np.ndarray]


def savepoint_folder(out: Path) -> Path:
    """Where the training of a model that will be saved in `out` is kept until then.

    Hidden, beside it.
    """
    return companion(out.with_name(f".{out.name}"), ".training")


def digest(arrays: Sequence[np.ndarray] | Tensors) -> str:
    """A hash of arrays in their order, with their names if any; it identifies a training."""
    found = blake2b(digest_size=16)
    named = arrays.items() if isinstance(arrays, Mapping) else (("", array) for array in arrays)
    for name, array in named:
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def newest_of_first(folder: Path, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint in the first process's folder, in every process of a training."""
    found = newest_checkpoint(folder, note) if is_first() else None
    if is_alone():
        return found
    if not agreed(found is not None):
        return None
    step, settings, progress = agreed(found and [found.step, found.settings, found.progress])
    tensors = of_first(safetensors.numpy.save(dict(found.tensors)) if found else b"")
    return Checkpoint(step, settings, progress, safetensors.numpy.load(tensors))


class Savepoints:
    """Where one training is saved, from time to time, by the first of its processes.

    Args:
        folder: for the savepoints; the newest two are kept.
        settings: all that the outcome depends on, as JSON. A training with others is not gone on
            with.
        progress: reports which savepoint is resumed from, or why none is.
        seconds: between two savepoints, at least; by default a minute.
        more: what else each of them holds, as JSON.
        found: the checkpoint to go on from, for which it is an error if that cannot be; by default
            the newest one, and without one the training starts over.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        progress: Progress,
        seconds: float | None = None,
        *,
        more: Mapping[str, Any] | None = None,
        found: Checkpoint | None = None,
    ) -> None:
        self._folder, self._settings, self._progress = folder, dict(settings), progress
        self._more, self._found = more or {}, found
        self._seconds = _SECONDS_BETWEEN if seconds is None else seconds
        self._saved = time.monotonic()

    def restore(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Give model and optimizer the state of the newest savepoint.

        Returns:
            The JSON and the tensors that were saved with it; None if there is none that this
            training can go on from.
        """
        return self._newest(lambda state: restore_state(state, model, optimizer))

    def part(self, name: str) -> Savepoints:
        """Those of a part of the training, in a folder of their own."""
        return Savepoints(self._folder / name, self._settings, self._progress, self._seconds)

    def kept(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What `keep` kept; None if there is nothing that this training can use."""
        return self._newest(lambda _: None)

    def keep(self, details: dict[str, Any], tensors: Tensors) -> None:
        """Save the outcome of a part of the training, as JSON and as tensors.

        Raises:
            OutputError: it cannot be written.
        """
        self._save(0, details, {_BESIDE + name: tensor for name, tensor in tensors.items()})

    @property
    def is_due(self) -> bool:
        """Whether it is time for another one."""
        return time.monotonic() - self._saved >= self._seconds

    def save(
        self,
        step: int,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        details: Mapping[str, Any],
        tensors: Tensors,
    ) -> None:
        """Save a training.

        Args:
            step: steps done.
            model: in training.
            optimizer: the same.
            details: what else is needed, as JSON.
            tensors: the same, as tensors.

        Raises:
            OutputError: the savepoint cannot be written.
            TrainingError: a weight is not finite.
        """
        beside = {_BESIDE + name: tensor for name, tensor in tensors.items()}
        self._save(step, details, {**training_state(model, optimizer), **beside})

    def _newest(
        self, use: Callable[[Tensors], None]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """JSON and tensors of the newest savepoint of this training whose state `use` accepts."""
        found = self._found
        try:
            if found is None:
                found = newest_of_first(self._folder, self._progress.note)
            if found is None:
                return None
            check_same_settings(found.settings, self._settings, self._folder)
            use({key: one for key, one in found.tensors.items() if not key.startswith(_BESIDE)})
        except (BundleError, SettingsError) as error:
            if self._found is not None:
                raise
            self._progress.note(
                "an interrupted training cannot be continued, so this one starts over:"
                f" {error.given}"
            )
            return None
        beside = (name for name in found.tensors if name.startswith(_BESIDE))
        return found.progress, {name.removeprefix(_BESIDE): found.tensors[name] for name in beside}

    def _save(self, step: int, details: Mapping[str, Any], tensors: dict[str, np.ndarray]) -> None:
        if not is_first():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        record = {**self._more, **details}
        save_checkpoint(self._folder, Checkpoint(step, self._settings, record, tensors))
        self._saved = time.monotonic()
