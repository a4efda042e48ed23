"""The deadline of a training, checked against its measured speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bertcnn.training.devices import agreed

_GRACE = 0.1  # share of the allowed time; a smaller overrun is accepted


class OutOfTime(Exception):  # noqa: N818 - no error: what was there before is kept
    """A repeated training would miss the deadline."""


@dataclass(frozen=True)
class Deadline:
    """A number of allowed minutes, counted from its creation."""

    minutes: float
    _started: float = field(default_factory=time.monotonic, repr=False)

    def is_missed_after(self, seconds: float) -> bool:
        """Whether `seconds` more of work would overrun the deadline by more than a tenth.

        The first process decides for all processes.
        """
        passed = time.monotonic() - self._started
        missed = passed + seconds > (1 + _GRACE) * 60 * self.minutes
        return bool(agreed(missed))

    def __str__(self) -> str:
        return f"the {self.minutes:g} min that are allowed"


def seconds_of_epoch(batches: Sequence[float], steps: int, shapes: int) -> float:
    """The time of an epoch without compilation.

    `batches` are seconds of an epoch's batches, or of its last ones; `steps` is their full number.
    The slowest ones, as many as compiled shapes, are left out.

    Example:
        >>> seconds_of_epoch([3.0, 1.0, 1.0, 1.0], steps=8, shapes=1)
        8.0
    """
    usual = sorted(batches)[: max(1, len(batches) - shapes)]
    return steps * sum(usual) / len(usual)
