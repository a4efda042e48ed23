"""Savepoints: an interrupted training resumes and ends with the same result."""

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
from bertcnn.storage import companion
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
_BESIDE = "beside/"  # prefix of tensors that are not state of model or optimizer
Tensors = Mapping[str, np.ndarray]


def savepoint_folder(out: Path) -> Path:
    """The hidden folder next to `out` for savepoints of a training that will be saved in `out`."""
    return companion(out.with_name(f".{out.name}"), ".training")


def digest(arrays: Sequence[np.ndarray] | Tensors) -> str:
    """A hash of arrays in order, with their names if any; it identifies a training."""
    hasher = blake2b(digest_size=16)
    named = arrays.items() if isinstance(arrays, Mapping) else (("", array) for array in arrays)
    for name, array in named:
        hasher.update(f"{name} {array.dtype} {array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()


def newest_of_first(folder: Path, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint in the first process's folder, sent to every process."""
    newest = newest_checkpoint(folder, note) if is_first() else None
    if is_alone():
        return newest
    if not agreed(newest is not None):
        return None
    step, settings, progress = agreed(newest and [newest.step, newest.settings, newest.progress])
    tensors = of_first(safetensors.numpy.save(dict(newest.tensors)) if newest else b"")
    return Checkpoint(step, settings, progress, safetensors.numpy.load(tensors))


class Savepoints:
    """Saves one training periodically; only the first process writes.

    Args:
        folder: for the savepoints; the newest two are kept.
        settings: everything the result depends on, as JSON; only the same settings resume.
        seconds: minimum time between savepoints; by default a minute.
        more: additional JSON for each savepoint.
        checkpoint: to resume from, with an error if it cannot be used. By default it is the newest
            one, and if that cannot be used the training starts over.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        progress: Progress,
        seconds: float | None = None,
        *,
        more: Mapping[str, Any] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._folder, self._settings, self._progress = folder, dict(settings), progress
        self._more, self._found = more or {}, checkpoint
        self._seconds = _SECONDS_BETWEEN if seconds is None else seconds
        self._saved = time.monotonic()

    def restore(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Load the newest savepoint and return its JSON and tensors; None if none can be used."""
        return self._newest(lambda state: restore_state(state, model, optimizer))

    def part(self, name: str) -> Savepoints:
        """The savepoints of a part of the training, in a subfolder."""
        return Savepoints(self._folder / name, self._settings, self._progress, self._seconds)

    def kept(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """The result that `keep` saved; None if there is none for this training."""
        return self._newest(lambda _: None)

    def keep(self, details: dict[str, Any], tensors: Tensors) -> None:
        """Save the result of a part of the training, as JSON and as tensors."""
        self._save(0, details, {_BESIDE + name: tensor for name, tensor in tensors.items()})

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next savepoint."""
        return time.monotonic() - self._saved >= self._seconds

    def save(
        self,
        step: int,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        details: Mapping[str, Any],
        tensors: Tensors,
    ) -> None:
        """Save model, optimizer and additional state as JSON and tensors.

        Raises:
            OutputError: the savepoint cannot be written.
            TrainingError: a weight is not finite.
        """
        beside = {_BESIDE + name: tensor for name, tensor in tensors.items()}
        self._save(step, details, {**training_state(model, optimizer), **beside})

    def _newest(
        self, use: Callable[[Tensors], None]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """JSON and tensors of the newest savepoint whose state `use` accepts."""
        newest = self._found
        try:
            if newest is None:
                newest = newest_of_first(self._folder, self._progress.note)
            if newest is None:
                return None
            check_same_settings(newest.settings, self._settings, self._folder)
            use({key: one for key, one in newest.tensors.items() if not key.startswith(_BESIDE)})
        except (BundleError, SettingsError) as error:
            if self._found is not None:
                raise
            self._progress.note(
                "an interrupted training cannot be continued, so this one starts over:"
                f" {error.given}"
            )
            return None
        beside = (key for key in newest.tensors if key.startswith(_BESIDE))
        return newest.progress, {key.removeprefix(_BESIDE): newest.tensors[key] for key in beside}

    def _save(self, step: int, details: Mapping[str, Any], tensors: dict[str, np.ndarray]) -> None:
        if not is_first():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        record = {**self._more, **details}
        save_checkpoint(self._folder, Checkpoint(step, self._settings, record, tensors))
        self._saved = time.monotonic()
