"""Ctrl-C handling that no library can swallow."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

INTERRUPTED = 130  # what a shell expects after Ctrl-C


class AlreadyReported(SystemExit):
    """Ctrl-C in a command that has already printed how to resume."""


class Interrupts:
    """Turns Ctrl-C into a stop at the next report of progress; a second Ctrl-C stops at once.

    By default Python raises `KeyboardInterrupt` at any point. Inside a library's callback, such as
    a finalizer while TensorFlow traces, the exception is printed and dropped, and the program
    continues.
    """

    def __init__(self) -> None:
        self._seen = False
        self._before: Any = None

    def start(self) -> None:
        """Install the handler, unless something else handles Ctrl-C already."""
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._remember)

    def stop(self) -> None:
        """Restore the previous handler."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def check(self) -> None:
        """Stop if Ctrl-C was pressed.

        Raises:
            KeyboardInterrupt: it was.
        """
        if self._seen:
            self._seen = False
            raise KeyboardInterrupt

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        if self._seen:
            raise KeyboardInterrupt
        self._seen = True
        with suppress(OSError):  # not through sys.stderr, which may be in the middle of a write
            os.write(2, b"\nstopping at the next step; Ctrl-C again stops at once\n")
