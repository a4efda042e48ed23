"""Arguments and options that several commands share, alone or in frozen groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Model = Annotated[str, typer.Argument(help="Folder or URL of a trained model.", show_default=False)]
AnyModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Folder or URL of a model of any kind.", show_default=False
    ),
]
TaskModel = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder or URL of a model.", show_default=False)
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TEXT]...", help="Texts; by default the lines of standard input."),
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


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Also write the figures to this file.", show_default=False),
]
Encoder = Annotated[str, typer.Option(help="Published encoder to start from, or a folder.")]
Seed = Annotated[int, typer.Option(help="Makes a run repeat exactly.")]
OutFolder = Annotated[
    Path, typer.Option("--out", help="Folder to save the model in.", show_default=False)
]
Summary = Annotated[
    bool,
    typer.Option("--json", help="Print the figures on standard output, as one JSON object."),
]
Devices = Annotated[
    int | None,
    typer.Option("--devices", help="GPUs to train on, of each process.", show_default="all"),
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="Train together with the processes that SLURM, Kubernetes or JAX's variables name.",
    ),
]
Valid = Annotated[
    Path | None,
    typer.Option(
        help="Labelled file that chooses epoch and thresholds.",
        show_default="a tenth of DATA, 10,000 at most",
    ),
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer whose frozen dataclasses are groups of options.

    Each field of such a parameter's class is an option of the command, and the command gets the
    instance. Fields are named as the public function names them, which takes `**vars(instance)`.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def parsed(**values: Any) -> None:  # noqa: ANN401 - what the user typed
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    options = [
        option
        for name, parameter in signature.parameters.items()
        for option in (_options(groups[name]) if name in groups else [parameter])
    ]
    parsed.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    )
    return parsed


def _options(group: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def given(options: object = None, **more: object) -> dict[str, Any]:
    """The options of a group, and others, that are not None, by name."""
    options = {} if options is None else vars(options)
    return {name: value for name, value in {**options, **more}.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class FileFlags:
    """How a file is read, and its answers are written: `FileOptions`."""

    text: Text = None
    raw: Raw = False
    overwrite: Force = False
    restart: Restart = False
    allow_rejects: AllowRejects = False


@dataclass(frozen=True, kw_only=True)
class DeviceFlags:
    """The devices of a training, and how they compute."""

    precision: Precision = None
    devices: Devices = None
    distributed: Distributed = False
