"""The Keras model that answers questions, as the reference of the compiled one."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np

from bertcnn.data.batches import plan_scoring

_TOKEN_BUDGET = 4096  # of a batch


class KerasSpans:
    """The Keras model itself as a `SpansModel`: the reference."""

    name = "keras"

    def __init__(self, model: keras.Model, pad_id: int) -> None:
        self._model, self._pad_id = keras.Model(model.input, model.output), pad_id
        self._model.compile(jit_compile=False)

    def run(
        self, token_ids: Sequence[np.ndarray], segment_ids: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Scores float32 [T, 2] of each window, in order; ids are int32 [T]."""
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        found: list[np.ndarray] = [np.empty((0, 2), np.float32)] * len(token_ids)
        for plan in plan_scoring(lengths, _TOKEN_BUDGET) if len(lengths) else ():
            shape = (len(plan.rows), plan.length)
            tokens = np.full(shape, self._pad_id, np.int32)
            segments, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
            for slot, row in enumerate(plan.rows):
                tokens[slot, : lengths[row]] = token_ids[row]
                segments[slot, : lengths[row]] = segment_ids[row]
                mask[slot, : lengths[row]] = 1
            scores = self._model.predict_on_batch(
                {"token_ids": tokens, "segment_ids": segments, "padding_mask": mask}
            )
            for slot, row in enumerate(plan.rows):
                found[row] = scores[slot, : lengths[row]]
        return found
