"""`bertcnn distill`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bertcnn.cli.console import command_line, summary
from bertcnn.cli.options import (
    DeviceFlags,
    Force,
    Label,
    Model,
    OutFolder,
    Seed,
    Summary,
    Text,
    Valid,
    argument,
    given,
    grouped,
    option,
)
from bertcnn.cli.resumable import resumes
from bertcnn.cli.startup import local_model, start_training
from bertcnn.cli.train import show_next, show_saved


@dataclass(frozen=True, kw_only=True)
class StudentFlags:
    """The rows, and the smaller model: `DistillationOptions`."""

    unlabelled: Annotated[
        Path | None,
        option(
            "File of unlabelled texts; the student learns the model's answers to them.", "--texts"
        ),
    ] = None
    layers: Annotated[int, option("Encoder layers of the new model; fewer are faster.")] = 3
    text: Text = None
    label: Label = None
    valid: Valid = None
    min_rows: Annotated[
        int, option("As in the model's training.", default="no labels are merged")
    ] = 0
    seed: Seed = 0
    auto_precision: Annotated[str, option("Share of automatic answers that have to be right.")] = (
        "0.95"
    )
    overwrite: Force = False


@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """Changes of `TrainingSettings`."""

    epochs: Annotated[int | None, option("Passes over the rows, at most.", default="as full")] = (
        None
    )
    time_budget: Annotated[
        float | None, option("End training after this many minutes.", default="none")
    ] = None


@grouped
def distill(
    model: Model,
    data: Annotated[
        Path, argument("Labelled file that the model was trained on, or one with the same labels.")
    ],
    out: OutFolder,
    student: StudentFlags,
    settings: SettingFlags,
    devices: DeviceFlags,
    as_json: Summary = False,
) -> None:
    """Train a smaller, faster model that answers as a saved one does.

    It has fewer encoder layers, and learns from labels and the model's answers.
    Labelled rows are held out for confidence, thresholds and figures.
    After Ctrl-C or a kill, run the same command again to continue.
    """
    from bertcnn.bundle import check_bundle_target, read_config
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import check_input
    from bertcnn.workflows import DistillationOptions

    options = DistillationOptions(
        **vars(student),
        training=given(settings, precision=devices.precision),
        command=command_line(*sys.argv[1:]),
    )
    check_bundle_target(out, options.overwrite)
    for path in (data, student.unlabelled, student.valid):
        if path is not None:
            check_input(path)
    folder = local_model(model)
    read_config(folder)
    output_folder = start_training(out, devices)
    from bertcnn.workflows import distill_csv

    with show_progress() as progress, resumes(output_folder):
        report = distill_csv(folder, data, output_folder, options, progress=progress)
    if as_json:
        summary(report)
    show_saved(out, report)
    show_next(out, report.metrics, command_line("evaluate", out, "CHECKED.csv"))
