"""Runs a command of ours and writes down its exit code, also when nobody waits for it any more.

    python -m bertcnn.review.jobs.command ARGUMENT... <> RECORD

The process that waits for it may be killed. The next one finds in the record that the command has
ended, and does not start it again. It also finds the record locked as long as the command runs: a
lock belongs to an open file, which the command has from the process that took the lock.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_records: list[int] = []  # of this process: one or none


def run_recorded(command: Callable[[], object]) -> None:
    """Run a command; its exit code is then in the file that standard input was."""
    record = os.dup(0)  # programs that the command starts do not get this one
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    _records.append(record)
    code: object = 1
    try:
        command()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        raise
    finally:
        with suppress(OSError):  # as if it were killed at its end
            clear(record)
            os.write(record, f"{code}\n".encode())


def replace_process() -> NoReturn:
    """Start the command of this process again in a new one, which has little memory in use yet.

    The record goes with it.
    """
    sys.stderr.flush()
    for record in _records:
        os.dup2(record, 0)
    os.execv(sys.executable, sys.orig_argv)


def recorded(record: int) -> int | None:
    """The exit code of a command that has ended; None if it was killed or never started."""
    os.lseek(record, 0, os.SEEK_SET)
    text = os.read(record, 16)
    return int(text) if text else None


def clear(record: int) -> None:
    """Forget an exit code."""
    os.lseek(record, 0, os.SEEK_SET)
    os.ftruncate(record, 0)


def main() -> None:
    """Run the command of the command line."""
    sys.argv[0] = "bertcnn"
    run_recorded(lambda: runpy.run_module("bertcnn", run_name="__main__"))


if __name__ == "__main__":
    from bertcnn.review.jobs.command import main  # the module that the command imports too

    main()
