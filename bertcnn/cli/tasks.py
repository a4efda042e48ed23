"""Shared by the commands of tasks: train a model, load it, add its answers to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcnn.cli.console import print_message, summary
from bertcnn.cli.options import DeviceFlags, FileFlags, Force, Seed, Summary
from bertcnn.cli.resumable import answers_are_kept, savepoints_beside, show_unread
from bertcnn.cli.startup import load_keras, local_model, start_training
from bertcnn.wording import count, duration

if TYPE_CHECKING:
    from bertcnn.progress import Progress
    from bertcnn.tasks.question_answering import ExtractionReport
    from bertcnn.tasks.saving import ModelFolder


@dataclass(frozen=True, kw_only=True)
class TaskFlags(DeviceFlags):
    """How a task's model is trained and saved."""

    seed: Seed = 0
    overwrite: Force = False
    as_json: Summary = False


@dataclass
class TaskRun:
    """The training of a task's model, which the command has to set."""

    folder: Path  # that this process saves the model in
    savepoints: Path
    progress: Progress
    model: Any = None


@contextmanager
def task_training(out: Path, flags: TaskFlags) -> Iterator[TaskRun]:
    """Train a model in the block; it is saved and reported at the end."""
    from bertcnn.cli.progress import show_progress

    folder = start_training(out, flags)
    started = time.perf_counter()
    with show_progress() as progress, savepoints_beside(folder) as savepoints:
        run = TaskRun(folder, savepoints, progress)
        yield run
        identity = run.model.save(folder, overwrite=flags.overwrite)
    if flags.as_json:
        summary({"model": identity, **run.model.metrics_})
    print_message(
        f"Saved {out} (model {identity[:12]}) after {duration(time.perf_counter() - started)}."
    )


def checked_model(model: str, kind: ModelFolder[Any]) -> Path:
    """The folder of a model, which is checked before Keras is loaded."""
    folder = local_model(model)
    kind.read(folder)
    load_keras()
    return folder


def check_files(source: Path, target: Path, flags: FileFlags) -> None:
    """Raise TableError or OutputError early if a file cannot be read or written."""
    from bertcnn.tables import check_input, check_output

    check_output(target, flags.overwrite)
    check_input(source)


def add_answers(
    extract: Callable[..., ExtractionReport],
    target: Path,
    flags: FileFlags,
    as_json: bool,
    *,
    counted: str = "",
    written: str = "",
) -> None:
    """Add columns to a file with `extract` and report them; an interrupted run resumes.

    The message counts answers as `counted`, or names the column and the texts `written`.
    """
    from bertcnn.cli.progress import show_progress

    with answers_are_kept(flags.restart), show_progress() as progress:
        report = extract(**vars(flags), progress=progress)
    if as_json:
        summary(report)
    done = f"Wrote {target}: {count(report.rows, 'row')} in {duration(report.seconds)}"
    if counted:
        counts = ", ".join(f"{name} {number:,}" for name, number in report.answered.items())
        print_message(f"{done} ({counted}: {counts}).")
    else:
        print_message(f"{done}, in the new column {report.columns[0]}.")
        if empty := report.rows - sum(report.answered.values()):
            print_message(f"{count(empty, 'row')} got no {written}.")
    show_unread(report)
