"""Trains a translator with teacher forcing and label smoothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data import BatchPlan, choose_lengths, pad, plan_scoring
from bertcnn.settings import TranslationTrainingSettings
from bertcnn.tasks.training import TOKEN_BUDGET, epochs_of
from bertcnn.training import (
    BIASES_AND_NORMALISATION,
    Arrays,
    BestEpoch,
    Epoch,
    LayerwiseAdamW,
    RunOptions,
    Trainer,
    WarmupInverseSquareRoot,
    make_figures,
)

_BETA_2 = 0.98  # Vaswani et al. 2017, section 5.3


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as token ids with end tokens, int32 [S] and [T] each."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    start_id: int
    pad_id: int

    @property
    def lengths(self) -> np.ndarray:
        """The longer of both sides, int [pairs]."""
        return np.maximum([len(ids) for ids in self.sources], [len(ids) for ids in self.targets])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch.

        Target inputs are shifted right after [CLS]. Padding and filler rows have weight 0.
        """
        source, target = (
            pad(ids, plan, self.pad_id).token_ids for ids in (self.sources, self.targets)
        )
        decoder_inputs = np.concatenate(
            [np.full((plan.size, 1), self.start_id, np.int32), target], axis=1
        )
        weights = (target != self.pad_id).astype(np.float32)
        return (
            {"source_ids": source, "target_ids": decoder_inputs[:, :-1]},
            {"target_ids": target, "weights": weights},
        )


def translation_figures(smoothing: float) -> Any:  # noqa: ANN401 - an `Objective`
    """A function of logits [B, T, V] and targets to the weighted sums of loss and right tokens.

    The loss is the cross-entropy with label smoothing (Szegedy et al. 2016, section 7).
    """

    def figures(logits: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        ops, true, weights = keras.ops, targets["target_ids"], targets["weights"]
        logs = ops.log_softmax(logits, axis=-1)
        likely = ops.take_along_axis(logs, true[..., None], axis=-1)[..., 0]  # [B, T]
        losses = -(1.0 - smoothing) * likely - smoothing * ops.mean(logs, axis=-1)
        right = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), true)
        return {
            "loss": ops.sum(losses * weights),
            "tokens_right": ops.sum(ops.cast(right, "float32") * weights),
        }

    return figures


def train_translator(
    model: keras.Model,
    train: EncodedPairs,
    valid: EncodedPairs,
    settings: TranslationTrainingSettings,
    options: RunOptions,
) -> tuple[tuple[Epoch, ...], Epoch]:
    """Train `model` in place, and keep the epoch with the lowest validation loss.

    Returns all epochs and the one that was kept.
    """
    lengths = choose_lengths(
        np.concatenate([train.lengths, valid.lengths]), settings.compiled_shapes
    )
    batches, ends = epochs_of(train, settings, lengths, options.seed)
    measure = make_figures(model, translation_figures(0.0))
    best = BestEpoch("val_loss", highest=False, patience=settings.patience)
    history = Trainer(
        model,
        LayerwiseAdamW(
            WarmupInverseSquareRoot(settings.learning_rate, settings.warmup_steps),
            lambda _: 1.0,
            weight_decay=0.0,
            clip_norm=settings.gradient_clip,
            not_decayed=BIASES_AND_NORMALISATION,
            beta_2=_BETA_2,
        ),
        translation_figures(settings.label_smoothing),
        batches,
        epoch_ends=ends,
        progress=options.progress,
        evaluate=lambda: _measured(measure, valid, lengths),
        callbacks=[best, *options.callbacks],
        savepoints=options.savepoints,
        shown=("loss", "val_loss"),
    ).run()
    return history, history[best.kept - 1]


def _measured(measure: Any, pairs: EncodedPairs, lengths: Sequence[int]) -> dict[str, float]:  # noqa: ANN401
    """Mean loss per token and token accuracy, without dropout or label smoothing."""
    sums = np.zeros(3)
    for plan in plan_scoring(pairs.lengths, TOKEN_BUDGET, lengths):
        inputs, targets = pairs.batch(plan)
        figures = measure(inputs, targets)
        sums += figures["loss"], figures["tokens_right"], targets["weights"].sum()
    return {"val_loss": float(sums[0] / sums[2]), "val_accuracy": float(sums[1] / sums[2])}
