"""The figures that `bertcnn evaluate` prints."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from bertcnn.cli.screen import Screen
from bertcnn.evaluation import Evaluation
from bertcnn.wording import count, visible

_LARGEST_MATRIX = 8


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
            Text(visible(label.name)),
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
            Text(visible(pair.actual)),
            Text(visible(pair.predicted)),
            f"{pair.count:,}",
            f"{pair.share:.1%}",
        )
    return table


def _matrix(figures: Evaluation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("true label, predicted:", overflow="fold")
    for label in figures.labels:
        table.add_column(Text(visible(label.name)), justify="right", overflow="fold")
    for label, counts in zip(figures.labels, figures.confusion, strict=True):
        table.add_row(Text(visible(label.name)), *(f"{count:,}" for count in counts))
    return table
