"""Arguments and options that commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Model = Annotated[Path, typer.Argument(help="Folder of a trained model.", show_default=False)]
Text = Annotated[
    str | None,
    typer.Option(
        "--text", help="Text column, or several separated by commas.", show_default="guessed"
    ),
]
Label = Annotated[str | None, typer.Option("--label", help="Label column.", show_default="guessed")]
Engine = Annotated[
    str,
    typer.Option(
        "--engine", help="openvino: compiled, fast. keras: reference.", show_default="openvino"
    ),
]
AutoPrecision = Annotated[
    str | None,
    typer.Option(
        "--auto-precision",
        help="Share of automatic answers that have to be right, as for train.",
        show_default="as in training",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]
MultiLabel = Annotated[
    str,
    typer.Option(
        help="Separator of several labels in a cell, such as ','. no: one label per cell.",
        show_default="; | or lists",
    ),
]


def given(**options: object) -> dict[str, Any]:
    """The options that were given, by name; the others are None."""
    return {name: value for name, value in options.items() if value is not None}
