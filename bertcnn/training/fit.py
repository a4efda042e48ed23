"""Trains a classifier: batches, loss, and the choice of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import keras
import numpy as np

from bertcnn.data import choose_lengths
from bertcnn.errors import TrainingError
from bertcnn.models import Forward, Plans, assign, extract
from bertcnn.settings import TrainingSettings
from bertcnn.training.batches import Examples, class_weights, labelled_batch, positive_weights
from bertcnn.training.callbacks import BestEpoch, EndsInTime, LateMean, standard_error
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share
from bertcnn.training.state import EpochFigures, FitResult
from bertcnn.training.step import (
    Objective,
    batch_parts,
    independent_cross_entropy,
    smoothed_cross_entropy,
)
from bertcnn.training.trainer import Epoch, Trainer, by_epochs, shuffled
from bertcnn.training.training_data import RunOptions

_TAKEN = 100  # a mean over the whole training would average about this many steps


def fit(
    model: keras.Model,
    train: Examples,
    valid: Examples,
    settings: TrainingSettings,
    run: RunOptions,
    *,
    layers: int,
) -> FitResult:
    """Train `model` in place.

    It ends with the mean of the weights of the last steps, if `settings` ask for it and the mean is
    not clearly worse than the best epoch. Otherwise it ends with the weights of the last epoch that
    is not clearly worse than the best one.

    `model` maps inputs by name to logits float32 [B, C], or [B, K, C] for packed rows. `valid` are
    the rows that choose the epoch, unless `run` has `like`, whose epochs and averaging are
    repeated. `layers` is the number of encoder layers, for layer-wise learning rates.

    Raises:
        TrainingError: a loss or a gradient became infinite or NaN.
        OutputError: a savepoint cannot be written.
        OutOfTime: a repeated training would miss the deadline.
    """
    packing, like = train.packing, run.like
    padded_lengths, steps, plans = _planned(train, settings, run.seed)
    epochs = settings.epochs_of(steps)
    total, last = steps * epochs, epochs if like is None else like.kept_epoch
    objective, weights = _objective(train, model.output.shape[-1], settings)
    forward = Forward(model, padded_lengths)

    def valid_logits() -> np.ndarray:
        in_order = None if packing is None else packing.in_order(valid.lengths)
        return forward.rows(valid.collate, valid.lengths, in_order)

    def evaluate() -> dict[str, float]:
        macro_f1, accuracy = valid.evaluate(valid_logits())
        return {"val_macro_f1": macro_f1, "val_accuracy": accuracy}

    best = BestEpoch(
        "val_macro_f1", patience=settings.patience, tolerance=standard_error(len(valid.labels))
    )
    share = settings.averaged_share if like is None or like.averaged else 0.0
    late = LateMean(late_steps(total, share))
    callbacks = [late, *([best] if like is None else []), *run.callbacks]
    if run.deadline is not None:
        callbacks.append(EndsInTime(run.deadline, len(padded_lengths), whole=like is not None))
    history = Trainer(
        model,
        _optimizer(settings, total, layers),
        objective,
        by_epochs(plans, lambda plan: batch_parts(*labelled_batch(train, plan, weights))),
        epoch_ends=range(steps, steps * last + 1, steps),
        progress=run.progress,
        evaluate=evaluate if like is None else None,
        callbacks=callbacks,
        savepoints=run.savepoints,
        shown=("loss", "macro_f1"),
    ).run()
    kept, mean = extract(model.trainable_variables), late.weights()
    averaged = bool(mean)
    if averaged:
        assign(model.trainable_variables, mean, error=TrainingError)
        logits = valid_logits()
        averaged = like is not None or best.is_as_good(valid.evaluate(logits)[0])
    if not averaged:
        assign(model.trainable_variables, kept, error=TrainingError)
        logits = valid_logits()
    return FitResult(
        _epoch_figures(history),
        len(history) if averaged or like is not None else best.kept,
        logits,
        padded_lengths,
        averaged=averaged,
    )


def late_steps(steps: int, share: float) -> range:
    """The steps whose weights are averaged, the last one first.

    Example:
        >>> late_steps(400, 0.5)[:3], len(late_steps(400, 0.5))
        (range(400, 388, -4), 50)
    """
    return range(steps, math.ceil((1.0 - share) * steps), -max(1, steps // _TAKEN))


def _planned(
    train: Examples, settings: TrainingSettings, seed: int
) -> tuple[tuple[int, ...], int, Callable[[int], Plans]]:
    """Padded lengths, steps of an epoch, and a function of an epoch to its batch plans."""
    packing = train.packing
    if packing is not None:
        return (
            tuple(length for _, length in packing.shapes),
            packing.steps,
            lambda epoch: packing.epoch(np.random.default_rng([seed, epoch])),
        )
    padded_lengths = choose_lengths(train.lengths, settings.compiled_shapes)
    steps = math.ceil(len(train.labels) / settings.batch_size)
    plans = shuffled(train.lengths, padded_lengths, settings.batch_size, seed)
    return padded_lengths, steps, plans


def _optimizer(settings: TrainingSettings, steps: int, layers: int) -> LayerwiseAdamW:
    return LayerwiseAdamW(
        WarmupLinearDecay(settings.learning_rate, int(steps * settings.warmup_fraction), steps),
        layer_share(layers, settings),
        weight_decay=settings.weight_decay,
        clip_norm=settings.gradient_clip,
    )


def _epoch_figures(history: Sequence[Epoch]) -> tuple[EpochFigures, ...]:
    return tuple(
        EpochFigures(one.epoch, one.loss, one.figures["val_macro_f1"], one.figures["val_accuracy"])
        for one in history
        if one.figures
    )


def _objective(
    train: Examples, classes: int, settings: TrainingSettings
) -> tuple[Objective, np.ndarray]:
    """The objective, and the weight of each label's rows, float32 [C]."""
    if train.multi_hot is None:
        smoothing = settings.label_smoothing if train.soft is None else 0.0
        weights = class_weights(train.labels, classes, settings.class_weight)
        return smoothed_cross_entropy(smoothing), weights
    # label weights go into the loss, since a row has several labels
    counts = positive_weights(train.multi_hot, settings.class_weight)
    return independent_cross_entropy(counts), np.ones(classes, np.float32)
