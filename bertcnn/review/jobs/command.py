"""Runs a bertcnn command and records its exit code, even if its parent is gone.

    python -m bertcnn.review.jobs.command ARGUMENT... <> RECORD

The parent may be killed. The next one reads from the record that the command has ended, and does
not rerun it. The record stays locked while the command runs, because the command inherits the
locked open file.
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
    """Run a command; write its exit code to the record opened as standard input."""
    record = os.dup(0)  # not inherited by programs that the command starts
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
    """Restart this process's command in a new process with fresh memory; it keeps the record."""
    sys.stderr.flush()
    for record in _records:
        os.dup2(record, 0)
    os.execv(sys.executable, sys.orig_argv)


def recorded(record: int) -> int | None:
    """The exit code of an ended command; None if it was killed or never started."""
    os.lseek(record, 0, os.SEEK_SET)
    text = os.read(record, 16)
    return int(text) if text else None


def clear(record: int) -> None:
    """Clear a recorded exit code."""
    os.lseek(record, 0, os.SEEK_SET)
    os.ftruncate(record, 0)


def main() -> None:
    """Run the command of the command line."""
    sys.argv[0] = "bertcnn"
    run_recorded(lambda: runpy.run_module("bertcnn", run_name="__main__"))


if __name__ == "__main__":
    from bertcnn.review.jobs.command import main  # the same module object that the command imports

    main()
