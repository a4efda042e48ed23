"""The base class of all task models: how they are saved and loaded."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from bertcnn.bundle import local_folder
from bertcnn.errors import TrainingError
from bertcnn.inference import not_pickled
from bertcnn.progress import Progress, Silent
from bertcnn.tasks.saving import Config, EncoderConfig, ModelFolder, SavedModel

if TYPE_CHECKING:
    from keras.callbacks import Callback

    from bertcnn.training import RunOptions

Running = TypeVar("Running")


class TaskModel(ABC, Generic[Config, Running]):
    """A model that is trained by `fit` or loaded by `load`; `metrics_` are training figures."""

    _folder: ClassVar[ModelFolder[Any]]

    def __init__(self, seed: int, callbacks: Sequence[Callback], progress: Progress | None) -> None:
        self._seed, self._callbacks = seed, tuple(callbacks)
        self._progress = progress or Silent()
        self._saved: SavedModel[Config] | None = None
        self._started: Running | None = None
        self.metrics_: dict[str, Any] = {}

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> str:
        """Save to a folder atomically, and return the model's id.

        Raises:
            OutputError: the folder exists or cannot be written.
            TrainingError: called before `fit`.
        """
        identity = self._folder.write(self._model, folder, overwrite=overwrite)
        self._saved = replace(self._model, identity=identity)
        return identity

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> Self:
        """Load a saved model from a folder or URL.

        Raises:
            BundleError: the folder is not exactly what `save` wrote.
        """
        saved = cls._folder.read(local_folder(folder, progress=progress))
        model = cls(**cls._arguments(saved.config), progress=progress)
        model._take(saved)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle; only an untrained model can be pickled."""
        if self._saved is not None:
            raise not_pickled(self._folder.kind, "save it with .save(folder), and load that")
        return self.__dict__

    @property
    def identity(self) -> str:
        """An id of this exact model, also before it is saved."""
        if self._model.identity:
            return self._model.identity
        from bertcnn.training import digest

        return digest(self._model.tensors)

    @classmethod
    def _arguments(cls, config: Config) -> dict[str, Any]:
        """The arguments of an untrained model with these settings."""
        given = config.model_dump(include={"model", "questions", "windows", "training", "seed"})
        if isinstance(config, EncoderConfig):
            given["encoder"] = config.encoder_name
        return given

    @property
    def _options(self) -> RunOptions:
        """How `fit` trains; raises SettingsError for an invalid seed."""
        from bertcnn.training import RunOptions, check_seed

        check_seed(self._seed)
        return RunOptions(self._seed, self._progress, callbacks=self._callbacks)

    @abstractmethod
    def _start(self, saved: SavedModel[Config]) -> Running:
        """Build the runtime that makes predictions."""

    def _take(self, saved: SavedModel[Config]) -> None:
        self._saved, self._started = saved, None
        self.metrics_ = dict(saved.metrics)

    @property
    def _model(self) -> SavedModel[Config]:
        if self._saved is None:
            raise TrainingError(
                f"a {self._folder.kind} without a model",
                expected="one that is trained",
                fix="call fit first, or load a saved one",
            )
        return self._saved

    @property
    def _running(self) -> Running:
        if self._started is None:
            self._started = self._start(self._model)
        return self._started
