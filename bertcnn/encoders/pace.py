"""How fast a download has to be: one that drips is given up like one that is silent."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from bertcnn.encoders.layout import SourceError

# bytes a second on average, below which curl's and git's manuals call a transfer too slow as well
SLOWEST: Final = 1000

Piece = TypeVar("Piece")

_WAITING = 16  # pieces that have arrived and are not written yet
_END = object()


class SlowError(SourceError):
    """A source that answers too slowly."""


class Pace:
    """Watches the bytes of a download, window after window of so many seconds.

    Args:
        seconds: the length of a window.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._arrived = 0.0
        self._ends = time.monotonic() + seconds

    def count(self, arrived: int) -> None:
        """So many bytes more have arrived."""
        self._arrived += arrived

    def left(self) -> float:
        """The seconds that are left of the window.

        Raises:
            SlowError: it has ended, and too few bytes have arrived in it.
        """
        left = self._ends - time.monotonic()
        if left > 0:
            return left
        # we were held up ourselves, by a terminal that was stopped for example
        if left < -self._seconds:
            self._arrived = math.inf
        if not self._arrived:
            raise SlowError(f"the download stalled for {self._seconds:.0f} s")
        if self._arrived < SLOWEST * self._seconds:
            raise SlowError(
                f"the download is too slow: {self._arrived:,.0f} bytes in {self._seconds:.0f} s"
            )
        self._arrived, self._ends = 0.0, time.monotonic() + self._seconds
        return self._seconds


def in_pace(
    fetch: Callable[[], Iterator[Piece]], pace: Pace, size: Callable[[Piece], int]
) -> Iterator[Piece]:
    """What `fetch` gives, while it comes fast enough.

    It runs in a thread of its own: a server can send one byte at a time, also of its headers, and
    so keep a library from ever giving up.

    Args:
        fetch: gives the pieces of a download.
        pace: what it has to keep to.
        size: the bytes of a piece.

    Raises:
        SlowError: the pieces come too slowly.
        Exception: whatever `fetch` raises.
    """
    arrived: queue.Queue[Any] = queue.Queue(_WAITING)
    unwanted = threading.Event()

    def run() -> None:
        try:
            for piece in fetch():
                arrived.put(piece)
                if unwanted.is_set():
                    return
            arrived.put(_END)
        except Exception as error:  # noqa: BLE001 - raised again below, in the caller's thread
            arrived.put(error)

    threading.Thread(target=run, name="bertcnn downloads", daemon=True).start()
    try:
        while True:
            try:
                found = arrived.get(timeout=pace.left())
            except queue.Empty:
                continue
            if found is _END:
                return
            if isinstance(found, Exception):
                raise found
            pace.count(size(found))
            yield found
    finally:
        unwanted.set()
        # room for what the thread is about to put there, after which it ends
        with suppress(queue.Empty):
            while True:
                arrived.get_nowait()
