"""Greedy and beam search in `keras.ops`, so that a whole search compiles to one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from keras import ops

Arrays = tuple[Any, ...]
Source = tuple[Any, ...]
_NEVER = -1e9  # log-probability of forbidden tokens


class Writer(Protocol):
    """A model that generates texts; N is the number of texts in progress."""

    def read(self, source_ids: Any) -> Source:
        """Encode sources int32 [B, S], once for all steps; arrays with B rows."""
        ...

    def begin(self, source: Source) -> Arrays:
        """The initial state; arrays with N rows."""
        ...

    def step(
        self, token_ids: Any, position: Any, source: Source, written: Arrays
    ) -> tuple[Any, Arrays, Any]:
        """Process one token of each text.

        Args:
            token_ids: int32 [N], the previous tokens, or the start token.
            position: int32 [], number of tokens written before.
            source: from `read`, N rows each.
            written: the state.

        Returns:
            Logits of the next token, float32 [N, V]; the new state; and the attention to the
            source, float [N, S].
        """
        ...


@dataclass(frozen=True)
class SearchSettings:
    """Settings of greedy (`width` 1) and beam search; `length` includes the end token.

    Attributes:
        length_penalty: alpha of Wu et al. 2016, section 7: scores are log-probabilities divided by
            ((5 + length) / 6) ** alpha.
    """

    length: int
    start_id: int
    end_id: int
    pad_id: int
    width: int = 1
    length_penalty: float = 0.6
    never: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Written:
    """The generated texts of each source, best first.

    Attributes:
        token_ids: int32 [B, W, L], up to and including the end token, then padding.
        scores: float32 [B, W], see `SearchSettings`; at most -1e7 for unused beams.
        attention: float32 [B, W, L, S], attention of each generated token to the source tokens.
    """

    token_ids: np.ndarray
    scores: np.ndarray
    attention: np.ndarray


def search(model: Writer, settings: SearchSettings, source_ids: Any) -> tuple[Any, Any, Any]:
    """Generate texts by beam search; a width of 1 is greedy search.

    At each step every text in the beam is continued by every token, and the W continuations with
    the highest scores are kept. A finished text keeps its score, and its place while fewer than W
    others score higher. The search ends when all texts are finished or the length is reached. It is
    exhaustive if the beam holds all continuations.

    `source_ids` is int32 [B, S], a static shape. Returns the arrays of `Written`.
    """
    rows, sources = source_ids.shape
    width, length = settings.width, settings.length
    kept = rows * width
    source = tuple(ops.repeat(part, width, axis=0) for part in model.read(source_ids))

    def advance(
        position: Any, tokens: Any, logs: Any, ended: Any, lengths: Any, looked: Any, *written: Any
    ) -> Arrays:
        """One step: [B, W, L], [B, W], [B, W], [B, W], [B, W, L, S] and the model's state."""
        before = ops.take(tokens, ops.maximum(position - 1, 0), axis=2)
        last = ops.where(ops.equal(position, 0), settings.start_id, before)
        logits, state, attention = model.step(
            ops.reshape(last, (kept,)), position, source, tuple(written)
        )
        new_logs, new_lengths = _continued(settings, logits, logs, ended, lengths)  # [B, W, V]
        ranked = new_logs / _penalty(new_lengths, settings.length_penalty)
        _, chosen = ops.top_k(ops.reshape(ranked, (rows, -1)), width)  # [B, W]
        vocabulary = logits.shape[-1]
        parents, token = chosen // vocabulary, chosen % vocabulary

        def of_parents(part: Any) -> Any:
            return _of_parents(part, parents, rows, width)

        def of_chosen(part: Any) -> Any:
            return ops.take_along_axis(ops.reshape(part, (rows, -1)), chosen, axis=1)

        token = ops.where(of_parents(ended), settings.pad_id, ops.cast(token, "int32"))
        here = ops.equal(ops.arange(length), position)
        tokens = ops.where(here, token[:, :, None], of_parents(tokens))
        seen = ops.reshape(ops.cast(attention, "float32"), (rows, width, 1, sources))
        looked = ops.where(
            here[:, None] & ~of_parents(ended)[:, :, None, None],
            of_parents(seen),
            of_parents(looked),
        )
        ended = of_parents(ended) | ops.equal(token, settings.end_id)
        moved = (of_parents(ops.reshape(part, (rows, width, *part.shape[1:]))) for part in state)
        return (
            position + 1,
            tokens,
            of_chosen(new_logs),
            ended,
            of_chosen(new_lengths),
            looked,
            *(ops.reshape(part, (kept, *part.shape[2:])) for part in moved),
        )

    start = (*_empty_texts(settings, rows, sources), *model.begin(source))
    _, tokens, logs, _, lengths, looked, *_ = ops.while_loop(
        lambda *state: ops.logical_not(ops.all(state[3])),  # until all texts have ended
        advance,
        start,
        maximum_iterations=length,
    )
    return tokens, logs / _penalty(lengths, settings.length_penalty), looked


