"""The classifier: BERT with a CNN head."""

from __future__ import annotations

from typing import Any

import keras

from bertcnn.errors import TrainingError
from bertcnn.layers import (
    DocumentMax,
    DocumentMean,
    HashDropout,
    MaskedMax,
    MaskedMean,
    WindowConvolution,
)
from bertcnn.models.bert import Bert
from bertcnn.models.weights import assign, extract
from bertcnn.settings import EncoderSettings, HeadSettings

_HEAD_SEED = 100_000  # distinct from the encoder's seeds


@keras.saving.register_keras_serializable(package="bertcnn")
class CnnHead(keras.Model):
    """CNN head: convolutions over tokens, masked max and mean, one linear layer (after Kim 2014).

    Only a linear layer follows the pooling, so a logit is an exact sum: bias, plus each filter's
    maximum activation times its weight, plus the contribution of the mean. Explanations therefore
    need no extra computation.

    Args:
        width: D, of the token embeddings.
        classes: C.
        documents: K, the maximum number of documents in a packed row; by default a row is one text.

    Call arguments, a dict:
        sequence_output: float [B, T, D].
        padding_mask: int32 [B, T], 1 at tokens and 0 at padding; only without `documents`.
        document_ids: int32 [B, T], 0 at padding and k at the tokens of the row's k-th document;
            only with `documents`.

    The call returns logits, float32 [B, C]; with `documents` float32 [B, K, C].
    """

    def __init__(
        self,
        width: int,
        classes: int,
        settings: HeadSettings,
        *,
        documents: int | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        # === Layers ===
        first = _HEAD_SEED + seed
        dtype = keras.dtype_policies.get(kwargs.pop("dtype", None))
        convolutions = [
            WindowConvolution(
                window,
                settings.filters,
                packed=documents is not None,
                seed=first + window,
                name=f"convolution_{window}",
                dtype=dtype,
            )
            for window in settings.window_sizes
        ]
        dropout = HashDropout(settings.dropout, seed=first, name="head_dropout", dtype=dtype)
        linear = keras.layers.Dense(
            classes,
            kernel_initializer=keras.initializers.GlorotUniform(seed=first),
            name="logits",
            dtype="float32",
        )

        # === Functional Model ===
        whose = "padding_mask" if documents is None else "document_ids"
        inputs = {
            "sequence_output": keras.Input((None, width), name="sequence_output"),
            whose: keras.Input((None,), dtype="int32", name=whose),
        }
        hidden, mask = inputs["sequence_output"], inputs[whose]
        activations = {
            f"max_{layer.window}": layer(hidden, mask) for layer in convolutions
        }  # each [B, T, N]
        if documents is None:
            pooled = [
                MaskedMax(name=name, dtype=dtype)(values) for name, values in activations.items()
            ]  # each [B, N]
            pooled.append(MaskedMean(name="mean", dtype=dtype)(hidden, mask))  # [B, D]
        else:
            pooled = [
                DocumentMax(documents, name=name, dtype=dtype)(values, mask)
                for name, values in activations.items()
            ]  # [B, K, N]
            # [B, K, D]
            pooled.append(DocumentMean(documents, name="mean", dtype=dtype)(hidden, mask))
        # [B, len(W) * N + D] or [B, K, len(W) * N + D]
        features = keras.layers.Concatenate(name="features", dtype=dtype)(pooled)
        super().__init__(inputs=inputs, outputs=linear(dropout(features)), **kwargs)

        # === Config ===
        self.width = width
        self.classes = classes
        self.settings = settings
        self.documents = documents
        self.seed, self.compute_policy = seed, dtype

    def rebuilt(self, documents: int | None, dtype: Any = None) -> CnnHead:
        """A copy with the same weights, for other rows or in another precision."""
        other = CnnHead(
            self.width,
            self.classes,
            self.settings,
            documents=documents,
            seed=self.seed,
            name=self.name,
            dtype=dtype or self.compute_policy,
        )
        assign(other.weights, extract(self.weights), error=TrainingError)
        return other

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "width": self.width,
            "classes": self.classes,
            "settings": self.settings.model_dump(),
            "documents": self.documents,
            "seed": self.seed,
            "name": self.name,
            "dtype": self.compute_policy.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> CnnHead:
        """The same architecture with new initial weights."""
        return cls(settings=HeadSettings(**config.pop("settings")), **config)


@keras.saving.register_keras_serializable(package="bertcnn")
class BertCnn(keras.Model):
    """An encoder with a CNN head on its token embeddings.

    Args:
        encoder: a `Bert`; its pooler is not part of the classifier.
        head: a `CnnHead` of the encoder's width; with `documents` exactly if `encoder` is packed.

    Call arguments, a dict: the encoder's inputs, each int32 [B, T].

    The call returns logits, float32 [B, C]; for a packed encoder float32 [B, K, C].

    Example:
        >>> settings = EncoderSettings(
        ...     vocabulary_size=30, width=8, layers=2, heads=2, feed_forward_width=16
        ... )
        >>> encoder = Bert(settings)
        >>> BertCnn(encoder, CnnHead(8, 3, HeadSettings(filters=4))).output.shape
        (None, 3)
    """

    def __init__(self, encoder: Bert, head: CnnHead, **kwargs: Any) -> None:
        # === Functional Model ===
        whose = "document_ids" if encoder.packed else "padding_mask"
        logits = head({"sequence_output": encoder.sequence_output, whose: encoder.input[whose]})
        super().__init__(inputs=encoder.input, outputs=logits, **kwargs)

        # === Config ===
        self.encoder_settings, self.head = encoder.settings, head
        self.encoder_config, self.encoder_output = encoder.get_config(), encoder.sequence_output

    def get_config(self) -> dict[str, Any]:
        """The configurations of encoder and head."""
        return {
            "encoder": dict(self.encoder_config),
            "head": self.head.get_config(),
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> BertCnn:
        """The same architecture with new initial weights."""
        return cls(
            Bert.from_config(config.pop("encoder")),
            CnnHead.from_config(config.pop("head")),
            **config,
        )


def build_classifier(
    encoder: EncoderSettings,
    head: HeadSettings,
    classes: int,
    *,
    seed: int = 0,
    dtype: str | None = None,
) -> BertCnn:
    """A classifier with new initial weights; `dtype` is its policy."""
    return BertCnn(
        Bert(encoder, seed=seed, dtype=dtype),
        CnnHead(encoder.width, classes, head, seed=seed, name="head", dtype=dtype),
        name="classifier",
    )
