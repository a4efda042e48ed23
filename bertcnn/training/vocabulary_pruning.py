"""Training only the pieces that occur, not a table of which most is never looked up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.models.bert import Bert
from bertcnn.models.weights import assign, extract

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
    """The same encoder as it is trained: with token embeddings only for the pieces that occur.

    A token embedding that no row uses gets no gradient and no decay, so leaving it out of the
    network changes nothing but the time: of a table of 30,522 rows some thousands occur, and AdamW
    would read and write all the others in every step.

    Args:
        encoder: to be trained.
        token_ids: of all texts that it will read, each int [T].
        attention_dropout: share of attention probabilities dropped in training.
        dropout: share of hidden values dropped; the encoder's own by default.
        packed: whether a row holds several texts.
        policy: of dtypes, of what the layers compute in.

    Returns:
        The smaller encoder, and the ids of its pieces in the large one, ascending, int [pieces].
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
    """Token ids, per row int32 [T], as the smaller encoder counts its pieces."""
    return [np.searchsorted(used, ids).astype(np.int32) for ids in token_ids]


def put_back(encoder: Bert, small: Bert, used: np.ndarray) -> None:
    """Give `encoder` what `small` has learned; pieces that did not occur stay as they are."""
    trained, tokens = extract(small.weights), extract(encoder.weights)[_TOKENS]
    tokens[used] = trained[_TOKENS]
    assign(encoder.weights, {**trained, _TOKENS: tokens}, error=TrainingError)