def _of_parents(part: Any, parents: Any, rows: int, width: int) -> Any:
    """The part [B, W, ...] of the text that each kept text continues; `parents` is [B, W]."""
    if width == 1:
        return part
    kept = rows * width
    flat = ops.reshape(ops.arange(rows)[:, None] * width + parents, (kept,))
    merged = ops.reshape(part, (kept, *part.shape[2:]))
    return ops.reshape(ops.take(merged, flat, axis=0), part.shape)


def _empty_texts(settings: SearchSettings, rows: int, sources: int) -> Arrays:
    """The arrays that a search starts from, without the model's state."""
    width, length = settings.width, settings.length
    first = ops.where(ops.equal(ops.arange(width), 0), 0.0, _NEVER)  # one of the empty texts
    return (
        ops.convert_to_tensor(0, "int32"),
        ops.full((rows, width, length), settings.pad_id, "int32"),
        ops.broadcast_to(first, (rows, width)),
        ops.zeros((rows, width), "bool"),
        ops.zeros((rows, width), "float32"),
        ops.zeros((rows, width, length, sources), "float32"),
    )


def _continued(
    settings: SearchSettings, logits: Any, logs: Any, ended: Any, lengths: Any
) -> tuple[Any, Any]:
    """Log-probabilities and lengths of each text with each next token, float32 [B, W, V].

    A finished text continues with padding at no cost.
    """
    vocabulary = logits.shape[-1]
    steps = ops.log_softmax(logits + banned(settings.never, vocabulary), axis=-1)  # [N, V]
    steps = ops.reshape(steps, (*logs.shape, vocabulary))
    nothing = np.where(np.arange(vocabulary) == settings.pad_id, 0.0, _NEVER).astype(np.float32)
    steps = ops.where(ended[:, :, None], nothing, steps)
    longer = lengths + ops.cast(ops.logical_not(ended), "float32")
    return logs[:, :, None] + steps, ops.broadcast_to(longer[:, :, None], steps.shape)


def empty_cache(rows: Any, length: int, shape: Any, layers: int, dtype: str) -> Arrays:
    """Keys and values of decoder blocks, float [N, L, H, K] each, two per block; `shape` has D, H.

    They are the state of a text of at most `length` tokens before its first one.
    """
    room = (rows, length, shape.heads, shape.width // shape.heads)
    return tuple(ops.zeros(room, dtype) for _ in range(2 * layers))


def step_blocks(
    blocks: Sequence[Any], hidden: Any, position: Any, written: Arrays, sources: Arrays, mask: Any
) -> tuple[Any, Arrays, Any]:
    """Run decoder blocks on one token [N, 1, D]: hidden, cache, and the last block's attention."""
    kept: Arrays = ()
    looked = None
    for index, block in enumerate(blocks):
        pair = slice(2 * index, 2 * index + 2)
        hidden, keys_and_values, looked = block.step(
            hidden, position, written[pair], sources[pair], mask
        )
        kept += keys_and_values
    return hidden, kept, looked


def banned(never: tuple[int, ...], vocabulary: int) -> np.ndarray:
    """What is added to logits so that some ids are never generated, float32 [V]."""
    added = np.zeros(vocabulary, np.float32)
    added[list(never)] = _NEVER
    return added


def _penalty(lengths: Any, alpha: float) -> Any:
    return ops.power((5.0 + lengths) / 6.0, alpha)
