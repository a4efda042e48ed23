"""Printing for people and for programs.

Text that comes from a file or a model cannot send control sequences to the terminal, even when a
log is shown later.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bertcnn.wording import visible


def tell(line: str) -> None:
    """Print a line on standard error, which keeps it apart from the answers on standard output.

    An unwritable log, on a full disk or closed, is ignored: it must not cost hours of work.

    Args:
        line: what to print. Line breaks at its start are kept; other control characters are
            replaced.
    """
    line = line[: len(line) - len(line.lstrip("\n"))] + visible(line.lstrip("\n"))
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        # left open until the process ends
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


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
    print(json.dumps(found, default=str), flush=True)
