"""`bertcnn recalibrate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bertcnn.cli.console import print_message, summary
from bertcnn.cli.options import (
    AutoPrecision,
    Force,
    Label,
    Model,
    OutFolder,
    Summary,
    Text,
    argument,
    grouped,
    option,
)
from bertcnn.cli.startup import local_model, prepare_engine
from bertcnn.wording import count


@dataclass(frozen=True, kw_only=True)
class RecalibrationFlags:
    """The rows and the required precision, as `recalibrate_csv` names them."""

    text: Text = None
    label: Label = None
    out_of_scope: Annotated[
        str | None,
        option(
            "Label of rows that belong to none of the others, or a file of such texts.",
            default="as in training, or found by name",
        ),
    ] = None
    auto_precision: AutoPrecision = None
    overwrite: Force = False


@grouped
def recalibrate(
    model: Model,
    data: Annotated[Path, argument("Labelled file the model has not learned from.")],
    out: OutFolder,
    flags: RecalibrationFlags,
    as_json: Summary = False,
) -> None:
    """Fit a model's confidence, thresholds and limit of out of scope on new rows.

    Seconds of work: nothing is trained, and the model's answers stay as they are.
    """
    from bertcnn.bundle import check_bundle_target, read_config
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import check_input

    check_input(data)
    folder = local_model(model)
    read_config(folder)
    check_bundle_target(out, flags.overwrite)
    prepare_engine("auto")
    from bertcnn.workflows import recalibrate_csv

    with show_progress() as progress:
        report = recalibrate_csv(folder, data, out, **vars(flags), progress=progress)
    if as_json:
        summary(report)
    strange = f" and {count(report.strange, 'row')} out of scope" if report.strange else ""
    print_message(
        f"Saved {out} (model {report.bundle_id[:12]}), recalibrated on {count(report.rows, 'row')}"
        f"{strange}: temperature {report.temperature[0]:.3f}, now {report.temperature[1]:.3f}."
    )
    print_message(f"On these rows {report.decisions}; {report.scope}.")
