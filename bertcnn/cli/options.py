"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Model = Annotated[str, typer.Argument(help="Folder or URL of a trained model.", show_default=False)]
AnyModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Folder or URL of a model of any kind.", show_default=False
    ),
]
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
        "--engine",
        help="openvino or onnx: compiled. keras: reference.",
        show_default="the fastest one",
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
Source = Annotated[
    Path,
    typer.Argument(
        metavar="IN",
        help="File of texts: .csv .tsv .jsonl .json (.gz) .parquet .xlsx",
        show_default=False,
    ),
]
Target = Annotated[
    Path,
    typer.Argument(
        metavar="OUT", help="File to write; its extension gives the format.", show_default=False
    ),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Do not escape cells that a spreadsheet would run as a formula."),
]
Restart = Annotated[
    bool, typer.Option("--restart", help="Discard the progress of an interrupted run.")
]
AllowRejects = Annotated[
    bool,
    typer.Option(
        "--allow-rejects",
        help="Write OUT even if most rows are unreadable; these go to OUT.rejects.csv.",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        help="Precision of computing in training: float32 or bfloat16; weights are float32.",
        show_default="bfloat16 on a GPU, else float32",
    ),
]
MultiLabel = Annotated[
    str,
    typer.Option(
        help="Separator of several labels in a cell, such as ','. no: one label per cell.",
        show_default="; | or lists",
    ),
]


def given(**options: object) -> dict[str, Any]:
    """The options that are not None, by name."""
    return {name: value for name, value in options.items() if value is not None}


Summary = Annotated[
    bool,
    typer.Option("--json", help="Print the figures on standard output, as one JSON object."),
]
