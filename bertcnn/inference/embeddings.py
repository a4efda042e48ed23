"""The mean of each text's token embeddings, whatever computes these."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bertcnn.progress import Progress, Silent

# is given rows int [b] and their token embeddings float32 [b, T, D]
Store = Callable[[np.ndarray, np.ndarray], None]
# is given rows of token ids, and stores the token embeddings of each
Embed = Callable[[Sequence[np.ndarray], Store], None]


def mean_embeddings(
    embed: Embed, token_ids: Sequence[np.ndarray], width: int, progress: Progress | None = None
) -> np.ndarray:
    """Each row's mean token embedding, float32 [rows, D]; `progress` advances by rows."""
    means, listener = np.empty((len(token_ids), width), np.float32), progress or Silent()

    def store(rows: np.ndarray, hidden: np.ndarray) -> None:
        for place, row in enumerate(rows):
            means[row] = hidden[place, : len(token_ids[row])].mean(axis=0)
        listener.advance(len(rows))

    embed(token_ids, store)
    return means
