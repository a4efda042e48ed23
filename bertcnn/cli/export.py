"""`bertcnn export`: write a saved model in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import tell
from bertcnn.cli.options import Model
from bertcnn.cli.startup import load_keras

_NEXT = {
    "openvino": "the example in {folder}/README.md runs it with OpenVINO alone.",
    "savedmodel": (
        "the example in {folder}/README.md runs it with TensorFlow, or serves it with TensorFlow"
        " Serving."
    ),
    "onnx": "the example in {folder}/README.md runs it with ONNX Runtime.",
    "keras": "the example in {folder}/README.md opens it in Keras.",
}


def export(
    model: Model,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help=(
                "openvino: for CPUs, int8 if the model has it. savedmodel: TensorFlow, takes raw"
                " texts. Or onnx or keras."
            ),
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the export.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing export.")] = False,
) -> None:
    """Export a model to another format, and check that its answers stay the same."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.export.export import check_export, export_model

    check_export(model, form, out, force)
    load_keras()
    with show_progress() as progress:
        report = export_model(model, form, out, overwrite=force, progress=progress)  # type: ignore[arg-type]
    tell(
        f"Exported {out} ({form}, {report.record.precision}, model {report.record.bundle_id[:12]})."
    )
    tell(f"Compared with the model: {report.record.parity.in_words()}.")
    tell(f"Next: {_NEXT[form].format(folder=out)}")
