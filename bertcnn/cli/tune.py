"""`bertcnn tune`, and how `bertcnn train --settings` reads its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertcnn.cli.console import command_line, summary, tell
from bertcnn.cli.interrupts import INTERRUPTED, AlreadyReported
from bertcnn.cli.options import Force, Label, Summary, Text
from bertcnn.cli.startup import load_keras
from bertcnn.errors import SettingsError
from bertcnn.wording import count, duration

if TYPE_CHECKING:
    from bertcnn.settings import HeadSettings
    from bertcnn.workflows.tuned import TunedSettings

_ENCODER = "minilm-l6"


def tune(
    data: Annotated[
        Path,
        typer.Argument(
            help="Labelled file, without the rows kept for testing.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="File for the settings found (.json).", show_default=False)
    ],
    minutes: Annotated[float, typer.Option(help="Time limit.")] = 30.0,
    trials: Annotated[
        int | None, typer.Option(help="Stop after this many trials.", show_default="no limit")
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="Recipe to tune: frozen, full, or auto: choose.")
    ] = "auto",
    text: Text = None,
    label: Label = None,
    valid: Annotated[
        Path | None,
        typer.Option(help="Labelled file of validation rows.", show_default="rows of DATA"),
    ] = None,
    multi_label: Annotated[
        str,
        typer.Option(
            help="no: one label per cell, even with ; or | in it.",
            show_default="rows with several are refused",
        ),
    ] = "auto",
    encoder: Annotated[
        str, typer.Option(help="Published encoder (`bertcnn encoder list`) or a folder.")
    ] = _ENCODER,
    seed: Annotated[int, typer.Option(help="Makes a search with --trials repeat exactly.")] = 0,
    force: Force = False,
    as_json: Summary = False,
) -> None:
    """Search for better training settings within a time limit, by macro-F1 on validation rows.

    `bertcnn train --settings` uses the result.
    The defaults are kept unless other settings are better by more than chance.
    After Ctrl-C or a kill, run the same command again to continue.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.storage.files import check_file_target
    from bertcnn.tables.formats import check_input
    from bertcnn.workflows.study import need_optuna, study_path

    need_optuna()
    for path in (data, valid):
        if path is not None:
            check_input(path)
    check_file_target(out, force or study_path(out).exists(), others=[data, valid])
    load_keras()
    from bertcnn.workflows.search import TuningInterrupted
    from bertcnn.workflows.search import tune as search

    try:
        with show_progress() as progress:
            tuned = search(
                data,
                out,
                text=text,
                label=label,
                valid=valid,
                multi_label=multi_label,
                encoder=encoder,
                recipe=recipe,  # type: ignore[arg-type]
                seed=seed,
                minutes=minutes,
                trials=trials,
                overwrite=force,
                progress=progress,
            )
    except TuningInterrupted as stop:
        _show(stop.tuned, out)
        tell("bertcnn: interrupted; the same command continues from there.")
        raise AlreadyReported(INTERRUPTED) from None
    if as_json:
        summary(tuned.model_dump(mode="json"))
    _show(tuned, out)
    tell(f"Next: {command_line('train', data, '--settings', out, '--out', 'MODEL')}")


def _show(tuned: TunedSettings, out: Path) -> None:
    """Print the result."""
    complete = sum(trial.outcome == "complete" for trial in tuned.trials)
    tell(
        f"Wrote {out}: {count(len(tuned.trials), 'trial')} ({complete} complete) in"
        f" {duration(tuned.seconds)}. {tuned.verdict[0].upper()}{tuned.verdict[1:]}."
    )
    if tuned.head is not None:
        chosen = {
            **tuned.training,
            **{f"head {name}": value for name, value in tuned.head.model_dump().items()},
        }
        settings = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in chosen.items()
        )
        tell(f"Settings: {settings}")


@dataclass(frozen=True)
class TrainingPlan:
    """How to train: by the options, else by the settings file, else by the defaults."""

    encoder: str
    recipe: str
    training: dict[str, Any]
    head: HeadSettings | None


def training_plan(settings: Path | None, encoder: str | None, recipe: str | None) -> TrainingPlan:
    """The plan for `train`.

    Args:
        settings: the file that `tune` wrote, if any.
        encoder: the option's value, if any.
        recipe: the option's value, if any.

    Raises:
        SettingsError: the file is invalid, or is for another recipe than the one given.
    """
    if settings is None:
        return TrainingPlan(encoder or _ENCODER, recipe or "auto", {}, None)
    from bertcnn.workflows.tuned import read_tuned

    tuned = read_tuned(settings)
    if recipe not in (None, "auto", tuned.recipe):
        raise SettingsError(
            f"--recipe {recipe} with settings that were tuned for the recipe {tuned.recipe}",
            expected="settings for the same recipe, since each needs its own learning rates",
            fix=f"leave --recipe out, or run `bertcnn tune` with --recipe {recipe}",
        )
    return TrainingPlan(encoder or tuned.encoder, tuned.recipe, tuned.training, tuned.head)
