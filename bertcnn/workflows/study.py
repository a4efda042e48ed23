"""A search's memory, which survives its process, and what to try next (Optuna)."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bertcnn.errors import OutputError, explain_missing_packages
from bertcnn.storage.files import companion, output_error, try_lock

if TYPE_CHECKING:
    import optuna

_NAME = "bertcnn tune"
_RANDOM_FIRST = 10  # trials without a model of what is good, as Optuna has it
_COMPARED = 4  # trials that have come as far before one is stopped for being worse
_RECORD, _HEADER = "record", "header"
_PARTS = ("", "-journal")  # of the memory: SQLite's file, and what it needs to recover from a kill


def need_optuna() -> ModuleType:
    """Optuna, an extra.

    Raises:
        MissingPackageError: it is not installed.
    """
    with explain_missing_packages():
        import optuna
    return optuna


def study_path(out: Path) -> Path:
    """Where the memory of the search for the settings file `out` is kept."""
    return companion(out, ".study")


@dataclass(frozen=True)
class Record:
    """What became of a trial.

    Attributes:
        outcome: "complete", "pruned", "diverged" or "ended", which time did.
        macro_f1: on its validation rows, as far as it came.
        epochs: trained.
        seconds: that it took.
        point: the settings tried.
        predicted: label of each validation row, if it is complete.
    """

    outcome: str
    macro_f1: float
    epochs: int
    seconds: float
    point: dict[str, Any]
    predicted: list[int]


class Study:
    """The search, in a file that survives whatever ends the process.

    SQLite keeps it: each step is a transaction, and what a kill leaves half-done is undone at the
    next start. (Optuna's journal file cannot be read any more after a line written by half.) What
    is tried next depends on nothing but the seed and the trials finished, so a search that was
    interrupted tries what it would have tried without.

    Args:
        path: of the file; made, or gone on with. None keeps nothing.
        header: what the search is about, by part; a file about something else is refused.
        seed: of what is tried.
        warmup: epochs before which no trial is stopped.
        replace: forget a file about something else, or one that cannot be read.

    Raises:
        OutputError: the file is in use, is about something else, or cannot be read or written.
        MissingPackageError: Optuna is missing.
    """

    def __init__(
        self,
        path: Path | None,
        header: Mapping[str, str],
        *,
        seed: int,
        warmup: int,
        replace: bool = False,
    ) -> None:
        self._optuna = need_optuna()
        self._path, self._seed = path, seed
        self._storage: optuna.storages.RDBStorage | None = None
        self._lock = None if path is None else self._locked(path)
        self._verbosity = self._optuna.logging.get_verbosity()
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        try:
            try:
                self._open(header, warmup)
            except OutputError:
                if not replace or path is None:
                    raise
                self._close_storage()
                self._empty(path)
                self._open(header, warmup)
        except BaseException:
            self.close()
            raise
        self.records = [
            record
            for record in map(_record_of, self._study.get_trials(deepcopy=False))
            if record is not None
        ]

    def _open(self, header: Mapping[str, str], warmup: int) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        pruner = self._optuna.pruners.MedianPruner(
            n_startup_trials=_COMPARED, n_warmup_steps=warmup, n_min_trials=_COMPARED
        )
        path = self._path
        try:
            # the path does not go through a URL, in which some characters would mean something
            if path is not None:
                connect = {"creator": lambda: sqlite3.connect(path, check_same_thread=False)}
                self._storage = self._optuna.storages.RDBStorage(
                    "sqlite:///study", engine_kwargs=connect
                )
            self._study = self._optuna.create_study(
                study_name=_NAME,
                storage=self._storage,
                direction="maximize",
                pruner=pruner,
                load_if_exists=True,
            )
            states = self._optuna.trial.TrialState
            for _ in self._study.get_trials(deepcopy=False, states=(states.WAITING,)):
                self._study.ask()
            # what was under way when the process was killed
            for trial in self._study.get_trials(deepcopy=False, states=(states.RUNNING,)):
                self._study.tell(trial.number, state=states.FAIL)
        except (SQLAlchemyError, sqlite3.Error, RuntimeError, AssertionError) as error:
            reason = str(getattr(error, "orig", None) or error).split("\n")[0]
            raise OutputError(
                f"{path}, the saved state of an earlier search, cannot be used ({reason})",
                expected="a file that `bertcnn tune` has left",
                fix="delete it, or start again with --force",
            ) from None
        self._check(dict(header))

    def _check(self, header: dict[str, str]) -> None:
        found = self._study.user_attrs.get(_HEADER)
        if found is None:
            self._study.set_user_attr(_HEADER, header)
        elif found != header:
            changed = [
                name
                for name in header
                if not isinstance(found, dict) or found.get(name) != header[name]
            ]
            raise OutputError(
                f"{self._path} belongs to a search with another"
                f" {' and another '.join(changed) or 'purpose'}",
                expected="the search that it belongs to",
                fix=(
                    "repeat the earlier command to go on with it, start again with --force, or"
                    " choose another name for --out"
                ),
            )

    @staticmethod
    def _locked(path: Path) -> int:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise output_error(path, error) from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OutputError(
                f"{path} is a pipe or a device",
                expected="a file that `bertcnn tune` has left, or none",
                fix="remove it",
            )
        if not try_lock(handle):
            os.close(handle)
            raise OutputError(
                f"another run is tuning with {path}",
                expected="one run at a time",
                fix="wait for it, or choose another name for --out",
            )
        return handle

    @staticmethod
    def _empty(path: Path) -> None:
        """Empty the file, which stays locked."""
        with suppress(FileNotFoundError):
            path.with_name(path.name + _PARTS[1]).unlink()
        os.truncate(path, 0)

    @property
    def finished(self) -> list[Record]:
        """The trials that came to an end of their own, in their order."""
        return [record for record in self.records if record.outcome != "ended"]

    def ask(self, defaults: Mapping[str, Any]) -> optuna.Trial:
        """The next trial; the first is of `defaults`."""
        count = len(self.finished)
        seed = int(np.random.SeedSequence([self._seed, count]).generate_state(1)[0])
        self._study.sampler = self._optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=_RANDOM_FIRST, multivariate=True
        )
        if not count:
            self._study.enqueue_trial(dict(defaults))
        return self._study.ask()

    def tell(self, trial: optuna.Trial, record: Record) -> None:
        """Keep what became of a trial."""
        states = self._optuna.trial.TrialState
        trial.set_user_attr(_RECORD, json.dumps(vars(record)))
        if record.outcome == "complete":
            self._study.tell(trial, record.macro_f1)
        else:
            self._study.tell(
                trial, state=states.FAIL if record.outcome == "ended" else states.PRUNED
            )
        self.records.append(record)

    def forget(self) -> None:
        """Remove the file: the search is over, and its result is written."""
        self.close()
        if self._path is not None:
            for part in _PARTS:
                with suppress(OSError):
                    self._path.with_name(self._path.name + part).unlink()

    def close(self) -> None:
        """Let go of the file, which stays."""
        self._close_storage()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self._optuna.logging.set_verbosity(self._verbosity)

    def _close_storage(self) -> None:
        if self._storage is not None:
            self._storage.remove_session()
            self._storage.engine.dispose()
            self._storage = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _record_of(trial: optuna.trial.FrozenTrial) -> Record | None:
    """What became of a trial; None if a kill ended it, before or while that was written down."""
    kept = trial.user_attrs.get(_RECORD)
    if kept is None:
        return None
    record = Record(**json.loads(kept))
    known = record.outcome == "ended" or trial.state.name == (
        "COMPLETE" if record.outcome == "complete" else "PRUNED"
    )
    return record if known else None
