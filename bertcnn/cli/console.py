"""Printing for people and for programs.

Text that comes from a file or a model cannot send control sequences to the terminal, even when a
log is shown later.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bertcnn.errors import OutputError
from bertcnn.wording import visible

CLOSED_PIPE = 141  # the code that a shell reports for a program ended by a closed pipe


class Stream(io.TextIOWrapper):
    """Standard output or standard error; a failed write does not end in a traceback.

    Output that nobody reads any more ends the command with exit code 141, and output that cannot be
    written is an error. An unwritable standard error is ignored: a log must not cost hours of work.
    """

    def __init__(self, descriptor: int, like: Any, *, is_output: bool) -> None:  # noqa: ANN401 - a text stream or None
        raw = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(
            io.BufferedWriter(raw),
            encoding=like and like.encoding,
            # do not stop at a character that the terminal or pipe cannot show
            errors="replace" if is_output else "backslashreplace",
            line_buffering=not is_output or raw.isatty(),
        )
        self._is_output = is_output

    def write(self, text: str) -> int:
        """Write as usual."""
        try:
            return super().write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """Flush as usual."""
        try:
            super().flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())  # takes what is still in the buffers
        os.close(nowhere)
        if not self._is_output:
            return
        if error.errno == errno.EPIPE:
            raise SystemExit(CLOSED_PIPE)
        raise OutputError(
            f"standard output cannot be written ({error.strerror}), so answers are lost",
            expected="a terminal, a pipe, or a file on a disk with free space",
            fix="make room on the disk, then run the same command again",
        ) from None


def guard_streams() -> None:
    """Replace standard output and error by a `Stream` each, and a closed one by the null device."""
    if sys.stdin is None:
        # left open until the process ends
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        if before is not getattr(sys, f"__{name}__"):  # somebody captures it
            continue
        descriptor = os.open(os.devnull, os.O_WRONLY) if before is None else before.fileno()
        setattr(sys, name, Stream(descriptor, before, is_output=name == "stdout"))


_spoken_for = False  # another process reports


def mute() -> None:
    """Print nothing more but errors, since another process of the same training reports."""
    global _spoken_for
    _spoken_for = True


def is_muted() -> bool:
    """Whether `mute` was called."""
    return _spoken_for


def tell(line: str, *, error: bool = False) -> None:
    """Print a line on standard error, which keeps it apart from the answers on standard output.

    Args:
        line: what to print. Line breaks at its start are kept; other control characters are
            replaced.
        error: whether it is printed in any case.
    """
    if _spoken_for and not error:
        return
    line = line[: len(line) - len(line.lstrip("\n"))] + visible(line.lstrip("\n"))
    print(line, file=sys.stderr, flush=True)


def command_line(*words: object) -> str:
    """A bertcnn command as it is typed into a shell, with quotes where they are needed."""
    return shlex.join(["bertcnn", *map(str, words)])


def show(line: str) -> None:
    """Print a line for people on standard output, with control characters replaced."""
    print(visible(line), flush=True)


def answer(*cells: str) -> None:
    """Print cells on standard output, separated by tabs.

    Control characters are replaced on a terminal only; a program gets the cells unchanged.
    """
    print("\t".join(map(visible, cells) if sys.stdout.isatty() else cells), flush=True)


def summary(figures: Any) -> None:  # noqa: ANN401 - a dataclass, or a mapping
    """Print figures for programs: one JSON object in a line on standard output."""
    found = figures if isinstance(figures, Mapping) else asdict(figures)
    if not _spoken_for:
        print(json.dumps(found, default=str), flush=True)
