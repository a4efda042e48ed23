"""Exit codes, and handling of Ctrl-C and SIGTERM that no library can swallow."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

WRONG_INPUT = 2
RUN_AGAIN = 75  # the same command goes on; EX_TEMPFAIL of sysexits.h
INTERRUPTED = 130  # what a shell expects after Ctrl-C

_terminated = threading.Event()  # by SIGTERM


class AlreadyReported(SystemExit):
    """Ctrl-C in a command that has already printed how to resume."""


def interrupted() -> int:
    """The exit code of a command that was stopped, by a person or by SIGTERM."""
    return RUN_AGAIN if _terminated.is_set() else INTERRUPTED


class Interrupts:
    """Turns Ctrl-C and SIGTERM into a stop at the next report of progress; a second stops at once.

    By default Python raises `KeyboardInterrupt` at any point. Inside a library's callback, such as
    a finalizer while TensorFlow traces, the exception is printed and dropped, and the program
    continues.
    """

    def __init__(self) -> None:
        self._seen = False
        self._before: dict[signal.Signals, Any] = {}

    def start(self) -> None:
        """Install the handler, unless something else handles Ctrl-C already."""
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)

    def stop(self) -> None:
        """Restore the previous handlers."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def check(self) -> None:
        """Stop if Ctrl-C was pressed, or SIGTERM came.

        Raises:
            KeyboardInterrupt: it was.
        """
        if self._seen:
            self._seen = False
            raise KeyboardInterrupt

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            _terminated.set()
        if self._seen:
            raise KeyboardInterrupt
        self._seen = True
        with suppress(OSError):  # not through sys.stderr, which may be in the middle of a write
            os.write(2, b"\nstopping at the next step; Ctrl-C again stops at once\n")
