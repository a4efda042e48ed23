"""Exit codes, and handling of Ctrl-C and SIGTERM that no library can swallow."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from bertcnn.cli.console import tell

WRONG_INPUT = 2
RUN_AGAIN = 75  # the same command goes on; EX_TEMPFAIL of sysexits.h
INTERRUPTED = 130  # what a shell expects after Ctrl-C

_BOTH = 1.0  # seconds; `timeout` and systemd may send the same SIGTERM twice
# a closed terminal sends SIGHUP, which Windows does not have
TERMINATING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_terminated = threading.Event()  # by one of these


class AlreadyReported(SystemExit):
    """Ctrl-C in a command that has already printed how to resume."""


def interrupted() -> int:
    """The exit code of a command that was stopped, by a person or by SIGTERM."""
    return RUN_AGAIN if _terminated.is_set() else INTERRUPTED


def handle_termination() -> None:
    """Let SIGTERM and SIGHUP stop a command like Ctrl-C, unless they are ignored (`nohup`)."""
    for number in TERMINATING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop_now)


def _stop_now(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # the same one again must not stop the cleaning up
    _terminated.set()
    raise KeyboardInterrupt


def tell_interrupted() -> int:
    """Report a stop in a command that keeps nothing; returns its exit code."""
    tell("\nbertcnn: interrupted; nothing was half-written. Run the same command to start again.")
    return interrupted()


class Interrupts:
    """Turns Ctrl-C and SIGTERM into a stop at the next report of progress; a second stops at once.

    By default Python raises `KeyboardInterrupt` at any point. Inside a library's callback, such as
    a finalizer while TensorFlow traces, the exception is printed and dropped, and the program
    continues.
    """

    def __init__(self) -> None:
        self._seen = 0.0  # when; 0 for never
        self._before: dict[signal.Signals, Any] = {}

    def start(self) -> None:
        """Install the handler for each signal that nothing else handles and nobody ignores.

        A shell script ignores Ctrl-C in what it starts with `&`.
        """
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
        """Stop if Ctrl-C was pressed, or SIGTERM came.

        Raises:
            KeyboardInterrupt: it was.
        """
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
            with suppress(OSError):  # not through sys.stderr, which may be in the middle of a write
                os.write(2, b"\nstopping at the next step" + again + b"\n")
        self._seen = self._seen or now
