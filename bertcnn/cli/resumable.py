"""Hints for resuming interrupted commands, and reports of scored and unread rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bertcnn.cli.console import print_message
from bertcnn.cli.interrupts import INTERRUPTED, AlreadyReported
from bertcnn.wording import count, duration

if TYPE_CHECKING:
    from bertcnn.scoring import ScoringReport
    from bertcnn.tasks.question_answering import ExtractionReport


@contextmanager
def savepoints_beside(out: Path) -> Iterator[Path]:
    """The folder of savepoints for the model in `out`; removed once the model is saved.

    Raises:
        OutputError: another run trains a model for the same folder.
    """
    from bertcnn.storage import held_folder, real_folder
    from bertcnn.training import savepoint_folder

    folder = savepoint_folder(real_folder(out))
    with resumes(out), held_folder(folder, does="keeps its training in") as savepoints:
        yield savepoints
        shutil.rmtree(savepoints, ignore_errors=True)


@contextmanager
def resumes(out: Path) -> Iterator[None]:
    """After Ctrl-C, tell the user to rerun the command if there is a savepoint."""
    from bertcnn.storage import real_folder
    from bertcnn.training import savepoint_folder

    try:
        yield
    except KeyboardInterrupt:
        if not savepoint_folder(real_folder(out)).is_dir():
            raise
        print_message(
            "\nbertcnn: interrupted; nothing was half-written. The same command resumes from"
            " the last save, a minute ago at most."
        )
        raise AlreadyReported(INTERRUPTED) from None


@contextmanager
def answers_are_kept(restart: bool) -> Iterator[None]:
    """After Ctrl-C, tell the user to rerun the command if there are saved answers."""
    from bertcnn.scoring import ScoringInterrupted

    try:
        yield
    except ScoringInterrupted as stop:
        again = "The same command without --restart" if restart else "The same command"
        print_message(
            f"\nbertcnn: interrupted; the answers for {stop.rows:,} rows are kept. {again}"
            " continues from there."
        )
        raise AlreadyReported(INTERRUPTED) from None


def show_figures(report: ScoringReport, target: object) -> None:
    """Print the number of rows written, their labels and decisions."""
    frequent = (
        ", ".join(f"{name} {rows:,}" for name, rows in list(report.labels.items())[:8])
        or "no labels"
    )
    print_message(
        f"Wrote {target}: {count(report.rows, 'row')} in {duration(report.seconds)} ({frequent})."
    )
    decided = ", ".join(
        f"{name} {rows:,} ({rows / report.rows:.0%})" for name, rows in report.decisions.items()
    )
    if decided:
        print_message(f"Decisions: {decided}.")
    if report.blank:
        print_message(f"{count(report.blank, 'row')} without a text got no label.")


def show_unread(report: ScoringReport | ExtractionReport) -> None:
    """Print the rows of a file that were skipped or altered."""
    if report.padded:
        print_message(
            f"{count(report.padded, 'row')} lacked the last cells; they were read as blank."
        )
    if report.repeated_headers:
        print_message(
            f"{count(report.repeated_headers, 'row')} repeating the header left out: see"
            f" {report.rejects}."
        )
    unread = report.rejected - report.repeated_headers
    if unread:
        print_message(
            f"{count(unread, 'row')} could not be read: see the reasons in {report.rejects}."
        )
