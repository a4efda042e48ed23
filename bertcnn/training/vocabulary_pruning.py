"""Vocabulary pruning: train only the embeddings of tokens that occur."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.models import Bert, assign, extract

_TOKENS = "embeddings/tokens"


def on_used_pieces(
    encoder: Bert,
    token_ids: Sequence[np.ndarray],
    attention_dropout: float,
    *,
    dropout: float | None = None,
    packed: bool = False,
    policy: str = "float32",
) -> tuple[Bert, np.ndarray]:
    """A copy of the encoder for training, with embeddings only for tokens that occur.

    An unused token embedding gets no gradient and no decay, so removing it changes only the time:
    of 30,522 rows some thousands occur, and AdamW would read and write all the others in every
    step. `policy` is the dtype policy; `dropout` defaults to the encoder's own.

    Returns:
        The smaller encoder, and the original ids of its tokens, ascending, int [pieces].
    """
    used = np.unique(np.concatenate([*token_ids, [0]]))
    own = encoder.settings
    changes = {
        "vocabulary_size": len(used),
        "attention_dropout": attention_dropout,
        "dropout": own.dropout if dropout is None else dropout,
    }
    shape = own.model_copy(update=changes)
    small = Bert(shape, packed=packed, seed=encoder.seed, name="bert", dtype=policy)
    values = extract(encoder.weights)
    assign(small.weights, {**values, _TOKENS: values[_TOKENS][used]}, error=TrainingError)
    return small, used


def renumbered(token_ids: Sequence[np.ndarray], used: np.ndarray) -> list[np.ndarray]:
    """Token ids, per row int32 [T], in the numbering of the smaller encoder."""
    return [np.searchsorted(used, ids).astype(np.int32) for ids in token_ids]


def put_back(encoder: Bert, small: Bert, used: np.ndarray) -> None:
    """Copy the weights of `small` into `encoder`; tokens that did not occur stay unchanged."""
    trained, tokens = extract(small.weights), extract(encoder.weights)[_TOKENS]
    tokens[used] = trained[_TOKENS]
    assign(encoder.weights, {**trained, _TOKENS: tokens}, error=TrainingError)
