"""When a training has to be over, reckoned again while it runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bertcnn.training.devices import agreed

_GRACE = 0.1  # of the time allowed; less is not worth a worse model


class OutOfTime(Exception):  # noqa: N818 - no error: what was there before is kept
    """A training that repeats another one would end too late."""


@dataclass(frozen=True)
class Deadline:
    """Minutes that are allowed, from now on.

    Attributes:
        minutes: allowed.
    """

    minutes: float
    _started: float = field(default_factory=time.monotonic, repr=False)

    def is_missed_after(self, seconds: float) -> bool:
        """Whether so much more work would end more than a tenth too late.

        The first process decides for all of a training.
        """
        passed = time.monotonic() - self._started
        missed = passed + seconds > (1 + _GRACE) * 60 * self.minutes
        return bool(agreed(missed))

    def __str__(self) -> str:
        """As notes say it."""
        return f"the {self.minutes:g} min that are allowed"


def seconds_of_epoch(batches: Sequence[float], steps: int, shapes: int) -> float:
    """What an epoch takes in which nothing has to be compiled.

    Args:
        batches: seconds of each batch of an epoch, or of its last ones.
        steps: batches of a whole epoch.
        shapes: compiled shapes; so many batches, the slowest, may have waited for a compilation.

    Example:
        >>> seconds_of_epoch([3.0, 1.0, 1.0, 1.0], steps=8, shapes=1)
        8.0
    """
    usual = sorted(batches)[: max(1, len(batches) - shapes)]
    return steps * sum(usual) / len(usual)
