"""Progress of long work: a moving bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bertcnn.cli.console import is_muted, print_message
from bertcnn.cli.interrupts import Interrupts
from bertcnn.cli.screen import Screen
from bertcnn.wording import duration, visible

_SECONDS_BETWEEN_LINES = 15.0
_SMALLEST_SHARE = 0.1  # earlier batches include compilation, so they do not predict the time left


class _Interruptible:
    """A progress that turns Ctrl-C into a stop at its next report."""

    def __init__(self) -> None:
        self._interrupts = Interrupts()

    def __deepcopy__(self, _: object) -> Self:
        """Return self: scikit-learn's `clone` deep-copies an estimator's arguments."""
        return self

    def __enter__(self) -> Self:
        self._interrupts.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._interrupts.stop()
        if kind is None:
            self._close()
        self._end()
        if kind is None:
            self._interrupts.check()

    def _close(self) -> None:
        """End the stage."""

    def _end(self) -> None:
        """End all stages, also after an error."""


class PlainProgress(_Interruptible):
    """Progress on standard error for logs: a line per stage's start and end, and every 15 s."""

    def __init__(self) -> None:
        super().__init__()
        self._name, self._total, self._unit, self._done = "", 0, "", 0
        self._started = self._last = 0.0
        self._figures: dict[str, float] = {}

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Start a stage."""
        self._interrupts.check()
        self._close()
        self._name, self._total, self._unit, self._done, self._figures = name, total, unit, 0, {}
        self._started = self._last = time.monotonic()
        print_message(f"{name}: {amount(total, unit)}" if total else f"{name} ...")

    def advance(self, done: int, **figures: float) -> None:
        """Report progress within the stage."""
        self._interrupts.check()
        self._done += done
        self._figures = figures
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES and self._done < self._total:
            self._last = now
            share = self._done / self._total
            left = (
                f", about {duration((now - self._started) * (1 / share - 1))} left of this stage"
                if share >= _SMALLEST_SHARE
                else ""
            )
            print_message(f"  {share:.0%}{figures_text(figures)}{left}")

    def note(self, message: str) -> None:
        """Print a finding."""
        print_message(f"  {message}")

    def _close(self) -> None:
        if self._name:
            print_message(
                "  done in"
                f" {duration(time.monotonic() - self._started)}{figures_text(self._figures)}"
            )
        self._name = ""


class RichProgress(_Interruptible):
    """One moving bar per stage, with its figures and the time left; for terminals."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Screen(stderr=True)
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            console=self._console,
        )
        self._task: TaskID | None = None

    def stage(self, name: str, total: int, unit: str = "rows") -> None:  # noqa: ARG002 - shows %
        """Start a stage."""
        self._interrupts.check()
        self._close()
        self._task = self._bars.add_task(visible(name), total=total or None, figures="")

    def advance(self, done: int, **figures: float) -> None:
        """Report progress within the stage."""
        self._interrupts.check()
        if self._task is not None:
            self._bars.update(
                self._task, advance=done, figures=figures_text(figures).removeprefix(", ")
            )

    def note(self, message: str) -> None:
        """Print a finding."""
        self._console.print(f"  {visible(message)}")

    def _close(self) -> None:
        if self._task is not None:
            total = self._bars.tasks[-1].total or 1
            self._bars.update(self._task, total=total, completed=total)
        self._task = None

    def __enter__(self) -> Self:
        super().__enter__()
        self._bars.start()
        return self

    def _end(self) -> None:
        self._bars.stop()


def show_progress() -> RichProgress | PlainProgress:
    """A progress bar if standard error is a terminal, else plain lines; see `mute`."""
    if is_muted():
        return PlainProgress()
    return RichProgress() if sys.stderr.isatty() else PlainProgress()


def figures_text(figures: dict[str, float]) -> str:
    """Named values as text, such as ", loss 0.412, macro-F1 0.931, 397 rows/s"."""
    names = {
        "macro_f1": "macro-F1",
        "best_macro_f1": "best macro-F1",
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "accuracy",
        "nsp_loss": "NSP loss",
        "nsp_accuracy": "accuracy",
    }
    parts = [
        (
            f"{value:,.0f} {unit}/s"
            if (unit := name.removesuffix("_per_second")) != name
            else f"{names.get(name, name)} {value:.3f}"
        )
        for name, value in figures.items()
    ]
    return "".join(f", {part}" for part in parts)


def amount(total: int, unit: str) -> str:
    """A number with its unit; bytes in MB.

    Example:
        >>> amount(1040, "rows"), amount(90_900_000, "bytes")
        ('1,040 rows', '90.9 MB')
    """
    if unit != "bytes":
        return f"{total:,} {unit}"
    return f"{total / 1e6:.1f} MB" if total >= 1e5 else f"{total / 1e3:.1f} kB"
