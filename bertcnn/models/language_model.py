"""The decoder-only Transformer, a model of the next token, and how it continues a text."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bertcnn.layers import HashDropout, TransformerBlock
from bertcnn.models.decoding import Arrays, banned
from bertcnn.models.tied_transformer import TiedTransformer
from bertcnn.settings import LanguageModelSettings

_SEEDS_PER_LAYER = 10


@keras.saving.register_keras_serializable(package="bertcnn")
class CausalTransformer(TiedTransformer):
    """BERT's blocks with a causal mask, post-norm, with one embedding table.

    It differs from the published GPT in its fixed positions (`TiedTransformer`).

    Call arguments, a dict:
        token_ids: int32 [B, T], after a start token; padding only at the end.

    Returns:
        Logits of the next token at each position, float32 [B, T, V].

    Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", 3.1.
    """

    settings_class = LanguageModelSettings
    settings: LanguageModelSettings

    def __init__(self, settings: LanguageModelSettings, **kwargs: Any) -> None:
        super().__init__(settings, settings.context_tokens, **kwargs)
        shape, seed = self.block_settings("gelu"), self.seed
        self.drop = HashDropout(settings.dropout, seed=seed + 1, dtype=self.dtype_policy)
        self.blocks = [
            TransformerBlock(
                seed=seed + _SEEDS_PER_LAYER * (index + 1), name=f"layer_{index}", **shape
            )
            for index in range(settings.layers)
        ]
        for block in self.blocks:
            block.build((None, None, settings.width))
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Predict every next token at once, as in training; see the class."""
        hidden = self.drop(self.embedded(inputs["token_ids"]), training=training)
        for block in self.blocks:
            hidden = block(hidden, use_causal_mask=True, training=training)
        return self.logits(hidden)

    def read(self, token_ids: Any) -> Arrays:
        """Keys and values of all tokens int32 [N, L], float [N, L, H, K] each, two per block."""
        hidden = self.embedded(token_ids)
        kept: Arrays = ()
        for block in self.blocks:
            kept += block.attention.keys_and_values(hidden)
            hidden = block(hidden, use_causal_mask=True)
        return kept

    def step(self, token_ids: Any, position: Any, kept: Arrays) -> tuple[Any, Arrays]:
        """Process one token of each text.

        Args:
            token_ids: int32 [N], the tokens at `position`.
            position: int32 [], from 0.
            kept: keys and values from `read` or from the last step.

        Returns:
            Logits of the next token, float32 [N, V]; and `kept` with these tokens.
        """
        hidden = self.embedded(token_ids[:, None], position)  # [N, 1, D]
        updated: Arrays = ()
        for index, block in enumerate(self.blocks):
            hidden, pair = block.step(hidden, position, kept[2 * index : 2 * index + 2])
            updated += pair
        return self.logits(hidden)[:, 0], updated


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
