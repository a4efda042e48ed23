"""Fine-tunes an encoder to label tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.tasks.token_labels.words import ReadTexts
from bertcnn.training import Arrays

_IGNORED = -1  # tag of tokens that no word begins with


@dataclass(frozen=True)
class LabelledWindows:
    """Windows with a tag for each token, int32 [T]; -1 for tokens that no word begins with."""

    token_ids: Sequence[np.ndarray]
    tags: Sequence[np.ndarray]
    pad_id: int

    @classmethod
    def of(cls, texts: ReadTexts, tags: Sequence[np.ndarray], pad_id: int) -> LabelledWindows:
        """Label the first word piece of each word with its tag, int32 [words] per text."""
        labelled = []
        for window, start in zip(texts.windows, texts.starts.tolist(), strict=True):
            places = texts.first_tokens[window.row] - start
            inside = (places >= 0) & (places < len(window.spans))
            row = np.full(len(window.token_ids), _IGNORED, np.int32)
            row[window.first + places[inside]] = tags[window.row][inside]
            labelled.append(row)
        return cls(texts.token_ids, labelled, pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [windows]."""
        return np.array([len(ids) for ids in self.token_ids])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; only tokens with a tag have weight 1."""
        inputs = pad(self.token_ids, plan, self.pad_id).inputs()
        tags = np.full((plan.size, plan.length), _IGNORED, np.int32)
        for slot, row in enumerate(plan.rows):
            tags[slot, : len(self.tags[row])] = self.tags[row]
        weights = (tags != _IGNORED).astype(np.float32)
        return inputs, {"tags": np.maximum(tags, 0), "weights": weights}


def tag_figures(scores: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """The cross-entropy of the tags; `scores` are float32 [B, T, tags]."""
    ops = keras.ops
    logs = ops.log_softmax(ops.cast(scores, "float32"), axis=-1)
    chosen = ops.take_along_axis(logs, targets["tags"][:, :, None], axis=-1)[:, :, 0]
    return {"loss": -ops.sum(chosen * targets["weights"])}
