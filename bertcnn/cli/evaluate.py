"""`bertcnn evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich import box
from rich.table import Table
from rich.text import Text as Cell

from bertcnn.cli.console import check_json, print_message
from bertcnn.cli.options import (
    Engine,
    Force,
    JsonFile,
    Label,
    Model,
    Text,
    argument,
    grouped,
    option,
)
from bertcnn.cli.screen import Screen
from bertcnn.cli.startup import local_model, prepare_engine
from bertcnn.errors import OutputError
from bertcnn.storage import as_json, write_whole
from bertcnn.wording import count, visible

if TYPE_CHECKING:
    from bertcnn.evaluation import Evaluation

_LARGEST_MATRIX = 8


@dataclass(frozen=True, kw_only=True)
class EvaluationFlags:
    """The rows, the engine and the report, as `evaluate_csv` names them."""

    text: Text = None
    label: Label = None
    engine: Engine = "auto"
    report: Annotated[
        Path | None,
        option("Also write a report with examples: a folder, or an .html file.", "--report"),
    ] = None
    overwrite: Force = False


@grouped
def evaluate(
    model: Model,
    data: Annotated[Path, argument("Labelled file the model has not learned from.")],
    flags: EvaluationFlags,
    json_file: JsonFile = None,
) -> None:
    """Compare a model's answers with the labels of a file."""
    from bertcnn.bundle import read_config
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import check_input

    check_input(data)
    folder = local_model(model)
    read_config(folder)
    json_target = check_json(json_file, flags.overwrite, data)
    prepare_engine(flags.engine)
    page = None
    if flags.report is not None:
        from bertcnn.reports import report_path

        page = report_path(flags.report, model=folder, data=data, overwrite=flags.overwrite)
        if json_target is not None and page.resolve() == json_target.resolve():
            raise OutputError(
                f"{page} for --report and for --json",
                expected="two different files",
                fix="choose another name for one",
            )
    from bertcnn.workflows import evaluate_csv

    with show_progress() as progress:
        figures = evaluate_csv(folder, data, **vars(flags), progress=progress)
    if json_target is not None:  # before printing: the reader of a pipe may close it
        write_whole(json_target, as_json(figures.to_json()), overwrite=flags.overwrite)
    show_evaluation(figures)
    if json_file is not None:
        print_message(f"Figures written to {json_file}")
    if page is not None:
        print_message(f"Report written to {page}; it quotes texts of {data}")


def show_evaluation(figures: Evaluation) -> None:
    """Print the figures on standard output, at most 80 columns wide in a pipe."""
    console = Screen()
    rows = count(figures.rows, "row")
    console.print(
        f"{rows}: accuracy {figures.accuracy:.4f}, macro-F1 {figures.macro_f1:.4f}, weighted F1"
        f" {figures.weighted_f1:.4f}"
    )
    no_information = figures.no_information
    if no_information is not None and no_information.knows_nothing:
        console.print(no_information.sentence("model"), style="bold")
    if figures.out_of_scope is not None:
        console.print(f"{figures.out_of_scope.describe()}.")
    if figures.several_labels:
        console.print("A row is right if exactly its labels are predicted.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("label", overflow="fold")
    for name in ("precision", "recall", "F1", "rows"):
        table.add_column(name, justify="right", no_wrap=True)
    for label in figures.labels:
        table.add_row(
            Cell(visible(label.name)),
            f"{label.precision:.3f}",
            f"{label.recall:.3f}",
            f"{label.f1:.3f}",
            f"{label.support:,}",
        )
    console.print(table)
    if len(figures.labels) <= _LARGEST_MATRIX and not figures.several_labels:
        console.print(_matrix(figures))
    if figures.most_confused:
        console.print(
            "Most confused, the missed label and the wrong one:"
            if figures.several_labels
            else "Most confused:"
        )
        console.print(_confused(figures))


def _confused(figures: Evaluation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("label", overflow="fold")
    table.add_column("predicted", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("of label", justify="right", no_wrap=True)
    for pair in figures.most_confused:
        table.add_row(
            Cell(visible(pair.actual)),
            Cell(visible(pair.predicted)),
            f"{pair.count:,}",
            f"{pair.share:.1%}",
        )
    return table


def _matrix(figures: Evaluation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("true label, predicted:", overflow="fold")
    for label in figures.labels:
        table.add_column(Cell(visible(label.name)), justify="right", overflow="fold")
    for label, counts in zip(figures.labels, figures.confusion, strict=True):
        table.add_row(Cell(visible(label.name)), *(f"{count:,}" for count in counts))
    return table
