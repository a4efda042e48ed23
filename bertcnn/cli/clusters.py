"""The option `--ray [ADDRESS]`, whose value is optional."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

LOCAL = "local"  # as in `bertcnn.scoring.ray_connection`, which imports Ray

_OPTION = "--ray"
_ADDRESS = re.compile(r"local|auto|[^\s/\\]+:\d+")  # never matches a path or an option

Ray = Annotated[
    str | None,
    typer.Option(
        _OPTION,
        metavar="[ADDRESS]",
        help="Use a Ray cluster: auto or HOST:PORT; without it, start Ray here.",
        show_default=False,
    ),
]


class RayCommand(TyperCommand):
    """A command with the option `--ray [ADDRESS]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's Context
        """Insert the default address if none follows `--ray`."""
        end = args.index("--") if "--" in args else len(args)
        for index in range(end - 1, -1, -1):
            following = args[index + 1] if index + 1 < end else ""
            if args[index] == _OPTION and not _ADDRESS.fullmatch(following):
                args = [*args[:index], f"{_OPTION}={LOCAL}", *args[index + 1 :]]
        return super().parse_args(ctx, args)
