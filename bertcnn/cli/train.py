"""`bertcnn train`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bertcnn.cli.console import command_line, print_message, summary
from bertcnn.cli.options import (
    DeviceFlags,
    Force,
    Label,
    MultiLabel,
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
from bertcnn.cli.startup import start_training
from bertcnn.errors import SettingsError
from bertcnn.wording import duration

if TYPE_CHECKING:
    from bertcnn.workflows import TrainingReport


@dataclass(frozen=True, kw_only=True)
class RowFlags:
    """The rows to learn from: `TrainingOptions`."""

    text: Text = None
    label: Label = None
    valid: Valid = None
    unlabelled: Annotated[
        Path | None, option("File of unlabelled texts; few-shot learns from them too.")
    ] = None
    out_of_scope: Annotated[
        str | None,
        option(
            "Label of rows that belong to none of the others, or a file of such texts.",
            default="found by name: spam, oos; no: none",
        ),
    ] = None
    min_rows: Annotated[
        int,
        option(
            "Merge labels with fewer rows: A > B > C into A > B, others into 'other'.",
            default="none are merged",
        ),
    ] = 0
    multi_label: MultiLabel = "auto"
    levels: Annotated[
        str,
        option(
            "Separator of a label's levels, whose parents may be answered: ' > '. no: labels as"
            " they are.",
            default="' > ' in a tree of labels",
        ),
    ] = "auto"
    overwrite: Force = False


@dataclass(frozen=True, kw_only=True)
class ClassifierFlags:
    """The model, and how it is trained."""

    encoder: Annotated[
        str | None,
        option("Published encoder (`bertcnn encoder list`) or a folder.", default="minilm-l6"),
    ] = None
    recipe: Annotated[
        str | None,
        option(
            "full: train everything. frozen: the head only. few-shot: for few rows a label."
            " auto: choose.",
            default="auto",
        ),
    ] = None
    settings: Annotated[
        Path | None, option("File that `bertcnn tune` wrote; other options win.")
    ] = None
    auto_precision: Annotated[
        str,
        option("How often automatic answers have to be right; also by label: 0.95,billing=0.99"),
    ] = "0.95"
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class SettingFlags:
    """Changes of `TrainingSettings`."""

    pair: Annotated[
        str | None,
        option(
            "Two text columns, A,B, as BERT's two segments, instead of one joined text.", "--pair"
        ),
    ] = None
    epochs: Annotated[
        int | None,
        option(
            "Passes over the rows, at most; ignored if auto selects frozen.", default="by recipe"
        ),
    ] = None
    learning_rate: Annotated[float | None, option("Peak learning rate.", default="by recipe")] = (
        None
    )
    batch_size: Annotated[int | None, option("Rows of a batch.", default="by recipe")] = None
    class_weight: Annotated[
        str | None,
        option(
            "none, sqrt or balanced: rare labels count more.",
            default="sqrt; none for several a row",
        ),
    ] = None
    time_budget: Annotated[
        float | None,
        option(
            "Minutes: auto measures this machine and keeps within them, using fewer rows"
            " where necessary.",
            default="15, estimated for the device",
        ),
    ] = None
    refit: Annotated[
        bool | None,
        option(
            "Finally train once more on all rows, in twice the time; not with --valid.",
            "--refit/--no-refit",
            default="few-shot only",
        ),
    ] = None
    folds: Annotated[
        int | None,
        option(
            "Train this many more times, each without a part of the rows, so that all rows set"
            " the thresholds; 0: none.",
            default="2 to 5, where few rows are held out",
        ),
    ] = None


@grouped
def train(
    data: Annotated[
        Path, argument("Labelled file: .csv .tsv .jsonl .json (each also .gz) .parquet .xlsx")
    ],
    out: OutFolder,
    rows: RowFlags,
    model: ClassifierFlags,
    settings: SettingFlags,
    devices: DeviceFlags,
    as_json: Summary = False,
) -> None:
    """Train a classifier on a labelled file."""
    from bertcnn.bundle import check_bundle_target
    from bertcnn.cli.progress import show_progress
    from bertcnn.settings import PrecisionTargets
    from bertcnn.tables import check_input
    from bertcnn.workflows import TrainingOptions, read_tuned

    PrecisionTargets.of(model.auto_precision)
    options = TrainingOptions(**vars(rows), command=command_line(*sys.argv[1:]))
    tuned = None if model.settings is None else read_tuned(model.settings, model.recipe)
    check_bundle_target(out, rows.overwrite)
    for path in (data, rows.valid, rows.unlabelled):
        if path is not None:
            check_input(path)
    changes = given(settings, precision=devices.precision)
    if settings.pair is not None:
        options = replace(options, text=_pair_columns(settings.pair, rows.text))
        changes["pair"] = True
    output_folder = start_training(out, devices)
    from bertcnn.classifier import BertCNNClassifier
    from bertcnn.workflows import train_csv

    with show_progress() as progress:
        classifier = BertCNNClassifier(
            model.encoder or (tuned.encoder if tuned else "minilm-l6"),
            recipe=tuned.recipe if tuned else model.recipe or "auto",  # type: ignore[arg-type]
            seed=model.seed,
            training={**(tuned.training if tuned else {}), **changes},
            auto_precision=model.auto_precision,
            head=tuned.head if tuned else None,
            progress=progress,
        )
        with resumes(output_folder):
            report = train_csv(data, output_folder, classifier, options)
    if as_json:
        summary(report)
    show_saved(out, report)
    show_next(out, report.metrics, command_line("score", out, "INBOX.csv", "SCORED.csv"))


def _pair_columns(pair: str, text: str | None) -> str:
    """The text columns of `--pair`; raises SettingsError unless there are two."""
    if text is None and len(pair.split(",")) == 2:
        return pair
    raise SettingsError(
        f"--pair {pair}" + ("" if text is None else f" --text {text}"),
        expected="two columns, and no --text",
        fix="give for example --pair subject,body",
    )


def show_next(out: Path, metrics: Mapping[str, object], command: str) -> None:
    """Print the limits of automatic answers, the next command, and a warning if it is useless."""
    from bertcnn.evaluation import saved_limits, saved_warning

    if limits := saved_limits(metrics):
        print_message(f"{limits.describe()}.")
    print_message(f"Report: {out / 'report.html'}. Next: {command}")
    if warning := saved_warning(metrics):
        print_message(f"WARNING: {warning}")


def show_saved(out: Path, report: TrainingReport) -> None:
    """Print the model's folder and quality."""
    figures = report.metrics
    print_message(
        f"Saved {out} (model {report.bundle_id[:12]}) after {duration(report.seconds)}: on"
        f" {figures['rows']:,} validation rows accuracy {figures['accuracy']:.1%}, macro-F1"
        f" {figures['macro_f1']:.3f}."
    )
