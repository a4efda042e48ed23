"""A tiny pretraining run that can be killed at any moment.

Used by the tests, and run as a process of its own:

    python -m tests.pretraining.killing TEXTS OUT CACHE MOMENT

MOMENT is "step:N", to die as by kill -9 after step N of this process, or "write:N", to die during
the N-th write to the disk.
"""

import os
import signal
import sys
from pathlib import Path

from bertcnn.pretraining.initialization import NewEncoder
from bertcnn.pretraining.run import PretrainingReport, RunOptions, pretrain
from bertcnn.settings import EncoderSettings
from bertcnn.storage import files

SHAPE = EncoderSettings(
    vocabulary_size=1, width=16, layers=1, heads=2, feed_forward_width=32, max_positions=32
)
DATA = {"sequence_length": 32, "batch_size": 4}
STEPS = 9


class Listener:
    """Keeps the notes; acts after each step.

    Args:
        after_step: called with the number of steps advanced in this process.
    """

    def __init__(self, after_step=lambda _: None) -> None:
        self.notes: list[str] = []
        self._after_step, self._step, self._pretraining = after_step, 0, False

    def stage(self, name: str, *_: object) -> None:
        """Remember whether steps are being counted."""
        self._pretraining = name == "pretraining"
        self._step = -1  # the first report counts the steps done before

    def advance(self, *_: object, **__: float) -> None:
        """Count one step, or the initial report."""
        self._step += 1
        if self._pretraining and self._step > 0:
            self._after_step(self._step)

    def note(self, message: str) -> None:
        self.notes.append(message)


def tiny_run(
    texts: Path,
    out: Path,
    cache: Path,
    listener: Listener,
    seconds: float = 0.0,
    held_out: float = 0.2,
    logs: Path | None = None,
    **changes: object,
) -> PretrainingReport:
    """A run of 9 steps, with a checkpoint after each."""
    training = {"steps": STEPS, "learning_rate": 0.01, **changes}
    options = RunOptions(seconds_between_checkpoints=seconds, cache=cache, logs=logs)
    return pretrain(
        [texts],
        out,
        start=NewEncoder(SHAPE),
        data={**DATA, "held_out": held_out},
        training=training,
        options=options,
        progress=listener,
    )


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run, and die at the given moment."""
    texts, out, cache = map(Path, sys.argv[1:4])
    kind, number = sys.argv[4].split(":")
    left = int(number)

    def write(handle: int, data: memoryview) -> int:
        nonlocal left
        left -= kind == "write" and "checkpoints" in str(Path(f"/proc/self/fd/{handle}").readlink())
        if kind == "write" and left == 0:
            real(handle, data[: len(data) // 2])
            _die()
        return real(handle, data)

    real, files.os.write = os.write, write
    tiny_run(
        texts,
        out,
        cache,
        Listener(lambda step: _die() if (kind, step) == ("step", int(number)) else None),
    )


if __name__ == "__main__":
    main()
