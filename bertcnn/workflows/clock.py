"""The time limit of a search: ends a training at the deadline, and reports the seconds gone."""

from __future__ import annotations

import time
from collections.abc import Callable

from bertcnn.progress import Progress, Silent
from bertcnn.workflows.study import Record


class TimeIsUp(Exception):  # noqa: N818 - no error
    """The time limit has come."""


class Clock:
    """Progress that ends the work at a deadline.

    It passes on the progress of the preparations, then reports the seconds gone.
    """

    def __init__(self, progress: Progress, started: float, deadline: float) -> None:
        self._progress, self._started, self.deadline = progress, started, deadline
        self._in_seconds, self._told, self._best = False, 0, -1.0

    @staticmethod
    def now() -> float:
        """Seconds since some moment in the past."""
        return time.monotonic()

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self.now()

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """A stage of the preparations starts."""
        self._progress.stage(name, total, unit)

    def advance(self, done: int, **figures: float) -> None:
        """Part of the work is done.

        Raises:
            TimeIsUp: the deadline has come.
        """
        if self.left() <= 0:
            raise TimeIsUp
        if self._in_seconds:
            self._tell()
        else:
            self._progress.advance(done, **figures)

    def note(self, message: str) -> None:
        """A finding of the search."""
        self._progress.note(message)

    def tell_seconds(self) -> None:
        """From now on report the seconds gone."""
        self._in_seconds, self._started = True, self.now()
        self._progress.stage("tuning", max(1, int(self.left())), "seconds at most")

    def tell_trial(self, number: int, record: Record) -> None:
        """A trial is finished."""
        best = record.outcome == "complete" and record.macro_f1 > self._best
        if best:
            self._best = record.macro_f1
        what = "the defaults" if number == 0 else "the best so far" if best else ""
        if record.outcome != "complete":
            what = {
                "pruned": "stopped early: worse than the others",
                "diverged": "its loss became infinite",
            }[record.outcome]
        after = f"{record.epochs} epochs, {record.seconds:.0f} s"
        self._progress.note(
            f"trial {number}: macro-F1 {record.macro_f1:.3f} ({after}){', ' if what else ''}{what}"
        )
        self._tell()

    def _tell(self) -> None:
        seconds = int(self.now() - self._started) - self._told
        self._told += seconds
        self._progress.advance(
            seconds, **({"best_macro_f1": self._best} if self._best >= 0 else {})
        )


class EpochProgress(Silent):
    """Progress of one training: checks the deadline, and reports the end of each epoch."""

    def __init__(self, clock: Clock, epoch_done: Callable[[float], None]) -> None:
        self._clock, self._epoch_done = clock, epoch_done

    def advance(self, done: int, **figures: float) -> None:
        """A batch or an epoch is done."""
        self._clock.advance(done)
        if not done:
            self._epoch_done(figures["macro_f1"])
