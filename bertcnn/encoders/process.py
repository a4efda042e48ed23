"""Runs downloads in a child process, and ends it if it is too slow."""

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

# bytes per second on average; curl's and git's manuals also call slower transfers too slow
SLOWEST: Final = 1000
PATIENCE: Final = 20.0  # seconds; each such window has to reach that speed

_POLL_SECONDS = 0.1
_LONGEST_REASON = 90  # characters
_MOST_COPIES = 4  # of the expected bytes on the disk at a time; an installer may hold two


@dataclass(frozen=True)
class Watched:
    """How a download process is watched.

    Attributes:
        work: folder for its output and temporary files.
        grows: folder that receives the bytes; may not exist yet.
        total: expected bytes, for the progress bar.
        patience: window in seconds over which the speed is measured.
    """

    work: Path
    grows: Path
    total: int
    patience: float


def run_watched(
    command: Sequence[str], watched: Watched, progress: Progress, *, explain: Callable[[str], str]
) -> str:
    """Run a download process and return its output; progress is the growth of its folder.

    `explain` extracts the error from the output of a failed process.

    Raises:
        SourceError: the process failed, stalled, was too slow, or sent far too many bytes.
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
        if free < missing:  # a full disk has no room for the output either
            raise SourceError(
                f"{missing / 1e6:,.0f} MB more are needed on its disk, which has {free / 1e6:,.0f}"
                " MB left"
            )
        raise SourceError(explain(printed))
    return printed


def reason(output: str, otherwise: str) -> str:
    """The last line that begins with "error", shortened for a message."""
    lines = [line.strip() for line in output.splitlines() if line.lower().startswith("error ")]
    return (lines[-1][len("error ") :] if lines else otherwise)[:_LONGEST_REASON]


def _watch(process: subprocess.Popen[bytes], watched: Watched, progress: Progress) -> None:
    """Wait until a process ends.

    Raises:
        SourceError: it received too few bytes in a window of `patience` seconds, or far too many.
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
        total_size = _size_of(watched.grows)
        if watched.total and total_size > _MOST_COPIES * watched.total:
            raise SourceError(
                f"it sent more than {_MOST_COPIES} times the {watched.total / 1e6:,.0f} MB expected"
            )
        if (size := min(total_size, watched.total)) > seen:
            progress.advance(size - seen)
            arrived, seen = arrived + size - seen, size
        if ended:
            return
        if (left := ends - time.monotonic()) <= 0:
            if left < -watched.patience:  # this process was suspended, for example on a terminal
                arrived = math.inf
            _check_pace(arrived, watched.patience)
            arrived, ends = 0.0, time.monotonic() + watched.patience


def _check_pace(arrived: float, seconds: float) -> None:
    if not arrived:
        raise SourceError(f"the download stalled for {seconds:.0f} s")
    if arrived < SLOWEST * seconds:
        raise SourceError(f"the download is too slow: {arrived:,.0f} bytes in {seconds:.0f} s")


def _size_of(folder: Path) -> int:
    """The total size of a folder's files, which may change meanwhile."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(directory) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total
