"""Exports the classifier as one ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from bertcnn.bundle import Bundle
from bertcnn.data import Batch
from bertcnn.export.parity import probabilities_by
from bertcnn.inference import classifier_onnx, ov

MODEL: Final = "model.onnx"


def write(bundle: Bundle, folder: Path) -> None:
    """Save the ONNX file in `folder`."""
    onnx.save_model(
        classifier_onnx(bundle.tensors, bundle.config.encoder, bundle.config.head),
        str(folder / MODEL),
    )


def probabilities(folder: Path, bundle: Bundle, texts: Sequence[str]) -> np.ndarray:
    """Probabilities by the ONNX file in `folder`, float32 [rows, C].

    OpenVINO reads it, so ONNX Runtime is not needed.
    """
    model = ov.Core().compile_model(folder / MODEL, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(batch: Batch) -> np.ndarray:
        inputs = {
            "token_ids": batch.token_ids.astype(np.int64),
            "padding_mask": batch.padding_mask.astype(np.int64),
        }
        return model(inputs)["logits"]

    return probabilities_by(run, bundle, texts)
