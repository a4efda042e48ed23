"""`bertcnn tune`: search for better training settings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import command_line, print_message, summary
from bertcnn.cli.interrupts import INTERRUPTED, RUN_AGAIN, AlreadyReported
from bertcnn.cli.memory import memory_limit
from bertcnn.cli.options import Force, Label, Summary, Text, argument, grouped, option
from bertcnn.cli.startup import load_keras
from bertcnn.wording import count, duration

_MOST_TRAININGS = 30  # per process, which then has grown by about 1.4 GB


@dataclass(frozen=True, kw_only=True)
class SearchFlags:
    """The rows and the limits of a search, as `bertcnn.tune` names them."""

    minutes: Annotated[float, option("Time limit.")] = 30.0
    trials: Annotated[int | None, option("Stop after this many trials.", default="no limit")] = None
    recipe: Annotated[str, option("Recipe to tune: frozen, full, or auto: choose.")] = "auto"
    text: Text = None
    label: Label = None
    valid: Annotated[
        Path | None, option("Labelled file of validation rows.", default="rows of DATA")
    ] = None
    multi_label: Annotated[
        str,
        option(
            "no: one label per cell, even with ; or | in it.",
            default="rows with several are refused",
        ),
    ] = "auto"
    encoder: Annotated[str, option("Published encoder (`bertcnn encoder list`) or a folder.")] = (
        "minilm-l6"
    )
    seed: Annotated[int, option("Makes a search with --trials repeat exactly.")] = 0
    overwrite: Force = False


@grouped
def tune(
    data: Annotated[Path, argument("Labelled file, without the rows kept for testing.")],
    out: Annotated[Path, option("File for the settings found (.json).", "--out")],
    flags: SearchFlags,
    as_json: Summary = False,
) -> None:
    """Search for better training settings within a time limit, by macro-F1 on validation rows.

    `bertcnn train --settings` uses the result.
    The defaults are kept unless other settings are better by more than chance.
    After Ctrl-C or a kill, run the same command again to continue.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.review.jobs import replace_process
    from bertcnn.storage import check_file_target, companion
    from bertcnn.tables import check_input

    for path in (data, flags.valid):
        if path is not None:
            check_input(path)
    study = companion(out, ".study")
    check_file_target(out, flags.overwrite or study.exists(), others=[data, flags.valid])
    load_keras()
    from bertcnn.workflows import tune as search

    try:
        with show_progress() as progress:
            tuned = search(
                data, out, **vars(flags), most_trainings=_MOST_TRAININGS, progress=progress
            )
    except KeyboardInterrupt:
        if not study.exists():
            raise
        print_message("bertcnn: interrupted; the same command continues from there.")
        raise AlreadyReported(INTERRUPTED) from None
    if not tuned.finished:  # a new process starts with little memory
        if sys.platform == "win32" or memory_limit() is not None:
            print_message(
                "bertcnn: memory is getting short; the same command continues from there."
            )
            raise typer.Exit(RUN_AGAIN)
        replace_process()
    if as_json:
        summary(tuned.model_dump(mode="json"))
    print_message(
        f"Wrote {out}: {count(len(tuned.trials), 'trial')} in {duration(tuned.seconds)}."
        f" {tuned.verdict[0].upper()}{tuned.verdict[1:]}."
    )
    chosen = tuned.training | (tuned.head.model_dump() if tuned.head else {})
    if chosen:
        short = {name: f"{one:.3g}" for name, one in chosen.items() if isinstance(one, float)}
        shown = ", ".join(f"{name} {one}" for name, one in {**chosen, **short}.items())
        print_message(f"Settings: {shown}")
    print_message(f"Next: {command_line('train', data, '--settings', out, '--out', 'MODEL')}")
