"""Ctrl-C that cannot get lost."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

INTERRUPTED = 130  # what a shell expects after Ctrl-C


class Told(SystemExit):
    """Ctrl-C in a command that has said itself how to go on."""


class Interrupts:
    """Turns Ctrl-C into a stop at the next sign of progress; pressed again, it stops at once.

    Python would raise `KeyboardInterrupt` wherever it happens to be. If that is in a callback of a
    library, such as a finalizer while TensorFlow traces, the exception is printed and dropped, and
    the program goes on.
    """

    def __init__(self) -> None:
        self._seen = False
        self._before: Any = None

    def start(self) -> None:
        """Begin to watch, where Ctrl-C means what it usually means."""
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._remember)

    def stop(self) -> None:
        """Leave Ctrl-C as it was."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def check(self) -> None:
        """Stop, if somebody wants to.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C.
        """
        if self._seen:
            self._seen = False
            raise KeyboardInterrupt

    def _remember(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of signal handlers
        if self._seen:
            raise KeyboardInterrupt
        self._seen = True
        with suppress(OSError):  # not through sys.stderr, which may be in the middle of a write
            os.write(2, b"\nstopping at the next step; Ctrl-C again stops at once\n")
