"""The BERT encoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, overload

import keras
import numpy as np

from bertcnn.backend import check_process
from bertcnn.data import pad
from bertcnn.errors import SettingsError
from bertcnn.layers import BertEmbeddings, DocumentMask, TransformerBlock, bert_initializer
from bertcnn.models.forward import Forward, padded_up_to
from bertcnn.settings import EncoderSettings, Pool, check_pool
from bertcnn.text import WordPieceTokenizer, check_texts

_SEEDS_PER_LAYER = 10


@keras.saving.register_keras_serializable(package="bertcnn")
class Bert(keras.Model):
    """BERT: embeddings, a stack of Transformer blocks, a pooler on [CLS] (Devlin et al. 2019).

    Args:
        packed: whether a row holds several documents, which do not attend to each other.

    Call arguments, a dict:
        token_ids: int32 [B, T].
        segment_ids: int32 [B, T].
        padding_mask: int32 [B, T], 1 at tokens and 0 at padding; only if not packed.
        document_ids: int32 [B, T], 0 at padding and k at the tokens of the row's k-th document;
            only if packed.
        position_ids: int32 [B, T], counting from 0 in every document; only if packed.

    The call returns a dict with `sequence_output`, float [B, T, D], and `pooled_output`, float
    [B, D]. The latter is computed from the row's first token; for further documents of a row call
    `pooler` on their first vectors.

    Attributes:
        tokenizer: makes the inputs for `embed`; set by `load_encoder`, and None in a new encoder or
            one from a .keras file.

    Example:
        >>> settings = EncoderSettings(
        ...     vocabulary_size=30, width=8, layers=2, heads=2, feed_forward_width=16
        ... )
        >>> encoder = Bert(settings)
        >>> encoder.output["sequence_output"].shape
        (None, None, 8)
    """

    def __init__(
        self, settings: EncoderSettings, *, packed: bool = False, seed: int = 0, **kwargs: Any
    ) -> None:
        check_process()

        # === Layers ===
        dtype = keras.dtype_policies.get(kwargs.pop("dtype", None))
        embeddings = BertEmbeddings(
            settings.vocabulary_size,
            settings.width,
            max_positions=settings.max_positions,
            positions=settings.positions,
            segment_types=settings.segment_types,
            epsilon=settings.layer_norm_epsilon,
            dropout=settings.dropout,
            seed=seed,
            name="embeddings",
            dtype=dtype,
        )
        blocks = [
            TransformerBlock(
                settings.heads,
                settings.feed_forward_width,
                activation=settings.activation,
                epsilon=settings.layer_norm_epsilon,
                dropout=settings.dropout,
                attention_dropout=settings.attention_dropout,
                seed=seed + _SEEDS_PER_LAYER * (index + 1),
                name=f"layer_{index}",
                dtype=dtype,
            )
            for index in range(settings.layers)
        ]
        pooler = keras.layers.Dense(
            settings.width,
            activation="tanh",
            kernel_initializer=bert_initializer(seed + 5),
            name="pooler",
            dtype=dtype,
        )

        # === Functional Model ===
        names = ("document_ids", "position_ids") if packed else ("padding_mask",)
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for name in ("token_ids", "segment_ids", *names)
        }
        # [B, T, D]
        hidden = embeddings(inputs["token_ids"], inputs["segment_ids"], inputs.get("position_ids"))
        mask = (
            DocumentMask(name="document_mask")(inputs["document_ids"])
            if packed
            else inputs["padding_mask"]
        )  # [B, T, T] or [B, T]
        for block in blocks:
            hidden = block(hidden, mask)
        outputs = {"sequence_output": hidden, "pooled_output": pooler(hidden[:, 0])}
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

        # === Config ===
        self.settings, self.packed, self.seed, self.compute_policy = settings, packed, seed, dtype
        self.sequence_output = hidden  # symbolic, for models built on it
        self.pooler = pooler
        self.tokenizer: WordPieceTokenizer | None = None

    @overload
    def embed(self, texts: Sequence[str], *, pool: Literal["mean"] = "mean") -> np.ndarray: ...

    @overload
    def embed(self, texts: Sequence[str], *, pool: Literal["none"]) -> list[np.ndarray]: ...

    def embed(self, texts: Sequence[str], *, pool: Pool = "mean") -> np.ndarray | list[np.ndarray]:
        """Embeddings of texts, computed with the current weights and not normalised.

        Args:
            texts: strings. One over the tokenizer's limit loses its middle.
            pool: "mean" for one vector per text, or "none" for one per token.

        Returns:
            The means of the token embeddings, float32 [texts, D]; or with "none" the token
            embeddings of each text, a list of float32 [T, D] without padding. Both include [CLS]
            and [SEP], as in sentence-transformers.

        Raises:
            SettingsError: `texts` is not a list of strings, `pool` is unknown, or the encoder has
                no tokenizer.
        """
        check_pool(pool)
        if self.tokenizer is None:
            raise SettingsError(
                "an encoder without a tokenizer",
                expected="an encoder of load_encoder, which has one",
                fix="set encoder.tokenizer = WordPieceTokenizer.from_folder(folder)",
            )
        rows = self.tokenizer.encode(check_texts(texts)).token_ids
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        means = np.empty((len(rows), self.settings.width), np.float32)
        tokens = [means[:0]] * len(rows)
        for plan in self._forward.plan(lengths) if rows else ():
            hidden = self._forward(pad(rows, plan, self.tokenizer.pad_id).inputs())  # [B, T, D]
            for row, vectors in zip(plan.rows.tolist(), hidden, strict=False):  # without fillers
                if pool == "mean":
                    means[row] = vectors[: lengths[row]].mean(axis=0)
                else:
                    tokens[row] = vectors[: lengths[row]].copy()  # frees the batch
        return means if pool == "mean" else tokens

    @cached_property
    def _forward(self) -> Forward:
        hidden = keras.ops.cast(self.sequence_output, "float32")
        return Forward(keras.Model(self.input, hidden), padded_up_to(self.settings.max_positions))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "settings": self.settings.model_dump(),
            "packed": self.packed,
            "seed": self.seed,
            "name": self.name,
            "dtype": self.compute_policy.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Bert:
        """The same architecture with new initial weights."""
        return cls(EncoderSettings(**config.pop("settings")), **config)
