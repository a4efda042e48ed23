"""A child process that downloads; it is watched, and ended when it is too slow."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bertcnn.encoders.layout import SourceError
from bertcnn.progress import Progress

# bytes a second on average, below which curl's and git's manuals call a transfer too slow as well
SLOWEST: Final = 1000
PATIENCE: Final = 20.0  # seconds, of which each such window has to keep that pace

_POLL_SECONDS = 0.1
_LONGEST_REASON = 90  # characters
_MOST_COPIES = 4  # of the bytes to come, on the disk at a time; an installer may hold two


@dataclass(frozen=True)
class Watched:
    """What a downloading process is watched by.

    Attributes:
        work: a folder for its output and temporary files.
        grows: the folder that its bytes arrive in; may not be there yet.
        total: bytes to come, for the progress bar.
        patience: seconds within which it has to keep its pace.
    """

    work: Path
    grows: Path
    total: int
    patience: float


def run_watched(
    command: Sequence[str], watched: Watched, progress: Progress, *, explain: Callable[[str], str]
) -> str:
    """Let a process download; the growth of its folder is the progress.

    Args:
        command: what to run.
        watched: where it works.
        progress: hears of the bytes.
        explain: makes the reason out of what a process that failed has printed.

    Returns:
        What it has printed.

    Raises:
        SourceError: it failed, stalled, was too slow, or sent far more than there is to come.
    """
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(watched.work))
    with (watched.work / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            _watch(process, watched, progress)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    printed = (watched.work / "output").read_text(encoding="utf-8", errors="replace")
    if process.returncode:
        missing = watched.total - min(_size_of(watched.grows), watched.total)
        free = shutil.disk_usage(watched.work).free
        if free < missing:  # on a full disk there is no room for the reason either
            raise SourceError(
                f"{missing / 1e6:,.0f} MB more are needed on its disk, which has {free / 1e6:,.0f}"
                " MB left"
            )
        raise SourceError(explain(printed))
    return printed


def reason(output: str, otherwise: str) -> str:
    """The last line that begins with "error", short enough to be one of several in a message."""
    lines = [line.strip() for line in output.splitlines() if line.lower().startswith("error ")]
    return (lines[-1][len("error ") :] if lines else otherwise)[:_LONGEST_REASON]


def _watch(process: subprocess.Popen[bytes], watched: Watched, progress: Progress) -> None:
    """Wait for the end of a process that is fast enough.

    Raises:
        SourceError: too few bytes came in a window of so many seconds, or far too many came.
    """
    seen = min(_size_of(watched.grows), watched.total)
    progress.advance(seen)
    arrived, ends = 0.0, time.monotonic() + watched.patience
    while True:
        try:
            process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            ended = False
        else:
            ended = True
        found = _size_of(watched.grows)
        if watched.total and found > _MOST_COPIES * watched.total:
            raise SourceError(
                f"it sent more than {_MOST_COPIES} times the {watched.total / 1e6:,.0f} MB expected"
            )
        if (size := min(found, watched.total)) > seen:
            progress.advance(size - seen)
            arrived, seen = arrived + size - seen, size
        if ended:
            return
        if (left := ends - time.monotonic()) <= 0:
            if left < -watched.patience:  # we were stopped ourselves, on a terminal for example
                arrived = math.inf
            _check_pace(arrived, watched.patience)
            arrived, ends = 0.0, time.monotonic() + watched.patience


def _check_pace(arrived: float, seconds: float) -> None:
    if not arrived:
        raise SourceError(f"the download stalled for {seconds:.0f} s")
    if arrived < SLOWEST * seconds:
        raise SourceError(f"the download is too slow: {arrived:,.0f} bytes in {seconds:.0f} s")


def _size_of(folder: Path) -> int:
    """Bytes in the folder's files, which may come and go meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total
