"""The Keras reference for compiled models that score tokens."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np

from bertcnn.data import pad, plan_scoring
from bertcnn.tasks.training import TOKEN_BUDGET


class KerasSpans:
    """The Keras model as a `SpansModel`."""

    name = "keras"

    def __init__(self, model: keras.Model, pad_id: int) -> None:
        self._model, self._pad_id = keras.Model(model.input, model.output), pad_id
        self._model.compile(jit_compile=False)

    def run(self, token_ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores float32 [T, scores] of each window, in order; ids are int32 [T]."""
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        outputs: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(token_ids)
        for plan in plan_scoring(lengths, TOKEN_BUDGET):
            inputs = pad(token_ids, plan, self._pad_id).inputs()
            scores = self._model.predict_on_batch(inputs)
            for row, row_scores in zip(plan.rows, scores, strict=True):
                outputs[row] = row_scores[: lengths[row]]
        return outputs
