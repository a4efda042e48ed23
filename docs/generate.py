"""Writes the reference of commands and of settings, from the commands and the settings themselves.

python docs/generate.py     # or: make reference
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import annotated_types
import typer
from pydantic.fields import FieldInfo

from bertcnn import settings
from bertcnn.cli.main import app
from bertcnn.tables import DateOrder

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- written by `make reference`; do not edit -->"
RECIPES = {"full": settings.FULL, "frozen": settings.FROZEN, "few-shot": settings.FEW_SHOT}
STARTS = {"from scratch": settings.FROM_NOTHING, "continued": settings.CONTINUED}
VALUES: dict[Any, str] = {
    Path: "path",
    str: "text",
    list[str]: "text",
    int: "integer",
    float: "number",
    DateOrder: "text",
}
SIGNS = {
    annotated_types.Ge: {"≥": "ge"},
    annotated_types.Gt: {">": "gt"},
    annotated_types.Le: {"≤": "le"},
    annotated_types.Lt: {"<": "lt"},
}
ONE_DEFAULT = (
    settings.HeadSettings,
    settings.PrecisionTargets,
    settings.TokenizerSettings,
    settings.QuestionSettings,
    settings.QuestionTrainingSettings,
    settings.TranslatorSettings,
    settings.TranslationTrainingSettings,
    settings.PretrainingDataSettings,
)


def main() -> None:
    """Write both pages."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Both pages as they should be now, by file name."""
    return {
        "commands.md": "\n".join(commands_page()) + "\n",
        "settings.md": "\n".join(settings_page()) + "\n",
    }


def commands_page() -> Iterator[str]:
    """The page of commands, line by line."""
    yield from (NOTE, "", "# Commands", "")
    yield from ("Every command accepts `--help`. `bertcnn --version` shows the version.", "")
    yield from ("| exit code | meaning |", "|---|---|")
    yield from (
        "| 0 | done |",
        "| 1 | done, and found something: an alarm, or a change in the tickets |",
        "| 2 | wrong input: one line says what was given, what was expected and what to do |",
        "| 75 | run the same command again, which goes on: SIGTERM, a full disk, another run |",
        "| 130 | interrupted with Ctrl-C; the same command resumes or starts again |",
        "| 141 | nobody reads the output any more, as after `\\| head`; this is no error |",
        "",
    )
    for path, command in _commands(typer.main.get_command(app), "bertcnn"):
        yield from (
            f"## {path}",
            "",
            *_wrapped(_help(command)),
            "",
            "```text",
            _usage(path, command),
            "```",
            "",
        )
        options = [param for param in command.params if param.param_type_name == "option"]
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        if arguments:
            yield from ("| argument | meaning |", "|---|---|")
            yield from (f"| `{_metavar(param)}` | {_cell(param.help)} |" for param in arguments)
            yield ""
        if options:
            yield from ("| option | value | default | meaning |", "|---|---|---|---|")
            yield from (_option(param) for param in options)
            yield ""


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer's own copy of click's Command
    """Each command without subcommands, with its full name."""
    for name, part in getattr(command, "commands", {}).items():
        if hasattr(part, "commands"):
            yield from _commands(part, f"{path} {name}")
        else:
            yield f"{path} {name}", part


def _help(command: Any) -> str:  # noqa: ANN401
    return re.sub(r"\s+", " ", str(command.help or "").replace("\n\n", " ")).strip()


def _wrapped(text: str, width: int = 100) -> Iterator[str]:
    """`text` in lines of at most `width` characters."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def _usage(path: str, command: Any) -> str:  # noqa: ANN401
    required, names = [], []
    for param in command.params:
        if param.param_type_name == "argument":
            names.append(_metavar(param) if param.required else f"[{_metavar(param)}]")
        elif param.required:
            required.append(f"{param.opts[0]} {param.opts[0].lstrip('-').upper()}")
    return " ".join([path, *names, *required, "[OPTIONS]"])


def _metavar(param: Any) -> str:  # noqa: ANN401
    name = str(param.metavar or param.name).strip("[]{}.").upper()
    return f"{name} ..." if param.nargs == -1 and not name.endswith("...") else name


def _option(param: Any) -> str:  # noqa: ANN401
    names = " ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    value = "" if param.is_flag else VALUES[param.type_descriptor.annotation]
    return f"| {names} | {value} | {_cell(_default(param))} | {_cell(param.help)} |"


def _default(param: Any) -> str:  # noqa: ANN401
    if param.required:
        return "required"
    if isinstance(param.show_default, str):
        return param.show_default.strip("()")
    if param.is_flag:
        return "yes" if param.default else ""
    return "" if param.default is None else str(param.default)


def _cell(text: object) -> str:
    """Text inside a table's cell."""
    return str(text or "").replace("|", "\\|").replace("\n", " ")


def settings_page() -> Iterator[str]:
    """The page of settings, line by line."""
    yield from (NOTE, "", "# Settings", "")
    yield from (
        ("Every setting is validated and saved with the model. Unknown names are refused."),
        "",
    )
    yield from ("## Training a classifier", "")
    yield from ('Change one by name: `BertCNNClassifier(training={"epochs": 3})`.', "")
    yield from _table(settings.TrainingSettings, RECIPES)
    yield from ("## Pretraining an encoder", "")
    yield from ("`bertcnn pretrain` has options for the most common ones.", "")
    yield from _table(settings.PretrainingSettings, STARTS)
    for group in ONE_DEFAULT:
        yield from (f"## `{group.__name__}`", "", *_wrapped(str(group.__doc__)), "")
        yield from _table(group, {"default": None})
    yield from (
        f"## `{settings.EncoderSettings.__name__}`",
        "",
        *_wrapped(str(settings.EncoderSettings.__doc__).splitlines()[0]),
        "",
    )
    yield from _table(settings.EncoderSettings, {"default": None})


def _table(group: type[settings.Settings], defaults: dict[str, Any]) -> Iterator[str]:
    """One row per setting: its name, values, defaults and meaning."""
    yield f"| setting | values | {' | '.join(defaults)} | meaning |"
    yield "|---|---|" + "---|" * len(defaults) + "---|"
    for name, field in group.model_fields.items():
        shown = [
            _value(field.get_default() if chosen is None else getattr(chosen, name), field)
            for chosen in defaults.values()
        ]
        yield (
            f"| `{name}` | {_cell(_values(field))} | {' | '.join(shown)} |"
            f" {_cell(field.description)} |"
        )
    yield ""


def _value(value: object, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value) if value != {} else "none"


def _values(field: FieldInfo) -> str:
    """The values that a setting takes."""
    annotation = field.annotation
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    limits = list(field.metadata)
    while typing.get_origin(annotation) is typing.Annotated:
        annotation, *more = typing.get_args(annotation)
        limits += [part for one in more for part in getattr(one, "metadata", [one])]
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(map(str, typing.get_args(annotation)))
    if annotation is bool:
        return "yes or no"
    if typing.get_origin(annotation) is tuple:
        return "integers, 1 or more each"
    if typing.get_origin(annotation) is dict:
        return "a share for each label"
    kind = "integer" if annotation is int else "number"
    return " ".join([kind, *_limits(limits)])


def _limits(limits: list[Any]) -> Iterator[str]:
    for limit in limits:
        for sign, name in SIGNS.get(type(limit), {}).items():
            yield f"{sign} {getattr(limit, name):g}"


if __name__ == "__main__":
    main()
