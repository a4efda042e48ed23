"""Printing for people and for programs; control characters of untrusted texts are replaced."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertcnn.errors import OutputError
from bertcnn.wording import visible

CLOSED_PIPE = 141  # the exit code that a shell reports after SIGPIPE


class Stream(io.TextIOWrapper):
    """Standard output or standard error without tracebacks for failed writes.

    If the reader has closed the pipe, the command exits with code 141. Other write errors of
    standard output are reported; those of standard error are ignored, so that a log cannot cost
    hours of work.
    """

    def __init__(self, descriptor: int, like: Any, *, is_output: bool) -> None:  # noqa: ANN401 - a text stream or None
        raw = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(
            io.BufferedWriter(raw),
            encoding=like and like.encoding,
            # a character that the terminal cannot show must not stop the command
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
        os.dup2(nowhere, self.fileno())  # discards the buffers
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
    """Replace standard output and error by a `Stream`, and closed streams by the null device."""
    if sys.stdin is None:
        # open until the process ends
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    for name in ("stdout", "stderr"):
        before = getattr(sys, name)
        if before is not getattr(sys, f"__{name}__"):  # captured, for example by pytest
            continue
        descriptor = os.open(os.devnull, os.O_WRONLY) if before is None else before.fileno()
        setattr(sys, name, Stream(descriptor, before, is_output=name == "stdout"))


_spoken_for = False  # another process reports


def mute() -> None:
    """Print only errors from here on, because another process of the same training reports."""
    global _spoken_for
    _spoken_for = True


def is_muted() -> bool:
    """Whether `mute` was called."""
    return _spoken_for


def print_message(line: str, *, error: bool = False) -> None:
    """Print a line on standard error, apart from the results; `error` ignores `mute`.

    Control characters are replaced, except line breaks at its start.
    """
    if _spoken_for and not error:
        return
    line = line[: len(line) - len(line.lstrip("\n"))] + visible(line.lstrip("\n"))
    print(line, file=sys.stderr, flush=True)


def print_result(line: str) -> None:
    """Print a line on what a command has done; as a job, its page shows the line."""
    print_message(f"Done: {line}")


def command_line(*words: object) -> str:
    """A bertcnn command line, quoted for a shell."""
    return shlex.join(["bertcnn", *map(str, words)])


def show(line: str) -> None:
    """Print a line for people on standard output, with control characters replaced."""
    print(visible(line), flush=True)


def answer(*cells: str) -> None:
    """Print tab-separated cells; control characters are replaced only on a terminal."""
    print("\t".join(map(visible, cells) if sys.stdout.isatty() else cells), flush=True)


def check_json(json_file: Path | None, overwrite: bool, *others: Path | None) -> Path | None:
    """The file of `--json`, if given; raises OutputError if it cannot be written."""
    from bertcnn.storage import check_file_target

    return json_file and check_file_target(json_file, overwrite, others=others, option="--json")


def show_figures(
    lines: Iterable[str], figures: Mapping[str, Any], json_file: Path | None, overwrite: bool
) -> None:
    """Print the figures of an evaluation; write them to a file too if one is given."""
    from bertcnn.storage import as_json, write_whole

    for line in lines:
        show(line)
    if json_file is not None:
        write_whole(json_file, as_json(figures), overwrite=overwrite)


def summary(figures: Any) -> None:  # noqa: ANN401 - a dataclass, or a mapping
    """Print one line of JSON on standard output."""
    fields = figures if isinstance(figures, Mapping) else asdict(figures)
    if not _spoken_for:
        print(json.dumps(fields, default=str), flush=True)
