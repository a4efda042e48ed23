"""Trains a translator: teacher forcing, label smoothing, and the epoch that validates best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, choose_lengths, plan_scoring
from bertcnn.progress import Progress
from bertcnn.settings import TranslationTrainingSettings
from bertcnn.training.callbacks import BestEpoch
from bertcnn.training.optimizer import (
    BIASES_AND_NORMALISATION,
    LayerwiseAdamW,
    WarmupInverseSquareRoot,
)
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Arrays, batch_parts, make_figures
from bertcnn.training.trainer import Epoch, Trainer, by_epochs, shuffled

_BETA_2 = 0.98  # Vaswani et al. 2017, section 5.3
_TOKEN_BUDGET = 4096  # of a validation batch


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids.

    Attributes:
        sources: per pair int32 [S], with the end token.
        targets: per pair int32 [T], with the end token.
        start_id: what a target is written behind.
        pad_id: padding.
    """

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    start_id: int
    pad_id: int

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def lengths(self) -> np.ndarray:
        """The longer of both sides, int [pairs]."""
        return np.array([max(map(len, pair)) for pair in zip(self.sources, self.targets)])  # noqa: B905

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch.

        Targets are shifted right behind the start token in the inputs; padding and filler rows have
        the weight 0.
        """
        shape = (plan.size, plan.length)
        source, target = (np.full(shape, self.pad_id, np.int32) for _ in range(2))
        for slot, row in enumerate(plan.rows):
            source[slot, : len(self.sources[row])] = self.sources[row]
            target[slot, : len(self.targets[row])] = self.targets[row]
        given = np.concatenate([np.full((plan.size, 1), self.start_id, np.int32), target], axis=1)
        weights = (target != self.pad_id).astype(np.float32)
        return (
            {"source_ids": source, "target_ids": given[:, :-1]},
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
    *,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> tuple[tuple[Epoch, ...], Epoch]:
    """Train `model` in place; it ends with the weights of the epoch that validates best.

    Args:
        model: a `Transformer` or a `RecurrentTranslator`.
        train: pairs to learn from.
        valid: pairs that choose the epoch, by the lowest mean loss a token.
        settings: how.
        seed: of the order of the pairs.
        progress: called for every batch.
        savepoints: where the training is saved from time to time, and goes on from.
        callbacks: of Keras.

    Returns:
        The epochs, and which of them was kept.

    Raises:
        TrainingError: a loss or a gradient became infinite or NaN.
        OutputError: a savepoint cannot be written.
    """
    lengths = choose_lengths(
        np.concatenate([train.lengths, valid.lengths]), settings.compiled_shapes
    )
    batch_size = min(settings.batch_size, len(train))
    steps = math.ceil(len(train) / batch_size)
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
        by_epochs(
            shuffled(train.lengths, lengths, batch_size, seed),
            lambda plan: batch_parts(*train.batch(plan)),
        ),
        epoch_ends=range(steps, steps * settings.epochs + 1, steps),
        progress=progress,
        evaluate=lambda: _measured(measure, valid, lengths),
        callbacks=[best, *callbacks],
        savepoints=savepoints,
        shown=("loss", "val_loss"),
    ).run()
    return history, history[best.kept - 1]


def _measured(measure: Any, pairs: EncodedPairs, lengths: Sequence[int]) -> dict[str, float]:  # noqa: ANN401
    """Mean loss a token, and share of right predictions, without dropout or smoothing."""
    sums = np.zeros(3)
    for plan in plan_scoring(pairs.lengths, _TOKEN_BUDGET, lengths):
        inputs, targets = pairs.batch(plan)
        figures = measure(inputs, targets)
        sums += figures["loss"], figures["tokens_right"], targets["weights"].sum()
    return {"val_loss": float(sums[0] / sums[2]), "val_accuracy": float(sums[1] / sums[2])}
