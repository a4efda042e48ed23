"""`bertcnn evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
from bertcnn.cli.startup import local_model, prepare_engine
from bertcnn.errors import OutputError
from bertcnn.storage import as_json, write_whole


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
    from bertcnn.cli.evaluation import show_evaluation
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
