"""`bertcnn export`: write a saved model in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bertcnn.cli.console import print_message
from bertcnn.cli.options import Model, option
from bertcnn.cli.startup import load_keras, local_model

_NEXT = {
    "openvino": "the example in {folder}/README.md runs it with OpenVINO alone.",
    "savedmodel": (
        "the example in {folder}/README.md runs it with TensorFlow, or serves it with TensorFlow"
        " Serving."
    ),
    "onnx": "the example in {folder}/README.md runs it with ONNX Runtime.",
    "mlflow": "the example in {folder}/README.md loads it with MLflow.",
    "keras": "the example in {folder}/README.md opens it in Keras.",
}


def export(
    model: Model,
    form: Annotated[
        str,
        option(
            "openvino: for CPUs, int8 if the model has it. savedmodel: TensorFlow, takes raw"
            " texts. Or onnx, keras or mlflow.",
            "--format",
        ),
    ],
    out: Annotated[Path, option("Folder for the export.", "--out")],
    version: Annotated[
        int | None,
        option(
            "Write OUT/VERSION, for TensorFlow Serving (savedmodel) or Triton (openvino, onnx)."
        ),
    ] = None,
    force: Annotated[bool, option("Overwrite an existing export.", "--force")] = False,
) -> None:
    """Export a model to another format, and check that its answers stay the same."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.export import check_export, export_model

    folder = local_model(model)
    check_export(folder, form, out, force, version)
    load_keras("tensorflow" if form == "savedmodel" else None)
    with show_progress() as progress:
        report = export_model(
            folder,
            form,  # type: ignore[arg-type]
            out,
            version=version,
            overwrite=force,
            progress=progress,
        )
    print_message(
        f"Exported {report.folder} ({form}, {report.record.precision}, model"
        f" {report.record.bundle_id[:12]})."
    )
    print_message(f"Compared with the model: {report.record.parity.describe()}.")
    print_message(f"Next: {_NEXT[form].format(folder=report.folder)}")
