"""What is typed on the command line.

Texts that begin with a dash, and mistakes, which are shown safely.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from bertcnn.wording import visible


class Commands(TyperGroup):
    """The commands; what is said of a wrong option or value quotes it with control characters replaced."""

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's Context, typer's own copy of it
        """Read the options before the command."""
        with _visible_mistakes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Read the command's options, and run it."""
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
    """A command whose arguments are texts: "- my router is dead" is one, and no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's Context, typer's own copy of it
        """Let unknown options pass for texts if all of them have a space, as no option has.

        See click's own.
        """
        known = {
            name for param in self.params for name in (*param.opts, *param.secondary_opts)
        } | set(ctx.help_option_names)
        before = args[: args.index("--")] if "--" in args else args
        unknown = [
            word
            for word in before
            if len(word) > 1 and word.startswith("-") and word.partition("=")[0] not in known
        ]
        ctx.ignore_unknown_options = all(" " in word for word in unknown)
        return super().parse_args(ctx, args)
