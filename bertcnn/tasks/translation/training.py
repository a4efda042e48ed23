"""Trains a translator: teacher forcing, label smoothing, and the epoch that validates best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, choose_lengths, plan_scoring
from bertcnn.progress import Progress
from bertcnn.settings import TranslationTrainingSettings
from bertcnn.tasks.epochs import Choice, Epoch, EpochTrainer, finite
from bertcnn.training.optimizer import (
    BIASES_AND_NORMALISATION,
    LayerwiseAdamW,
    WarmupInverseSquareRoot,
)
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Arrays, make_figures, make_parts_step

LOSS = "valid_loss"  # mean a token of the validation pairs, without dropout or smoothing
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
) -> tuple[Epoch, ...]:
    """Train `model` in place; it ends with the weights of the epoch that validates best.

    Args:
        model: a `Transformer` or a `RecurrentTranslator`.
        train: pairs to learn from.
        valid: pairs that choose the epoch.
        settings: how.
        seed: of the order of the pairs.
        progress: called for every batch.
        savepoints: where the training is saved from time to time, and goes on from.

    Raises:
        TrainingError: the loss became infinite or NaN.
        OutputError: a savepoint cannot be written.
    """
    lengths = choose_lengths(
        np.concatenate([train.lengths, valid.lengths]), settings.compiled_shapes
    )
    batch_size = min(settings.batch_size, len(train))
    optimizer = LayerwiseAdamW(
        WarmupInverseSquareRoot(settings.learning_rate, settings.warmup_steps),
        lambda _: 1.0,
        weight_decay=0.0,
        clip_norm=settings.gradient_clip,
        not_decayed=BIASES_AND_NORMALISATION,
        beta_2=_BETA_2,
    )
    step = make_parts_step(model, optimizer, translation_figures(settings.label_smoothing))
    measure = make_figures(model, translation_figures(0.0))

    def evaluate() -> dict[str, float]:
        loss, accuracy = _measured(measure, valid, lengths)
        return {LOSS: loss, "valid_accuracy": accuracy}

    return EpochTrainer(
        model,
        optimizer,
        step,
        train,
        evaluate,
        chooses(settings),
        lengths=lengths,
        batch_size=batch_size,
        seed=seed,
        progress=progress,
        savepoints=savepoints,
    ).run()


def chooses(settings: TranslationTrainingSettings) -> Choice:
    """The epoch with the lowest loss on the validation pairs."""
    return Choice(LOSS, highest=False, epochs=settings.epochs, patience=settings.patience)


def _measured(measure: Any, pairs: EncodedPairs, lengths: Sequence[int]) -> tuple[float, float]:  # noqa: ANN401
    """Loss and share of right predictions a token."""
    sums = np.zeros(3)
    for plan in plan_scoring(pairs.lengths, _TOKEN_BUDGET, lengths):
        inputs, targets = pairs.batch(plan)
        figures = measure(inputs, targets)
        sums += figures["loss"], figures["tokens_right"], targets["weights"].sum()
    return finite(sums[0] / sums[2]), float(sums[1] / sums[2])
