"""A frozen BERT encoder and a Transformer decoder that copies words of the source."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from bertcnn.backend import check_process
from bertcnn.layers import (
    BertEmbeddings,
    DecoderBlock,
    HashDropout,
    MaskedLanguageHead,
    bert_initializer,
)
from bertcnn.models.bert import Bert
from bertcnn.models.decoding import Arrays, Source, empty_cache, step_blocks
from bertcnn.settings import SummariserSettings

_SEED = 600_000  # distinct from the seeds of encoder and other heads
_SEEDS_PER_LAYER = 30
_EPSILON = 1e-6
_MASKED = -1e9
_TINY = 1e-9


@keras.saving.register_keras_serializable(package="bertcnn")
class BertSummariser(keras.Model):
    """Writes a text for a text, from the output of a frozen encoder.

    Each next token is generated with probability `generated`, and else copied from the source by a
    pointer, an attention with one head (See et al. 2017, section 2.2). The pointer has an extra
    score for source tokens that follow the token written last, so that a copy goes on (cf. the
    selective read of Gu et al. 2016, section 3.3). Input and output embeddings are the encoder's
    table of tokens, not trained, so that words without a training example have one.

    Args:
        encoder: a `Bert`, not packed. It is frozen.

    Call arguments, a dict:
        sequence_output: float [B, S, D], the encoder's output for the source.
        source_ids: int32 [B, S].
        target_ids: int32 [B, T], the target shifted right, after a start token.

    Returns:
        A dict: `vocabulary`, log-probabilities of generated tokens, float32 [B, T, V]; `pointer`,
        probabilities of the source tokens, float32 [B, T, S]; `generated`, float32 [B, T].
    """

    def __init__(
        self,
        encoder: Bert,
        settings: SummariserSettings,
        *,
        dropout: float = 0.0,
        pad_id: int = 0,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        check_process()
        super().__init__(**kwargs)
        encoder.trainable = False
        self.encoder = keras.Model(encoder.input, encoder.sequence_output)  # without the pooler
        self.encoder_config, self.encoder_settings = encoder.get_config(), encoder.settings
        self.settings, self.pad_id, self.seed = settings, pad_id, seed
        self.dropout = dropout
        width, seed, policy = encoder.settings.width, _SEED + seed, self.dtype_policy
        self.sinusoids = BertEmbeddings.sinusoids["interleaved"](settings.target_tokens + 1, width)
        self.embeddings = encoder.get_layer("embeddings")
        self.vocabulary_head = MaskedLanguageHead(
            self.embeddings,
            activation="gelu",
            epsilon=_EPSILON,
            seed=seed,
            name="output",
            dtype=policy,
        )
        self.embed, self.query, self.key = (
            keras.layers.Dense(
                width, kernel_initializer=bert_initializer(seed + index), name=name, dtype=policy
            )
            for index, name in enumerate(("embed", "query", "key"), 1)
        )
        self.gate, self.continuation = (
            keras.layers.Dense(
                1, kernel_initializer=bert_initializer(seed + index), name=name, dtype=policy
            )
            for index, name in enumerate(("gate", "continuation"), 4)
        )
        self.embed_norm = keras.layers.LayerNormalization(
            epsilon=_EPSILON, name="embed_norm", dtype=policy
        )
        self.memory_drop, self.word_drop, self.target_drop, self.output_drop = (
            HashDropout(dropout, seed=seed + index, dtype=policy) for index in (6, 7, 8, 9)
        )
        self.decoder = [
            DecoderBlock(
                encoder.settings.heads,
                settings.feed_forward_width,
                activation="gelu",
                dropout=dropout,
                seed=seed + _SEEDS_PER_LAYER * (index + 1),
                name=f"decoder_{index}",
                dtype=policy,
            )
            for index in range(settings.layers)
        ]
        parts = (self.embed, self.query, self.key, self.gate, self.continuation, self.embed_norm)
        for layer in (self.vocabulary_head, *parts, *self.decoder):
            layer.build((None, None, width))
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> dict[str, Any]:
        """Predict every next token at once, as in training; see the class."""
        source_ids, target_ids = inputs["source_ids"], inputs["target_ids"]
        memory = ops.cast(inputs["sequence_output"], self.compute_dtype)
        memory = self.memory_drop(memory, training=training)
        hidden = self._embedded(target_ids)  # [B, T, D]
        # without some of the words written before, the decoder has to look at the source
        hidden *= self.word_drop(ops.ones_like(hidden[..., :1]), training=training)
        hidden = self.target_drop(hidden, training=training)
        mask = self._mask(source_ids)
        for block in self.decoder:
            hidden = block(hidden, memory, mask, training=training)
        hidden = self.output_drop(hidden, training=training)
        return self._outputs(hidden, target_ids, source_ids, self.key(memory))

    def read(self, source_ids: Any) -> Source:
        """Encode the source; returns its ids, the pointer's keys, and each block's keys, values."""
        encoded = self.encoder(
            {
                "token_ids": source_ids,
                "segment_ids": ops.zeros_like(source_ids),
                "padding_mask": self._mask(source_ids),
            }
        )
        memory = ops.cast(encoded, self.compute_dtype)
        pairs = [block.source_attention.keys_and_values(memory) for block in self.decoder]
        return (source_ids, self.key(memory), *(part for both in pairs for part in both))

    def begin(self, source: Source) -> Arrays:
        """An empty cache of keys and values, float [N, L, H, K] each."""
        rows, settings = ops.shape(source[0])[0], self.settings
        shape, dtype = self.encoder_settings, self.compute_dtype
        return empty_cache(rows, settings.target_tokens, shape, settings.layers, dtype)

    def step(
        self, token_ids: Any, position: Any, source: Source, written: Arrays
    ) -> tuple[Any, Arrays, Any]:
        """Log-probabilities of the token after `token_ids`; see `bertcnn.models.decoding.Writer`.

        The third result is the pointer, float [N, S].
        """
        source_ids, keys, sources = source[0], source[1], source[2:]
        last, mask = token_ids[:, None], self._mask(source_ids)
        hidden = self._embedded(last, position)  # [N, 1, D]
        hidden, kept, _ = step_blocks(self.decoder, hidden, position, written, sources, mask)
        outputs = self._outputs(hidden, last, source_ids, keys)
        pointer, generated = outputs["pointer"][:, 0], outputs["generated"]  # [N, S], [N, 1]
        rows, size = source_ids.shape[0], self.encoder_settings.vocabulary_size
        # each source token's share is added to its own column of [N, V]
        places = ops.arange(rows, dtype="int32")[:, None] * size + source_ids
        copied = ops.segment_sum(
            ops.reshape(pointer, (-1,)), ops.reshape(places, (-1,)), num_segments=rows * size
        )
        mixed = generated * ops.exp(outputs["vocabulary"][:, 0]) + (1.0 - generated) * ops.reshape(
            copied, (rows, size)
        )
        return ops.log(mixed + _TINY), kept, pointer

    def _mask(self, source_ids: Any) -> Any:
        return ops.cast(ops.not_equal(source_ids, self.pad_id), "int32")

    def _embedded(self, token_ids: Any, first: Any = 0) -> Any:
        indices = ops.arange(ops.shape(token_ids)[1]) + first
        positions = ops.take(ops.convert_to_tensor(self.sinusoids), indices, axis=0)
        vectors = ops.cast(ops.take(self.embeddings.tokens, token_ids, axis=0), self.compute_dtype)
        embedded = self.embed_norm(self.embed(vectors))
        return embedded + ops.cast(positions, embedded.dtype)

    def _outputs(self, hidden: Any, written_ids: Any, source_ids: Any, keys: Any) -> dict[str, Any]:
        """The dict of `call`, from float [B, T, D], int [B, T] and [B, S], and float [B, S, D]."""
        scores = ops.matmul(self.query(hidden), ops.transpose(keys, (0, 2, 1)))  # [B, T, S]
        scores = ops.cast(scores, "float32") / math.sqrt(keys.shape[-1])
        before = ops.concatenate([-ops.ones_like(source_ids[:, :1]), source_ids[:, :-1]], axis=1)
        follows = ops.equal(before[:, None, :], written_ids[:, :, None])  # [B, T, S]
        scores += ops.cast(self.continuation(hidden), "float32") * ops.cast(follows, "float32")
        scores += _MASKED * ops.cast(ops.equal(source_ids, self.pad_id), "float32")[:, None]
        generated = ops.sigmoid(ops.cast(self.gate(hidden), "float32"))[..., 0]
        return {
            "vocabulary": ops.log_softmax(self.vocabulary_head(hidden), axis=-1),
            "pointer": ops.softmax(scores, axis=-1),
            "generated": generated if self.settings.copies else ops.ones_like(generated),
        }

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "encoder": dict(self.encoder_config),
            "settings": self.settings.model_dump(),
            "dropout": self.dropout,
            "pad_id": self.pad_id,
            "seed": self.seed,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> BertSummariser:
        """The same architecture with new initial weights."""
        encoder = Bert.from_config(config.pop("encoder"))
        return cls(encoder, SummariserSettings(**config.pop("settings")), **config)
