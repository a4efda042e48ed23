"""Continues a text token by token, in `keras.ops`, so that it compiles to one program."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from bertcnn.models.decoding import Arrays, banned
from bertcnn.models.language_model import CausalTransformer


class Sampling(NamedTuple):
    """How the next token is drawn; each a scalar array, so that a change compiles nothing.

    Attributes:
        temperature: float32; logits are divided by it.
        top_k: int32; only the most probable tokens, as many as this, are drawn. 1 is greedy.
        top_p: float32; among these, only the fewest most probable tokens whose probabilities sum
            to at least this are drawn (Holtzman et al. 2020, section 3.1).
    """

    temperature: Any
    top_k: Any
    top_p: Any


def draw(logits: Any, sampling: Sampling, number: Any) -> Any:
    """A token of each text, int32 [N], from logits float [N, V] and a number from 0 to 1.

    The number selects from the cumulative distribution of the tokens in descending order, so that
    equal numbers give equal tokens on every backend.
    """
    vocabulary = logits.shape[-1]
    ranked, token_ids = ops.top_k(logits / sampling.temperature, vocabulary)
    ranked = ops.where(ops.arange(vocabulary) < sampling.top_k, ranked, -np.inf)
    probabilities = ops.softmax(ranked, axis=-1)
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    is_kept = ops.logical_and(probabilities > 0, before < sampling.top_p)
    up_to = ops.cumsum(ops.where(is_kept, probabilities, 0.0), axis=-1)  # [N, V]
    below = ops.sum(ops.cast(up_to <= number * up_to[:, -1:], "int32"), axis=-1)
    last = ops.sum(ops.cast(is_kept, "int32"), axis=-1) - 1
    chosen = ops.minimum(below, last)[:, None]
    return ops.cast(ops.take_along_axis(token_ids, chosen, axis=-1), "int32")[:, 0]


def continue_text(
    model: CausalTransformer,
    token_ids: Any,
    numbers: Any,
    length: Any,
    sampling: Sampling,
    *,
    end_id: int,
    never: tuple[int, ...],
) -> tuple[Any, Any]:
    """Continue a text up to its end token or a length.

    Args:
        model: the language model.
        token_ids: int32 [1, L], the start of the text, then padding.
        numbers: float32 [L], random numbers from 0 to 1, one for each position.
        length: int32 [2], tokens of the start, and with the generated ones.
        sampling: how tokens are drawn.
        end_id: the token that ends a text.
        never: ids that are never drawn.

    Returns:
        int32 [1, L], the text; and float32 [1, L], the log-probability of each generated token
        before temperature, top-k and top-p.
    """
    places = ops.arange(token_ids.shape[1])

    def advance(position: Any, tokens: Any, logs: Any, _: Any, *kept: Any) -> Arrays:
        logits, kept = model.step(ops.take(tokens, position, axis=1), position, kept)
        logits = logits + banned(never, logits.shape[-1])
        token = draw(logits, sampling, ops.take(numbers, position))  # [1]
        likely = ops.take_along_axis(ops.log_softmax(logits, axis=-1), token[:, None], axis=-1)
        here = ops.equal(places, position + 1)
        return (
            position + 1,
            ops.where(here, token[:, None], tokens),
            ops.where(here, likely, logs),
            ops.equal(token[0], end_id),
            *kept,
        )

    start = (
        length[0] - 1,
        token_ids,
        ops.zeros(token_ids.shape, "float32"),
        ops.convert_to_tensor(False),
        *model.read(token_ids),
    )
    _, tokens, logs, *_ = ops.while_loop(
        lambda position, _tokens, _logs, ended, *_kept: ops.logical_and(
            position + 1 < length[1], ops.logical_not(ended)
        ),
        advance,
        start,
    )
    return tokens, logs
