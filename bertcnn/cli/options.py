"""Arguments and options that several commands share, alone or in frozen groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


def option(text: str, *names: str, default: str | bool = True, **more: Any) -> Any:  # noqa: ANN401 - typer's
    """An option with the help `text`; `default` says in words what happens without it."""
    return typer.Option(*names, help=text, show_default=default, **more)


def argument(text: str, *, default: str | bool = True, **more: Any) -> Any:  # noqa: ANN401
    """An argument with the help `text`, as for `option`."""
    return typer.Argument(help=text, show_default=default, **more)


Model = Annotated[str, argument("Folder or URL of a trained model.")]
AnyModel = Annotated[str, argument("Folder or URL of a model of any kind.", metavar="MODEL")]
TaskModel = Annotated[str, argument("Folder or URL of a model.", metavar="MODEL")]
Texts = Annotated[
    list[str] | None,
    argument("Texts; by default the lines of standard input.", metavar="[TEXT]..."),
]
Text = Annotated[
    str | None, option("Text column, or several separated by commas.", "--text", default="guessed")
]
Label = Annotated[str | None, option("Label column.", default="guessed")]
Engine = Annotated[
    str, option("openvino or onnx: compiled. keras: reference.", default="the fastest one")
]
AutoPrecision = Annotated[
    str | None,
    option(
        "Share of automatic answers that have to be right, as for train.", default="as in training"
    ),
]
Force = Annotated[bool, option("Overwrite existing output.", "--force")]
Source = Annotated[
    Path, argument("File of texts: .csv .tsv .jsonl .json (.gz) .parquet .xlsx", metavar="IN")
]
Target = Annotated[Path, argument("File to write; its extension gives the format.", metavar="OUT")]
Raw = Annotated[
    bool, option("Do not escape cells that a spreadsheet would run as a formula.", "--raw")
]
Restart = Annotated[bool, option("Discard the progress of an interrupted run.", "--restart")]
AllowRejects = Annotated[
    bool,
    option(
        "Write OUT even if most rows are unreadable; these go to OUT.rejects.csv.",
        "--allow-rejects",
    ),
]
Precision = Annotated[
    str | None,
    option(
        "Precision of computing in training: float32 or bfloat16; weights are float32.",
        default="bfloat16 on a GPU, else float32",
    ),
]
MultiLabel = Annotated[
    str,
    option(
        "Separator of several labels in a cell, such as ','. no: one label per cell.",
        default="; | or lists",
    ),
]


JsonFile = Annotated[Path | None, option("Also write the figures to this file.", "--json")]
Encoder = Annotated[str, option("Published encoder to start from, or a folder.")]
Seed = Annotated[int, option("Makes a run repeat exactly.")]
OutFolder = Annotated[Path, option("Folder to save the model in.", "--out")]
Summary = Annotated[
    bool, option("Print the figures on standard output, as one JSON object.", "--json")
]
Devices = Annotated[int | None, option("GPUs to train on, of each process.", default="all")]
Distributed = Annotated[
    bool,
    option(
        "Train together with the processes that SLURM, Kubernetes or JAX's variables name.",
        "--distributed",
    ),
]
Valid = Annotated[
    Path | None,
    option(
        "Labelled file that chooses epoch and thresholds.",
        default="a tenth of DATA, 10,000 at most",
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
