"""The Transformer for translation."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers import DecoderBlock, HashDropout, TransformerBlock
from bertcnn.models.decoding import Arrays, Source, empty_cache, step_blocks
from bertcnn.models.tied_transformer import TiedTransformer
from bertcnn.settings import TranslatorSettings

_SEEDS_PER_LAYER = 30


@keras.saving.register_keras_serializable(package="bertcnn")
class Transformer(TiedTransformer):
    """Encoder and decoder of Vaswani et al. 2017, post-norm, with one embedding table.

    The float32 table serves source, target and, transposed, the output (section 3.4).

    Call arguments, a dict:
        source_ids: int32 [B, S].
        target_ids: int32 [B, T], the target shifted right, after a start token.

    Returns:
        Logits of the next token at each position, float32 [B, T, V].
    """

    settings_class = TranslatorSettings
    settings: TranslatorSettings

    def __init__(self, settings: TranslatorSettings, **kwargs: Any) -> None:
        super().__init__(
            settings, max(settings.source_tokens, settings.target_tokens + 1), **kwargs
        )
        shape, seed = self.block_settings("relu"), self.seed
        self.source_drop, self.target_drop = (
            HashDropout(settings.dropout, seed=seed + index, dtype=self.dtype_policy)
            for index in (1, 2)
        )
        self.encoder = [
            TransformerBlock(
                seed=seed + _SEEDS_PER_LAYER * (2 * index + 1), name=f"encoder_{index}", **shape
            )
            for index in range(settings.layers)
        ]
        self.decoder = [
            DecoderBlock(
                seed=seed + _SEEDS_PER_LAYER * (2 * index + 2), name=f"decoder_{index}", **shape
            )
            for index in range(settings.layers)
        ]
        for encoding, decoding in zip(self.encoder, self.decoder, strict=True):
            encoding.build((None, None, settings.width))
            decoding.build((None, None, settings.width))
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Predict every next token at once, as in training; see the class."""
        memory, mask = self._encode(inputs["source_ids"], training=training)
        hidden = self.target_drop(self.embedded(inputs["target_ids"]), training=training)
        for block in self.decoder:
            hidden = block(hidden, memory, mask, training=training)
        return self.logits(hidden)

    def read(self, source_ids: Any) -> Source:
        """Encode the source; returns the mask, and keys and values for each decoder block."""
        memory, mask = self._encode(source_ids)
        pairs = [block.source_attention.keys_and_values(memory) for block in self.decoder]
        return (mask, *(part for both in pairs for part in both))

    def begin(self, source: Source) -> Arrays:
        """An empty cache of keys and values, float [N, L, H, K] each."""
        rows, shape = ops.shape(source[0])[0], self.settings
        return empty_cache(rows, shape.target_tokens, shape, shape.layers, self.compute_dtype)

    def step(
        self, token_ids: Any, position: Any, source: Source, written: Arrays
    ) -> tuple[Any, Arrays, Any]:
        """Logits of the token after `token_ids`; see `bertcnn.models.decoding.Writer`."""
        hidden = self.embedded(token_ids[:, None], position)  # [N, 1, D]
        hidden, kept, looked = step_blocks(
            self.decoder, hidden, position, written, source[1:], source[0]
        )
        return self.logits(hidden)[:, 0], kept, looked

    def _encode(self, source_ids: Any, *, training: bool = False) -> tuple[Any, Any]:
        """The encoder's output, float [B, S, D], and the padding mask, int [B, S]."""
        mask = ops.cast(ops.not_equal(source_ids, self.pad_id), "int32")
        hidden = self.source_drop(self.embedded(source_ids), training=training)
        for block in self.encoder:
            hidden = block(hidden, mask, training=training)
        return hidden, mask
