"""Token embeddings of texts and their means, for any engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bertcnn.progress import Progress, Silent

# called with row indices int [b] and their token embeddings float32 [b, T, D]
Store = Callable[[np.ndarray, np.ndarray], None]
# called with rows of token ids; stores the token embeddings of each
Embed = Callable[[Sequence[np.ndarray], Store], None]


def mean_embeddings(
    embed: Embed, token_ids: Sequence[np.ndarray], width: int, progress: Progress | None = None
) -> np.ndarray:
    """Each row's mean token embedding, float32 [rows, D]; `progress` advances by rows."""
    means, listener = np.empty((len(token_ids), width), np.float32), progress or Silent()

    def store(rows: np.ndarray, hidden: np.ndarray) -> None:
        for index, row in enumerate(rows):
            means[row] = hidden[index, : len(token_ids[row])].mean(axis=0)
        listener.advance(len(rows))

    embed(token_ids, store)
    return means


def token_vectors(embed: Embed, token_ids: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each row's token embeddings, float32 [T, D]."""
    vectors = [np.empty(0, np.float32)] * len(token_ids)

    def store(rows: np.ndarray, hidden: np.ndarray) -> None:
        for row, padded in zip(rows.tolist(), hidden, strict=False):  # without fillers
            vectors[row] = padded[: len(token_ids[row])].copy()  # frees the batch

    embed(token_ids, store)
    return vectors
