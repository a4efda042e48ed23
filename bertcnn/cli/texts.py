"""Command-line parsing: texts that begin with a dash, and safe error messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from bertcnn.cli.console import print_message
from bertcnn.errors import TableError
from bertcnn.tables import LONGEST_LINE, undecodable
from bertcnn.wording import visible


def given_texts(texts: Sequence[str] | None) -> Iterator[str]:
    """The texts of a command line; without any, the lines of standard input as they arrive.

    Lines end with LF or CR LF. Texts are read as UTF-8, regardless of the locale.

    Raises:
        TableError: a line of standard input never ends.
    """
    if texts is not None:
        for text in texts:
            yield os.fsencode(text).decode("utf-8", "replace") if undecodable(text) else text
        return
    if sys.stdin.isatty():
        print_message("Type one text per line; end with Ctrl-D.")
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")  # type: ignore[union-attr]
    while line := sys.stdin.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise TableError(
                f"a line of more than {LONGEST_LINE:,} characters on standard input",
                expected="one text in each line",
                fix="write line breaks between the texts",
            )
        yield line.rstrip("\r\n")


class Commands(TyperGroup):
    """A group of commands; error messages have their control characters replaced."""

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - typer's own Context
        """Parse the options before the command."""
        with _visible_mistakes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Parse the command's options and run it."""
        with _visible_mistakes():
            return super().invoke(ctx)


@contextmanager
def _visible_mistakes() -> Iterator[None]:
    try:
        yield
    except TyperException as mistake:
        mistake.message = visible(mistake.message)
        raise


class TextsCommand(TyperCommand):
    """A command whose arguments are texts, so that "- my router is dead" is not an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's Context
        """Treat unknown options as texts if each contains a space, since no option does."""
        option_names = {
            name for param in self.params for name in (*param.opts, *param.secondary_opts)
        } | set(ctx.help_option_names)
        before = args[: args.index("--")] if "--" in args else args
        unknown = [
            word
            for word in before
            if len(word) > 1 and word.startswith("-") and word.partition("=")[0] not in option_names
        ]
        ctx.ignore_unknown_options = all(" " in word for word in unknown)
        return super().parse_args(ctx, args)
