"""Exports the compiled engine's graph as OpenVINO IR, in int8 or float32."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bertcnn.bundle import Bundle, SavedEngine
from bertcnn.data import Batch
from bertcnn.errors import OutputError, one_line
from bertcnn.export.parity import probabilities_by
from bertcnn.inference import engine_graph, one_text_a_row, ov
from bertcnn.storage import MORE_ROOM, write_new

MODEL: Final = "model.xml"


def write(bundle: Bundle, engine: SavedEngine | None, folder: Path) -> None:
    """Save graph and constants in `folder`.

    Raises:
        BundleError: the engine was changed after saving, or is not of this network.
        OutputError: the temporary folder is full.
    """
    description, constants = _serialized(one_text_a_row(engine_graph(engine, bundle)))
    write_new(folder / MODEL, description)
    write_new((folder / MODEL).with_suffix(".bin"), constants)


def probabilities(folder: Path, bundle: Bundle, texts: Sequence[str]) -> np.ndarray:
    """Probabilities by the model in `folder`, float32 [rows, C]."""
    model = ov.Core().compile_model(folder / MODEL, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(batch: Batch) -> np.ndarray:
        return model({"token_ids": batch.token_ids, "padding_mask": batch.padding_mask})["logits"]

    return probabilities_by(run, bundle, texts)


def _serialized(graph: ov.Model) -> tuple[bytes, bytes]:
    """The graph's XML and constants; float32 constants stay float32.

    Raises:
        OutputError: the temporary folder is full.
    """
    with tempfile.TemporaryDirectory(prefix="bertcnn-export-") as folder:
        path = Path(folder) / "model.xml"
        try:
            ov.save_model(graph, path, compress_to_fp16=False)
        except RuntimeError as error:  # OpenVINO raises it for a full disk
            raise OutputError(
                f"the model cannot be written to {folder} ({one_line(str(error))})",
                expected="room for it there, some 100 MB, for a while",
                fix=MORE_ROOM,
            ) from error
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()
