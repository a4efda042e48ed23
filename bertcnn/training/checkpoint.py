"""Checkpoints: everything a training needs to resume, written atomically with a manifest."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import safetensors.numpy

from bertcnn.errors import BundleError, SettingsError, TrainingError, one_line
from bertcnn.storage import (
    MANIFEST,
    FolderFormat,
    Member,
    canonical_json,
    clean_leftovers,
    object_of,
    output_error,
    parse_json,
    put_in_place,
    read_members,
    refuse,
    work_folder,
    write_manifest,
    write_new,
)

_ABOUT, _STATE = "checkpoint.json", "state.safetensors"
FORMAT: Final = FolderFormat(
    "bertcnn-checkpoint", 2, (Member(_ABOUT, 1 << 28), Member(_STATE, 1 << 36))
)
_NAME = re.compile(r"step-(\d{9,})")
_NEXT = "next"  # name of an incomplete checkpoint
_KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two steps.

    `settings` are everything the result depends on; only a run with the same settings can resume.
    `tensors` come from `training_state`.
    """

    step: int
    settings: dict[str, Any]
    progress: dict[str, Any]
    tensors: dict[str, np.ndarray]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint to `folder`, synced to disk, and remove all but the newest two.

    Raises:
        TrainingError: a number is not finite; such weights are never saved.
        OutputError: it cannot be written; earlier checkpoints are kept.
    """
    for name, tensor in checkpoint.tensors.items():
        if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
            raise TrainingError(
                f"after step {checkpoint.step:,}, {name} holds a number that is not finite",
                expected="finite numbers",
                fix="lower the learning rate and run it again from the checkpoint before",
            )
    about = {name: getattr(checkpoint, name) for name in ("step", "settings", "progress")}
    members = {_ABOUT: canonical_json(about), _STATE: safetensors.numpy.save(checkpoint.tensors)}
    _, manifest = write_manifest(FORMAT, members)
    try:
        with work_folder(folder / _NEXT) as work:
            new = work / "new"
            new.mkdir()
            for name, data in {**members, MANIFEST: manifest}.items():
                write_new(new / name, data)
            put_in_place(new, folder / f"step-{checkpoint.step:09d}", work, replace=True)
    except OSError as error:
        raise output_error(folder, error) from None
    earlier = [path for step, path in _found(folder) if step <= checkpoint.step]
    for _, path in _found(folder):
        if path not in earlier[-_KEPT:]:
            shutil.rmtree(path, ignore_errors=True)


def forget_checkpoints(folder: Path) -> None:
    """Remove the checkpoints in `folder`, and nothing else."""
    for _, path in _found(folder):
        shutil.rmtree(path, ignore_errors=True)
    clean_leftovers(folder / _NEXT)


def newest_checkpoint(folder: Path, note: Callable[[str], None]) -> Checkpoint | None:
    """The newest intact checkpoint in `folder`; None if there are no checkpoints.

    `note` receives a message for each damaged checkpoint, which is skipped.

    Raises:
        BundleError: all checkpoints are damaged.
    """
    damaged: list[str] = []
    for _, path in reversed(_found(folder)):
        try:
            return _read(path)
        except BundleError as error:
            damaged.append(f"{path.name}: {error.given}")
            note(f"the checkpoint {damaged[-1]}; it is skipped")
    if damaged:
        raise BundleError(
            f"no checkpoint in {folder} can be used ({one_line(damaged[0], 200)})",
            expected="one that is whole",
            fix="copy them again from where they came, or start over with --restart",
        )
    return None


def _found(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    names = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in names if match)


def _read(path: Path) -> Checkpoint:
    _, members = read_members(path, FORMAT)
    about = object_of(_ABOUT, parse_json(_ABOUT, members[_ABOUT]), FORMAT.schema_version)
    try:
        state = Checkpoint(**about, tensors=safetensors.numpy.load(members[_STATE]))
    except (TypeError, ValueError, safetensors.SafetensorError) as error:
        refuse(f"{path} holds something else ({error})", "a checkpoint")
    if [type(one) for one in (state.step, state.settings, state.progress)] != [int, dict, dict]:
        refuse(f"{path} holds something else", "a checkpoint")
    return state


def check_same_settings(saved: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path) -> None:
    """Raise a SettingsError unless a checkpoint was made with this run's settings.

    Only the keys of `wanted`, this run's settings, count. The message names the first difference.
    """
    for name, value in wanted.items():
        if saved.get(name) != value:
            raise SettingsError(
                f"the checkpoint in {folder} was made with {name} = {one_line(saved.get(name))},"
                f" this run has {one_line(value)}",
                expected="the settings of the run it goes on with",
                fix=f"give {name} as it was, or start over with --restart",
            )


def training_state(
    model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> dict[str, np.ndarray]:
    """All tensors that a step changes: weights by name, other state by index."""
    variables = _variables(model, optimizer)
    return {name: np.array(variable.numpy()) for name, variable in variables.items()}


def restore_state(
    tensors: Mapping[str, np.ndarray], model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> None:
    """Load the tensors of `training_state`; raises BundleError if they do not fit the model."""
    variables = _variables(model, optimizer)
    expected_shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    for name in sorted(expected_shapes.keys() | shapes.keys()):
        if expected_shapes.get(name) == shapes.get(name):
            continue
        shape = shapes.get(name, "none, it is missing")
        raise BundleError(
            f"a checkpoint in which {name} has the shape {shape}",
            expected=f"{expected_shapes.get(name, 'nothing of that name')}",
            fix="start over with --restart",
        )
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _variables(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    def by_index(kind: str, variables: Sequence[Any]) -> dict[str, Any]:
        return {f"{kind}/{index:04d}": variable for index, variable in enumerate(variables)}

    weights = {f"weights/{weight.path}": weight for weight in model.trainable_variables}
    return {
        **weights,
        **by_index("fixed", model.non_trainable_variables),
        **by_index("optimizer", optimizer.variables),
    }
