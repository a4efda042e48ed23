"""Encoded pairs of texts as training examples, with teacher forcing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.training import Arrays


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as token ids with end tokens, int32 [S] and [T] each."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    start_id: int
    pad_id: int

    @property
    def lengths(self) -> np.ndarray:
        """The longer of both sides, int [pairs]."""
        return np.maximum([len(ids) for ids in self.sources], [len(ids) for ids in self.targets])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch.

        Target inputs are shifted right after [CLS]. Padding and filler rows have weight 0.
        """
        source, target = (
            pad(ids, plan, self.pad_id).token_ids for ids in (self.sources, self.targets)
        )
        decoder_inputs = np.concatenate(
            [np.full((plan.size, 1), self.start_id, np.int32), target], axis=1
        )
        weights = (target != self.pad_id).astype(np.float32)
        return (
            {"source_ids": source, "target_ids": decoder_inputs[:, :-1]},
            {"target_ids": target, "weights": weights},
        )
