"""Precomputed token embeddings of a frozen encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.data import BatchPlan, PackedPlan, places
from bertcnn.inference import Embed, Store
from bertcnn.models import Inputs
from bertcnn.progress import Progress
from bertcnn.storage import reserve

_BYTES = 2  # float16


@dataclass(frozen=True)
class TokenizedRows:
    """Labelled rows as arrays: everything that a training process needs.

    Attributes:
        token_ids: per row, int32 [T].
        labels: int [rows], 0 to C - 1; the rarest one of a multi-label row.
        multi_hot: bool [rows, C], which row has which label, for multi-label rows.
        soft: float32 [rows, C], soft targets; by default the labels.
        weights: float32 [rows], of the rows in the loss; by default 1.
    """

    token_ids: list[np.ndarray]
    labels: np.ndarray
    multi_hot: np.ndarray | None = None
    soft: np.ndarray | None = None
    weights: np.ndarray | None = None

    def of(self, rows: np.ndarray) -> TokenizedRows:
        """Some of the rows."""
        return TokenizedRows(
            [self.token_ids[row] for row in rows],
            self.labels[rows],
            None if self.multi_hot is None else self.multi_hot[rows],
            None if self.soft is None else self.soft[rows],
            None if self.weights is None else self.weights[rows],
        )

    @property
    def row_weights(self) -> np.ndarray:
        """The weight of each row, float32 [rows]."""
        return np.ones(len(self.labels), np.float32) if self.weights is None else self.weights

    def with_rows(self, others: TokenizedRows) -> TokenizedRows:
        """These rows followed by `others`, without soft targets.

        Either both are multi-label or neither is.
        """
        multi_hot = (
            None
            if self.multi_hot is None or others.multi_hot is None
            else np.concatenate([self.multi_hot, others.multi_hot])
        )
        return TokenizedRows(
            [*self.token_ids, *others.token_ids],
            np.concatenate([self.labels, others.labels]),
            multi_hot,
            weights=(
                None
                if self.weights is None and others.weights is None
                else np.concatenate([self.row_weights, others.row_weights])
            ),
        )

    def arrays(self) -> list[np.ndarray]:
        """The rows as a few arrays."""
        return [
            self.labels,
            self.lengths,
            np.concatenate(self.token_ids),
            *(more for more in (self.multi_hot, self.soft, self.weights) if more is not None),
        ]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, int [rows]."""
        return np.fromiter(map(len, self.token_ids), np.int64, len(self.token_ids))


def stored_embed(features: Features, token_ids: Sequence[np.ndarray]) -> Embed:
    """A function that returns stored features as the encoder's output for `token_ids`."""
    positions = {row.tobytes(): position for position, row in enumerate(token_ids)}

    def embed(rows: Sequence[np.ndarray], store: Store) -> None:
        for number, row in enumerate(rows):
            store(np.array([number]), features.row(positions[row.tobytes()])[np.newaxis])

    return embed


class Features:
    """Token embeddings of every row, computed once and kept on disk in half precision.

    The new file at `path` takes 2 bytes x D per token.

    Raises:
        OutputError: there is no disk space for the file.
    """

    def __init__(
        self,
        embed: Embed,
        width: int,
        token_ids: Sequence[np.ndarray],
        path: Path,
        progress: Progress,
    ) -> None:
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        self._width = width
        self._path, self._shape = path.absolute(), (int(self._ends[-1]), width)
        reserve(path, _BYTES * math.prod(self._shape), what="the encoder's features")
        self._values = np.memmap(self._path, np.float16, "r+", shape=self._shape)

        def store(rows: np.ndarray, hidden: np.ndarray) -> None:
            for index, row in enumerate(rows):
                self._values[self._starts[row] : self._ends[row]] = hidden[index, : lengths[row]]
            progress.advance(len(rows))

        embed(token_ids, store)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: the path is kept, not the values."""
        return {name: value for name, value in vars(self).items() if name != "_values"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._values = np.memmap(self._path, np.float16, "r", shape=self._shape)

    def of(self, rows: np.ndarray) -> Features:
        """The features of some rows, int [rows], renumbered from 0."""
        part = copy(self)
        part._starts, part._ends = self._starts[rows], self._ends[rows]
        return part

    def row(self, row: int) -> np.ndarray:
        """The token embeddings of a row, float16 [T, D]."""
        return self._values[self._starts[row] : self._ends[row]]

    def means(self, rows: np.ndarray) -> np.ndarray:
        """The mean token embedding of each row, float32 [rows, D]."""
        means = [self.row(row).mean(axis=0, dtype=np.float32) for row in rows]
        return np.array(means, np.float32).reshape(len(rows), self._width)

    def collate(self, plan: BatchPlan | PackedPlan) -> Inputs:
        """The head's input for a planned batch.

        Filler rows are zeros; an unpacked filler row has one unmasked token.
        """
        if isinstance(plan, PackedPlan):
            return self._lay_out(plan)
        hidden = np.zeros((plan.size, plan.length, self._width), np.float32)
        mask = np.zeros((plan.size, plan.length), np.int32)
        for index, row in enumerate(plan.rows):
            values = self._values[self._starts[row] : self._ends[row]]
            hidden[index, : len(values)] = values
            mask[index, : len(values)] = 1
        mask[len(plan.rows) :, 0] = 1
        return {"sequence_output": hidden, "padding_mask": mask}

    def _lay_out(self, plan: PackedPlan) -> Inputs:
        hidden = np.zeros((len(plan.slots), plan.length, self._width), np.float32)
        document_ids = np.zeros(hidden.shape[:2], np.int32)
        for text, row, number, where in places(plan, self._ends - self._starts):
            hidden[row, where] = self._values[self._starts[text] : self._ends[text]]
            document_ids[row, where] = number
        return {"sequence_output": hidden, "document_ids": document_ids}
