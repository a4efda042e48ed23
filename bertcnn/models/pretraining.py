"""BERT with its two pretraining heads."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers import GatherTokens, MaskedLanguageHead, bert_initializer
from bertcnn.models.bert import Bert

_HEAD_SEED = 200_000  # distinct from the seeds of encoder and classifier


@keras.saving.register_keras_serializable(package="bertcnn")
class BertPretraining(keras.Model):
    """The encoder with the heads of both pretraining tasks: MLM and NSP.

    Devlin et al. 2019, section 3.1.

    Args:
        encoder: a `Bert`. If it is packed, each document (pair) of a row has its own NSP output.

    Call arguments, a dict: the encoder's own, and
        masked_positions: int32 [B, P], positions of the masked tokens.
        document_starts: int32 [B, K], position of each document's [CLS]; only if packed.

    Returns:
        A dict with `mlm_logits`, float32 [B, P, V], and `nsp_logits`, float32 [B, 2] (packed: [B,
        K, 2]), class 0 for "B follows A".

    Example:
        >>> from bertcnn.settings import EncoderSettings
        >>> settings = EncoderSettings(
        ...     vocabulary_size=30, width=8, layers=2, heads=2, feed_forward_width=16
        ... )
        >>> encoder = Bert(settings)
        >>> BertPretraining(encoder).output["mlm_logits"].shape
        (None, None, 30)
    """

    def __init__(self, encoder: Bert, *, seed: int = 0, **kwargs: Any) -> None:
        # === Layers ===
        settings = encoder.settings
        embeddings = encoder.get_layer("embeddings")
        pooler = encoder.get_layer("pooler")
        first = _HEAD_SEED + seed
        words = MaskedLanguageHead(
            embeddings,
            activation=settings.activation,
            epsilon=settings.layer_norm_epsilon,
            seed=first,
            name="mlm",
            dtype=embeddings.dtype_policy,
        )
        follows = keras.layers.Dense(
            2, kernel_initializer=bert_initializer(first + 1), name="nsp", dtype="float32"
        )

        # === Functional Model ===
        inputs = {
            **encoder.input,
            "masked_positions": keras.Input((None,), dtype="int32", name="masked_positions"),
        }
        hidden = encoder.sequence_output  # [B, T, D]
        if "document_ids" in inputs:
            inputs["document_starts"] = keras.Input((None,), dtype="int32", name="document_starts")
            # [B, K, D]
            pooled = pooler(GatherTokens(name="documents")(hidden, inputs["document_starts"]))
        else:
            pooled = encoder.output["pooled_output"]  # [B, D]
        masked = GatherTokens(name="masked")(hidden, inputs["masked_positions"])  # [B, P, D]
        super().__init__(
            inputs=inputs,
            outputs={"mlm_logits": words(masked), "nsp_logits": follows(pooled)},
            **kwargs,
        )

        # === Config ===
        self.encoder, self.seed = encoder, seed

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {"encoder": self.encoder.get_config(), "seed": self.seed, "name": self.name}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> BertPretraining:
        """The same architecture with new initial weights."""
        return cls(Bert.from_config(config.pop("encoder")), **config)


def pretraining_figures(outputs: Any, targets: Any) -> dict[str, Any]:
    """Loss and accuracy of both tasks, as weighted sums over a batch, float32 [] each.

    They become means if the weights are divided by their sum over the step. The targets are
    `masked_labels` int32 [B, P], `masked_weights` float32 [B, P], `next_labels` int32 and
    `next_weights` float32, [B] or [B, K]. `loss` is the sum of `mlm_loss` and `nsp_loss`.
    """
    mlm_loss, mlm_right = _sums(
        outputs["mlm_logits"], targets["masked_labels"], targets["masked_weights"]
    )
    nsp_loss, nsp_right = _sums(
        outputs["nsp_logits"], targets["next_labels"], targets["next_weights"]
    )
    return {
        "loss": mlm_loss + nsp_loss,
        "mlm_loss": mlm_loss,
        "mlm_accuracy": mlm_right,
        "nsp_loss": nsp_loss,
        "nsp_accuracy": nsp_right,
    }


def _sums(logits: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    logits = ops.cast(logits, "float32")
    true = ops.one_hot(labels, logits.shape[-1], dtype="float32")
    losses = ops.logsumexp(logits, axis=-1) - ops.sum(logits * true, axis=-1)
    right = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), labels), "float32")
    return ops.sum(losses * weights), ops.sum(right * weights)
