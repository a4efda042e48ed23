"""The training loop: epochs of padded batches, the best weights by macro-F1 kept."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
from sklearn.metrics import f1_score

from bertcnn.data.batches import BatchPlan, choose_lengths, plan_training
from bertcnn.errors import TrainingError
from bertcnn.models.forward import Collate, Forward, Inputs
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import TrainingSettings
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share
from bertcnn.training.step import Step, make_step, smoothed_cross_entropy

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Examples:
    """Labelled rows as the network wants them.

    Attributes:
        collate: makes a planned batch's inputs.
        lengths: int [rows], tokens of each row.
        labels: int [rows], 0 to C - 1.
    """

    collate: Collate
    lengths: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class EpochFigures:
    """What one epoch gave: its mean loss in training, and how the validation rows fared after it."""

    epoch: int
    loss: float
    macro_f1: float
    accuracy: float


@dataclass(frozen=True)
class FitResult:
    """What training gave, beside the weights in the model.

    Attributes:
        epochs: one entry for each epoch.
        best_epoch: whose weights the model now holds, counted from 1.
        valid_logits: float32 [rows, C], of the validation rows under those weights.
        padded_lengths: the compiled shapes' lengths.
    """

    epochs: tuple[EpochFigures, ...]
    best_epoch: int
    valid_logits: np.ndarray
    padded_lengths: tuple[int, ...]


def fit(
    model: keras.Model, train: Examples, valid: Examples, settings: TrainingSettings, *, layers: int, seed: int, progress: Progress
) -> FitResult:
    """Train `model` in place; it ends with the weights of its best epoch.

    Args:
        model: inputs by name to logits float32 [B, C].
        train: rows to learn from.
        valid: rows that choose the best epoch.
        settings: how.
        layers: blocks of the encoder, for the layer-wise learning rates.
        seed: of the order of the rows.
        progress: told of every batch.

    Raises:
        TrainingError: the loss became infinite or NaN.
    """
    padded_lengths = choose_lengths(train.lengths, settings.compiled_shapes)
    steps = math.ceil(len(train.labels) / settings.batch_size)
    epochs = max(settings.epochs, math.ceil(settings.fewest_steps / steps))
    schedule = WarmupLinearDecay(settings.learning_rate, int(steps * epochs * settings.warmup_fraction), steps * epochs)
    optimizer = LayerwiseAdamW(
        schedule, layer_share(layers, settings), weight_decay=settings.weight_decay, clip_norm=settings.gradient_clip
    )
    step = make_step(model, optimizer, smoothed_cross_entropy(settings.label_smoothing))
    forward = Forward(model, padded_lengths)
    weights = class_weights(train.labels, model.output.shape[-1], settings.class_weight)

    history: list[EpochFigures] = []
    best, best_logits, best_weights = -1.0, np.empty((0, 0), np.float32), extract(model.trainable_variables)
    progress.stage("training", steps * epochs, "batches")
    for epoch in range(1, epochs + 1):
        plans = plan_training(train.lengths, padded_lengths, settings.batch_size, np.random.default_rng([seed, epoch]))
        loss = train_epoch(step, labelled_batches(train, plans, weights), progress, history[-1] if history else None)
        logits = forward.rows(valid.collate, valid.lengths)
        predicted = logits.argmax(axis=1)
        macro_f1 = float(f1_score(valid.labels, predicted, average="macro", zero_division=0.0))
        history.append(EpochFigures(epoch, loss, macro_f1, float(np.mean(predicted == valid.labels))))
        logger.info("%s", history[-1])
        if macro_f1 > best:
            best, best_epoch, best_logits, best_weights = macro_f1, epoch, logits, extract(model.trainable_variables)
        elif epoch - best_epoch >= settings.patience:
            break
    assign(model.trainable_variables, best_weights, error=TrainingError)
    return FitResult(tuple(history), best_epoch, best_logits, padded_lengths)


def train_epoch(
    step: Step, batches: Iterator[tuple[Inputs, np.ndarray, np.ndarray]], progress: Progress, before: EpochFigures | None = None
) -> float:
    """Train on each batch once; returns the mean loss.

    Raises:
        TrainingError: the loss became infinite or NaN.
    """
    shown = {} if before is None else {"macro_f1": before.macro_f1}
    losses: list[float] = []
    for inputs, targets, weights in batches:
        losses.append(step(inputs, targets, weights))
        if not math.isfinite(losses[-1]):
            raise TrainingError(
                f"the loss became {losses[-1]} at batch {len(losses)} of an epoch",
                expected="a finite loss",
                fix="lower the learning rate and train again",
            )
        progress.advance(1, loss=float(np.mean(losses[-50:])), **shown)
    return float(np.mean(losses))


def labelled_batches(examples: Examples, plans: list[BatchPlan], weights: np.ndarray) -> Iterator[tuple[Inputs, np.ndarray, np.ndarray]]:
    """Each planned batch: inputs, one-hot targets float32 [B, C] and row weights float32 [B] (0 for filler rows)."""
    for plan in plans:
        labels = examples.labels[plan.rows]
        targets = np.zeros((plan.size, len(weights)), np.float32)
        targets[np.arange(len(labels)), labels] = 1.0
        row_weights = np.zeros(plan.size, np.float32)
        row_weights[: len(labels)] = weights[labels]
        yield examples.collate(plan), targets, row_weights


def class_weights(labels: np.ndarray, classes: int, rule: str) -> np.ndarray:
    """The weight of each label in the loss, float32 [C], 1 on average over the rows.

    "balanced" is rows / (C x rows of the label), as scikit-learn has it; "sqrt" is its square root; both rescaled.
    """
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule]
    weights = (len(labels) / (classes * counts)) ** power
    return (weights / np.mean(weights[labels])).astype(np.float32)
