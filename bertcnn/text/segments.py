"""Which tokens belong to BERT's second segment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def segments_of(token_ids: Sequence[np.ndarray]) -> np.ndarray:
    """Segments of all tokens of all texts, 0 for A and 1 for B, int32 [tokens].

    `token_ids` are int [T] per text, which ends with [SEP]. A [SEP] before that ends segment A
    (Devlin et al. 2019, section 3), so a text without one is all A.

    Example:
        >>> segments_of([np.array([2, 7, 3, 8, 9, 3]), np.array([2, 7, 3])]).tolist()
        [0, 0, 0, 1, 1, 1, 0, 0, 0]
    """
    lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
    ids = np.concatenate([np.empty(0, np.int32), *token_ids])
    ends = np.cumsum(lengths)[lengths > 0]
    separators = ids == np.repeat(ids[ends - 1], lengths[lengths > 0])
    before = np.cumsum(separators) - separators  # [SEP] tokens before each token
    first = np.repeat(before[ends - lengths[lengths > 0]], lengths[lengths > 0])
    return (before > first).astype(np.int32)
