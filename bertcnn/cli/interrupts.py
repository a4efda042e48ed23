"""Exit codes, and reliable handling of Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from bertcnn.cli.console import print_message

WRONG_INPUT = 2
RUN_AGAIN = 75  # the same command resumes; EX_TEMPFAIL of sysexits.h
INTERRUPTED = 130  # the exit code that shells expect after Ctrl-C

_BOTH = 1.0  # seconds; `timeout` and systemd may send SIGTERM twice
# SIGHUP: a terminal was closed; missing on Windows
TERMINATING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_terminated = threading.Event()  # by a signal of TERMINATING


class AlreadyReported(SystemExit):
    """Ctrl-C in a command that has already printed how to resume."""


def interrupted() -> int:
    """The exit code after Ctrl-C or SIGTERM."""
    return RUN_AGAIN if _terminated.is_set() else INTERRUPTED


def handle_termination() -> None:
    """Make SIGTERM and SIGHUP raise like Ctrl-C, unless they are ignored (`nohup`)."""
    for number in TERMINATING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop_now)


def _stop_now(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # a repeated signal must not stop the clean-up
    _terminated.set()
    raise KeyboardInterrupt


def show_interrupted() -> int:
    """Report the stop of a command that cannot resume; returns its exit code."""
    print_message(
        "\nbertcnn: interrupted; nothing was half-written. Run the same command to start again."
    )
    return interrupted()


class Interrupts:
    """Turns Ctrl-C and SIGTERM into a stop at the next progress report; a second one stops at once.

    Python raises `KeyboardInterrupt` at any point. Inside a library's callback, such as a finalizer
    during TensorFlow's tracing, the exception is printed and dropped, and the program continues.
    """

    def __init__(self) -> None:
        self._seen = 0.0  # when the last signal came; 0 for never
        self._before: dict[signal.Signals, Any] = {}

    def start(self) -> None:
        """Handle signals with a default handler; a shell makes `&` jobs ignore Ctrl-C."""
        if threading.current_thread() is not threading.main_thread():
            return
        replaced = (signal.default_int_handler, signal.SIG_DFL, _stop_now)
        for number in (signal.SIGINT, *TERMINATING):
            if signal.getsignal(number) in replaced:
                self._before[number] = signal.signal(number, self._remember)

    def stop(self) -> None:
        """Restore the previous handlers."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C or SIGTERM was received."""
        if self._seen:
            self._seen = 0.0
            raise KeyboardInterrupt

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        now, by_person = time.monotonic(), number == signal.SIGINT
        if not by_person:
            _terminated.set()
        if self._seen and (by_person or now - self._seen > _BOTH):
            raise KeyboardInterrupt
        if not self._seen:
            again = b"; Ctrl-C again stops at once" * by_person
            with suppress(OSError):  # not sys.stderr, which may be in the middle of a write
                os.write(2, b"\nstopping at the next step" + again + b"\n")
        self._seen = self._seen or now
