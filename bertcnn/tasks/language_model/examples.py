"""Texts as rows of tokens, each token to be predicted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.training import Arrays


@dataclass(frozen=True)
class NextTokens:
    """Rows of tokens, int32 [T] each, to be predicted from those before them.

    Attributes:
        first: int32 [rows], the token before each row: the start token, or the text's last token.
        new: int [rows], number of last tokens in each row that no earlier row has.
    """

    rows: list[np.ndarray]
    first: np.ndarray
    new: np.ndarray
    pad_id: int

    @classmethod
    def of(
        cls, texts: Sequence[np.ndarray], context: int, *, start_id: int, pad_id: int
    ) -> NextTokens:
        """Cut texts into rows of at most `context` tokens.

        A long text is read in windows that overlap by half, so that every token but the first ones
        is predicted from at least half a window; it counts in one window only.
        """
        rows, first, new = [], [], []
        for ids in texts:
            read = 0
            while read < len(ids):
                begin = max(0, read - context // 2)
                rows.append(ids[begin : begin + context])
                first.append(ids[begin - 1] if begin else start_id)
                new.append(begin + len(rows[-1]) - read)
                read += new[-1]
        return cls(rows, np.array(first, np.int32), np.array(new, np.int64), pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [rows]."""
        return np.array([len(ids) for ids in self.rows], np.int64)

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; padding, filler rows and repeated tokens have weight 0."""
        target = pad(self.rows, plan, self.pad_id).token_ids
        first, old = np.full(plan.size, self.pad_id, np.int32), np.zeros(plan.size, np.int64)
        first[: len(plan.rows)] = self.first[plan.rows]
        old[: len(plan.rows)] = (self.lengths - self.new)[plan.rows]
        counts = (np.arange(plan.length) >= old[:, None]) & (target != self.pad_id)
        return (
            {"token_ids": np.concatenate([first[:, None], target[:, :-1]], axis=1)},
            {"target_ids": target, "weights": counts.astype(np.float32)},
        )
