"""The training examples of a summariser, and its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.training import Arrays, Features

_LEAST = 1e-6  # probability of a token that can neither be generated nor copied


@dataclass(frozen=True, eq=False)
class SummaryPairs:
    """Texts and summaries as token ids with end tokens, int32 [S] and [T] each.

    Attributes:
        features: the encoder's output for each text.
        target_tokens: T, that summaries are padded to.
    """

    features: Features
    sources: Sequence[np.ndarray]
    targets: Sequence[np.ndarray]
    start_id: int
    pad_id: int
    target_tokens: int

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each text, int [pairs]."""
        return np.array([len(ids) for ids in self.sources])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch; padding and filler rows have weight 0."""
        source_ids = pad(self.sources, plan, self.pad_id).token_ids
        target_ids = np.full((plan.size, self.target_tokens), self.pad_id, np.int32)
        for slot, row in enumerate(plan.rows):
            target_ids[slot, : len(self.targets[row])] = self.targets[row]
        written_ids = np.roll(target_ids, 1, axis=1)
        written_ids[:, 0] = self.start_id
        return (
            {
                "sequence_output": self.features.collate(plan)["sequence_output"],
                "source_ids": source_ids,
                "target_ids": written_ids,
            },
            {
                "target_ids": target_ids,
                "source_ids": source_ids,
                "weights": (target_ids != self.pad_id).astype(np.float32),
            },
        )


def summary_figures(outputs: Mapping[str, Any], targets: Mapping[str, Any]) -> dict[str, Any]:
    """The cross-entropy of the mixture of generated and copied tokens; see `BertSummariser`."""
    ops, true = keras.ops, targets["target_ids"]
    logs = ops.take_along_axis(outputs["vocabulary"], true[..., None], axis=-1)[..., 0]  # [B, T]
    same = ops.equal(targets["source_ids"][:, None, :], true[:, :, None])  # [B, T, S]
    copied = ops.sum(outputs["pointer"] * ops.cast(same, "float32"), axis=-1)
    generated = outputs["generated"]
    likely = generated * ops.exp(logs) + (1.0 - generated) * copied
    return {"loss": -ops.sum(ops.log(likely + _LEAST) * targets["weights"])}
