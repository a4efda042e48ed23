"""The classifier: BERT's token embeddings through a CNN head to one logit a label."""

from __future__ import annotations

from typing import Any

import keras

from bertcnn.layers.convolution import MaskedMax, MaskedMean, WindowConvolution
from bertcnn.layers.dropout import HashDropout
from bertcnn.models.bert import Bert
from bertcnn.settings import EncoderSettings, HeadSettings

_HEAD_SEED = 100_000  # apart from the encoder's seeds


@keras.saving.register_keras_serializable(package="bertcnn")
class CnnHead(keras.Model):
    """Filters over token windows, masked max over time, the masked mean, and one linear layer (after Kim 2014).

    Nothing stands between pooling and logits but a linear layer, so a logit is an exact sum: bias, plus each filter's largest activation
    times its weight, plus the mean's share. That is what makes evidence free.

    Args:
        width: D, of the token embeddings.
        classes: C.
        settings: window sizes, filters, dropout.
        seed: of the initial weights and of dropout.

    Call arguments, a dict:
        sequence_output: float [B, T, D].
        padding_mask: int32 [B, T], 1 at tokens and 0 at padding.

    Returns:
        Logits, float32 [B, C].
    """

    def __init__(self, width: int, classes: int, settings: HeadSettings, *, seed: int = 0, **kwargs: Any) -> None:  # noqa: ANN401
        # === Layers ===
        first = _HEAD_SEED + seed
        dtype = keras.dtype_policies.get(kwargs.pop("dtype", None))
        convolutions = [
            WindowConvolution(window, settings.filters, seed=first + window, name=f"convolution_{window}", dtype=dtype)
            for window in settings.window_sizes
        ]
        dropout = HashDropout(settings.dropout, seed=first, name="head_dropout", dtype=dtype)
        linear = keras.layers.Dense(
            classes, kernel_initializer=keras.initializers.GlorotUniform(seed=first), name="logits", dtype="float32"
        )

        # === Functional Model ===
        inputs = {
            "sequence_output": keras.Input((None, width), name="sequence_output"),
            "padding_mask": keras.Input((None,), dtype="int32", name="padding_mask"),
        }
        hidden, mask = inputs["sequence_output"], inputs["padding_mask"]
        pooled = [MaskedMax(name=f"max_{layer.window}", dtype=dtype)(layer(hidden, mask)) for layer in convolutions]  # each [B, N]
        pooled.append(MaskedMean(name="mean", dtype=dtype)(hidden, mask))  # [B, D]
        features = keras.layers.Concatenate(name="features", dtype=dtype)(pooled)  # [B, len(W) * N + D]
        super().__init__(inputs=inputs, outputs=linear(dropout(features)), **kwargs)

        # === Config ===
        self.width, self.classes, self.settings, self.seed, self.compute_policy = width, classes, settings, seed, dtype

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {
            "width": self.width,
            "classes": self.classes,
            "settings": self.settings.model_dump(),
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.compute_policy),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> CnnHead:  # noqa: ARG003
        """The same architecture, newly initialised."""
        return cls(settings=HeadSettings(**config.pop("settings")), **config)


@keras.saving.register_keras_serializable(package="bertcnn")
class BertCnn(keras.Model):
    """An encoder with a CNN head on its token embeddings.

    Args:
        encoder: a `Bert`; its pooler is not part of the classifier.
        head: a `CnnHead` for the encoder's width.

    Call arguments, a dict: `token_ids`, `segment_ids`, `padding_mask`, each int32 [B, T].

    Returns:
        Logits, float32 [B, C].

    Example:
        >>> encoder = Bert(EncoderSettings(vocabulary_size=30, width=8, layers=2, heads=2, feed_forward_width=16))
        >>> BertCnn(encoder, CnnHead(8, 3, HeadSettings(filters=4))).output.shape
        (None, 3)
    """

    def __init__(self, encoder: Bert, head: CnnHead, **kwargs: Any) -> None:  # noqa: ANN401
        # === Functional Model ===
        mask = encoder.input["padding_mask"]
        logits = head({"sequence_output": encoder.sequence_output, "padding_mask": mask})
        super().__init__(inputs=encoder.input, outputs=logits, **kwargs)

        # === Config ===
        self.encoder_settings, self.head = encoder.settings, head
        self.encoder_config, self.encoder_output = encoder.get_config(), encoder.sequence_output

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return {
            "encoder": dict(self.encoder_config),
            "head": self.head.get_config(),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> BertCnn:  # noqa: ARG003
        """The same architecture, newly initialised."""
        return cls(Bert.from_config(config.pop("encoder")), CnnHead.from_config(config.pop("head")), **config)


def build_classifier(encoder: EncoderSettings, head: HeadSettings, classes: int, *, seed: int = 0) -> BertCnn:
    """A classifier of this shape, newly initialised."""
    return BertCnn(Bert(encoder, seed=seed), CnnHead(encoder.width, classes, head, seed=seed, name="head"), name="classifier")
