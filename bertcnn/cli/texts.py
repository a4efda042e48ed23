"""Texts on the command line, which may begin with a dash."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class TextsCommand(TyperCommand):
    """A command whose arguments are texts: "- my router is dead" is one, and no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's Context, typer's own copy of it
        """Let unknown options pass for texts if all of them have a space, as no option has; see click's own."""
        known = {name for param in self.params for name in (*param.opts, *param.secondary_opts)} | set(ctx.help_option_names)
        before = args[: args.index("--")] if "--" in args else args
        unknown = [word for word in before if len(word) > 1 and word.startswith("-") and word.partition("=")[0] not in known]
        ctx.ignore_unknown_options = all(" " in word for word in unknown)
        return super().parse_args(ctx, args)
