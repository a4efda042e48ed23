"""A child process that downloads, watched, and ended when it stalls."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertcnn.encoders.layout import SourceError
from bertcnn.encoders.pace import Pace
from bertcnn.progress import Progress

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
        patience: seconds within which it has to keep its pace; see `Pace`.
    """

    work: Path
    grows: Path
    total: int
    patience: float


def run_watched(
    command: Sequence[str], watched: Watched, progress: Progress, *, explain: Callable[[str], str]
) -> None:
    """Let a process download; the growth of its folder is the progress.

    Args:
        command: what to run.
        watched: where it works.
        progress: hears of the bytes.
        explain: makes the reason out of what a process that failed has printed.

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
    if process.returncode:
        missing, free = (
            watched.total - min(_size_of(watched.grows), watched.total),
            shutil.disk_usage(watched.work).free,
        )
        if free < missing:  # on a full disk there is no room for the reason either
            raise SourceError(
                f"{missing / 1e6:,.0f} MB more are needed on its disk, which has {free / 1e6:,.0f}"
                " MB left"
            )
        raise SourceError(
            explain((watched.work / "output").read_text(encoding="utf-8", errors="replace"))
        )


def shortened(reason: str) -> str:
    """A reason short enough to be one of several in a message."""
    return reason[:_LONGEST_REASON]


def _watch(process: subprocess.Popen[bytes], watched: Watched, progress: Progress) -> None:
    seen = min(_size_of(watched.grows), watched.total)
    pace = Pace(watched.patience)
    progress.advance(seen)
    while True:
        try:
            process.wait(_POLL_SECONDS)
            return
        except subprocess.TimeoutExpired:
            found = _size_of(watched.grows)
        if watched.total and found > _MOST_COPIES * watched.total:
            raise SourceError(
                f"it sent more than {_MOST_COPIES} times the {watched.total / 1e6:,.0f} MB expected"
            )
        size = min(found, watched.total)
        if size > seen:
            progress.advance(size - seen)
            pace.count(size - seen)
            seen = size
        pace.left()


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
