"""Exports the compiled engine's graph as OpenVINO IR, in int8 or float32."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bertcnn.bundle.bundle import Bundle
from bertcnn.bundle.engine import SavedEngine
from bertcnn.data.batches import Batch
from bertcnn.export.parity import probabilities_by
from bertcnn.inference.openvino_engine import read_graph
from bertcnn.inference.openvino_graph import classifier_graph, one_text_a_row, serialized
from bertcnn.inference.runtime import ov
from bertcnn.storage.files import write_new

MODEL: Final = "model.xml"


def write(bundle: Bundle, engine: SavedEngine | None, folder: Path) -> None:
    """Save graph and constants in `folder`.

    Raises:
        BundleError: the engine was changed after saving, or is unreadable.
        OutputError: the temporary folder is full.
    """
    graph = (
        classifier_graph(bundle.tensors, bundle.config.encoder, bundle.config.head)
        if engine is None
        else read_graph(engine)
    )
    description, constants = serialized(one_text_a_row(graph))
    write_new(folder / MODEL, description)
    write_new((folder / MODEL).with_suffix(".bin"), constants)


def probabilities(folder: Path, bundle: Bundle, texts: Sequence[str]) -> np.ndarray:
    """Probabilities by the model in `folder`, float32 [rows, C]."""
    model = ov.Core().compile_model(folder / MODEL, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(batch: Batch) -> np.ndarray:
        return model({"token_ids": batch.token_ids, "padding_mask": batch.padding_mask})["logits"]

    return probabilities_by(run, bundle, texts)
