"""Sentences for people.

On a terminal, in a pipe and in a log alike, no text of a file or of a model can act on the terminal
that shows them.
"""

from __future__ import annotations

import os
import shlex
import sys

from bertcnn.wording import visible


def tell(line: str) -> None:
    """Print a line on standard error, where it cannot get among the answers on standard output.

    If nobody can read it, nothing happens: a log on a full disk, or a closed one, is no reason to
    lose hours of work.

    Args:
        line: what to print; line breaks at its start stay, any other control characters are
            replaced.
    """
    line = line[: len(line) - len(line.lstrip("\n"))] + visible(line.lstrip("\n"))
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the process ends


def command_line(*words: object) -> str:
    """A command of ours as it is typed into a shell: what has spaces in it stands in quotes."""
    return shlex.join(["bertcnn", *map(str, words)])


def show(line: str) -> None:
    """Print a line for people on standard output, with control characters replaced."""
    print(visible(line), flush=True)


def answer(*cells: str) -> None:
    """Print cells with tabs between on standard output.

    As they are for a program, with control characters replaced on a terminal.
    """
    print("\t".join(map(visible, cells) if sys.stdout.isatty() else cells), flush=True)
