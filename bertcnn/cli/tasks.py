"""Shared by `qa`, `summarise`, `tokens` and `translate`: train a model, add answers to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bertcnn.cli.console import print_message, show, summary
from bertcnn.cli.devices import start_training
from bertcnn.cli.options import DeviceFlags, FileFlags, Force, Seed, Summary
from bertcnn.cli.resumable import answers_are_kept, savepoints_beside, show_unread
from bertcnn.wording import count, duration

if TYPE_CHECKING:
    from bertcnn.progress import Progress
    from bertcnn.tasks.question_answering import ExtractionReport


@dataclass(frozen=True, kw_only=True)
class TaskFlags(DeviceFlags):
    """How a task's model is trained and saved."""

    seed: Seed = 0
    overwrite: Force = False
    as_json: Summary = False


class Trained(Protocol):
    """A trained model of a task."""

    metrics_: dict[str, Any]

    def save(self, path: str | Path, *, overwrite: bool = False) -> str:
        """Save the model; returns its id."""


class Figures(Protocol):
    """The figures of an evaluation."""

    @property
    def lines(self) -> Iterable[str]:
        """For people."""

    def to_json(self) -> dict[str, Any]:
        """For programs."""


Model = TypeVar("Model", bound=Trained)


def train_task(out: Path, flags: TaskFlags, fit: Callable[[Path, Path, Progress], Model]) -> Model:
    """Train and save a model; `fit` gets this process's output folder and its savepoints."""
    from bertcnn.cli.progress import show_progress

    folder = start_training(out, flags)
    started = time.perf_counter()
    with show_progress() as progress, savepoints_beside(folder) as savepoints:
        model = fit(folder, savepoints, progress)
        identity = model.save(folder, overwrite=flags.overwrite)
    if flags.as_json:
        summary({"model": identity, **model.metrics_})
    print_message(
        f"Saved {out} (model {identity[:12]}) after {duration(time.perf_counter() - started)}."
    )
    return model


def show_figures(figures: Figures, json_file: Path | None, overwrite: bool) -> None:
    """Print the figures of an evaluation; write them to a file too if one is given."""
    from bertcnn.storage import as_json, write_whole

    for line in figures.lines:
        show(line)
    if json_file is not None:
        write_whole(json_file, as_json(figures.to_json()), overwrite=overwrite)


def check_files(source: Path, target: Path, flags: FileFlags) -> None:
    """Raise TableError or OutputError early if a file cannot be read or written."""
    from bertcnn.tables import check_input, check_output

    check_output(target, flags.overwrite)
    check_input(source)


def add_answers(
    extract: Callable[..., ExtractionReport], flags: FileFlags, *, as_json: bool
) -> ExtractionReport:
    """Run `extract` with the options of a file; an interrupted run says that it resumes."""
    from bertcnn.cli.progress import show_progress

    with answers_are_kept(flags.restart), show_progress() as progress:
        report = extract(**vars(flags), progress=progress)
    if as_json:
        summary(report)
    return report


def add_texts(
    extract: Callable[..., ExtractionReport],
    target: Path,
    flags: FileFlags,
    *,
    what: str,
    as_json: bool,
) -> None:
    """Add a column of written texts to a file, and report it; `what` names such a text."""
    report = add_answers(extract, flags, as_json=as_json)
    print_message(
        f"Wrote {target}: {count(report.rows, 'row')} in {duration(report.seconds)}, in the new"
        f" column {report.columns[0]}."
    )
    if blank := report.rows - sum(report.answered.values()):
        print_message(f"{count(blank, 'row')} without a text got no {what}.")
    show_unread(report)
