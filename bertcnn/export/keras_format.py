"""Exports the Keras model as a `.keras` file; our saved models never contain one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import keras
import numpy as np

from bertcnn.bundle import Bundle
from bertcnn.data import Batch
from bertcnn.export.parity import probabilities_by
from bertcnn.inference import classifier_of

MODEL: Final = "model.keras"


def write(bundle: Bundle, folder: Path) -> None:
    """Save the Keras file in `folder`."""
    classifier_of(bundle).save(folder / MODEL)


def probabilities(folder: Path, bundle: Bundle, texts: Sequence[str]) -> np.ndarray:
    """Probabilities by the Keras file in `folder`, float32 [rows, C]."""
    model = keras.saving.load_model(folder / MODEL, compile=False)

    def run(batch: Batch) -> np.ndarray:
        return model.predict_on_batch(batch.inputs())

    return probabilities_by(run, bundle, texts)
