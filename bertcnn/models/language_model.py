"""The decoder-only Transformer, a model of the next token."""

from __future__ import annotations

from typing import Any

import keras

from bertcnn.layers import HashDropout, TransformerBlock
from bertcnn.models.decoding import Arrays
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
