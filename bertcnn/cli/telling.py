"""Sentences for people, on standard error, so that answers on standard output stay clean."""

from __future__ import annotations

import os
import shlex
import sys


def tell(line: str) -> None:
    """Say it, if anybody can hear: a log on a full disk, or one that nobody reads any more, is no reason to lose hours of work."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the process ends


def command_line(*words: object) -> str:
    """A command of ours as it is typed into a shell: what has spaces in it stands in quotes."""
    return shlex.join(["bertcnn", *map(str, words)])


def visible(text: str) -> str:
    """A text that cannot move the terminal's cursor or change its colours: control characters are replaced."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
