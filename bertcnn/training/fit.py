"""The training loop: epochs of padded batches, the best weights by macro-F1 kept."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from typing import Any

import keras
import numpy as np
from sklearn.metrics import f1_score

from bertcnn.data.ahead import ahead
from bertcnn.data.batches import choose_lengths, plan_training
from bertcnn.data.packing import Packing
from bertcnn.errors import TrainingError
from bertcnn.models.forward import Collate, Forward, Inputs, Plans
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import ClassWeight, TrainingSettings
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import independent_cross_entropy, make_step, smoothed_cross_entropy

Labelled = Generator[tuple[Inputs, np.ndarray, np.ndarray], None, None]  # inputs, targets, row weights

logger = logging.getLogger(__name__)

_MOST_WEIGHT = 100.0  # of a label that a row has


@dataclass(frozen=True)
class Examples:
    """Labelled rows as the network wants them.

    Attributes:
        collate: makes a planned batch's inputs.
        lengths: int [rows], tokens of each row.
        labels: int [rows], 0 to C - 1.
        packing: puts several of them into one row of a batch, of training rows and then of validation rows too; by default each is one.
        sets: bool [rows, C], which row has which label, if rows may have several; by default each has the one in `labels`.
    """

    collate: Collate
    lengths: np.ndarray
    labels: np.ndarray
    packing: Packing | None = None
    sets: np.ndarray | None = None

    def judged(self, logits: np.ndarray) -> tuple[float, float]:
        """Macro-F1 of the answers, and the share of rows that are right, in all labels; a label of several is given from 1/2 on."""
        actual, predicted = (self.labels, logits.argmax(axis=1)) if self.sets is None else (self.sets, logits > 0)
        right = predicted == actual if self.sets is None else (predicted == actual).all(axis=1)
        return float(f1_score(actual, predicted, average="macro", zero_division=0.0)), float(np.mean(right))


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
        kept_epoch: whose weights the model now holds, counted from 1: the last one that is not clearly worse than the best.
        valid_logits: float32 [rows, C], of the validation rows under those weights.
        padded_lengths: the compiled shapes' lengths.
        known: of the rows that `train` was asked to answer: logits float32 [rows, C] and means of their token embeddings float32 [rows, D];
            None where that is no cheaper than to ask the saved engine.
        refit_logits: float32 [rows, C], of the validation rows under the weights that the model holds, if these have learned from them in
            the end; all the rest is then from before.
    """

    epochs: tuple[EpochFigures, ...]
    kept_epoch: int
    valid_logits: np.ndarray
    padded_lengths: tuple[int, ...]
    known: tuple[np.ndarray, np.ndarray] | None = None
    refit_logits: np.ndarray | None = None

    @property
    def model_logits(self) -> np.ndarray:
        """float32 [rows, C], what the model answers on the validation rows."""
        return self.valid_logits if self.refit_logits is None else self.refit_logits


@dataclass
class _Story:
    """Where a training is, beside weights and optimizer."""

    epoch: int = 1
    losses: list[float] = field(default_factory=list)  # of the epoch under way
    history: list[EpochFigures] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0
    kept_epoch: int = 0
    kept_logits: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    kept_weights: dict[str, np.ndarray] = field(default_factory=dict)

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As a savepoint keeps it."""
        told = {name: getattr(self, name) for name in ("epoch", "losses", "best_epoch", "best_macro_f1", "kept_epoch")}
        weights = {f"kept/{name}": value for name, value in self.kept_weights.items()}
        return {**told, "history": [asdict(figures) for figures in self.history]}, {"kept_logits": self.kept_logits, **weights}

    @classmethod
    def of_parts(cls, told: dict[str, Any], tensors: dict[str, np.ndarray]) -> _Story:
        """What `parts` gave."""
        history = [EpochFigures(**figures) for figures in told.pop("history")]
        weights = {name.removeprefix("kept/"): value for name, value in tensors.items() if name.startswith("kept/")}
        return cls(**told, history=history, kept_logits=tensors["kept_logits"], kept_weights=weights)

    def is_over(self, patience: int | None) -> bool:
        """Whether so many epochs have passed without a better one."""
        return patience is not None and bool(self.history) and self.history[-1].epoch - self.best_epoch >= patience

    def ends_epoch(self, figures: EpochFigures, rows: int) -> bool:
        """Whether to keep this epoch's weights: unless the best was better by more than the standard error of a share of `rows`.

        Among epochs that the validation rows cannot tell apart the last is the best bet, since the learning rate falls to the end; the
        best figure by a hair belongs to an earlier one too often (the rule of one standard error, Breiman et al. 1984, section 3.4.3).
        """
        if figures.macro_f1 > self.best_macro_f1:
            self.best_macro_f1, self.best_epoch = figures.macro_f1, figures.epoch
        error = math.sqrt(self.best_macro_f1 * (1.0 - self.best_macro_f1) / rows)
        self.history.append(figures)
        return figures.macro_f1 >= self.best_macro_f1 - error


def fit(  # noqa: PLR0913 - what a training is made of
    model: keras.Model,
    train: Examples,
    valid: Examples,
    settings: TrainingSettings,
    *,
    layers: int,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
    until: int | None = None,
) -> FitResult:
    """Train `model` in place; it ends with the weights of the last epoch that is not clearly worse than the best one.

    Args:
        model: inputs by name to logits float32 [B, C], of packed rows [B, K, C].
        train: rows to learn from.
        valid: rows that choose the epoch.
        settings: how.
        layers: blocks of the encoder, for the layer-wise learning rates.
        seed: of the order of the rows.
        progress: told of every batch, and at the end of an epoch, with nothing more done, of its macro-F1.
        savepoints: where the training is saved from time to time, and goes on from; by default it is not.
        until: the epoch after which to stop, and whose weights to keep, whatever the validation rows say; by default they choose.

    Raises:
        TrainingError: the loss became infinite or NaN.
        OutputError: a savepoint cannot be written.
    """
    packing = train.packing
    if packing is None:
        padded_lengths = choose_lengths(train.lengths, settings.compiled_shapes)
        steps = math.ceil(len(train.labels) / settings.batch_size)
    else:
        padded_lengths, steps = tuple(length for _, length in packing.shapes), packing.steps
    epochs = max(settings.epochs, math.ceil(settings.fewest_steps / steps))
    schedule = WarmupLinearDecay(settings.learning_rate, int(steps * epochs * settings.warmup_fraction), steps * epochs)
    optimizer = LayerwiseAdamW(
        schedule, layer_share(layers, settings), weight_decay=settings.weight_decay, clip_norm=settings.gradient_clip
    )
    classes = model.output.shape[-1]
    if train.sets is None:
        loss, weights = smoothed_cross_entropy(settings.label_smoothing), class_weights(train.labels, classes, settings.class_weight)
    else:  # the label weights go into the loss, since a row has several
        loss, weights = independent_cross_entropy(positive_weights(train.sets, settings.class_weight)), np.ones(classes, np.float32)
    step = make_step(model, optimizer, loss)
    forward = Forward(model, padded_lengths)

    saved = None if savepoints is None else savepoints.restore(model, optimizer)
    story = _Story() if saved is None else _Story.of_parts(*saved)

    def learned(loss: float) -> None:
        story.losses.append(_finite(loss, len(story.losses) + 1))
        done = steps * (story.epoch - 1) + len(story.losses)
        if savepoints is not None:
            savepoints.offer(done, model, optimizer, story.parts)

    progress.stage("training", steps * (until or epochs), "batches")
    if saved is not None:
        progress.note(f"going on from epoch {story.epoch}, batch {len(story.losses)} of {steps}, where an interrupted training was saved")
        progress.advance(steps * (story.epoch - 1) + len(story.losses))
    while story.epoch <= (until or epochs) and not story.is_over(settings.patience):
        chance = np.random.default_rng([seed, story.epoch])
        plans: Plans = (
            plan_training(train.lengths, padded_lengths, settings.batch_size, chance) if packing is None else packing.epoch(chance)
        )
        shown = {"macro_f1": story.history[-1].macro_f1} if story.history else {}
        for inputs, targets, row_weights in ahead(labelled_batches(train, plans[len(story.losses) :], weights)):
            learned(step(inputs, targets, row_weights))
            progress.advance(1, loss=float(np.mean(story.losses[-50:])), **shown)
        if until is None or story.epoch == until:
            logits = forward.rows(valid.collate, valid.lengths, None if packing is None else packing.in_order(valid.lengths))
            macro_f1, accuracy = valid.judged(logits)
            figures = EpochFigures(story.epoch, float(np.mean(story.losses)), macro_f1, accuracy)
            logger.info("%s", figures)
            progress.advance(0, **({"macro_f1": macro_f1} if until is None else {}))  # of rows not learned from
            if story.ends_epoch(figures, len(valid.labels)):
                story.kept_epoch, story.kept_logits, story.kept_weights = story.epoch, logits, extract(model.trainable_variables)
        story.epoch, story.losses = story.epoch + 1, []
    assign(model.trainable_variables, story.kept_weights, error=TrainingError)
    return FitResult(tuple(story.history), story.kept_epoch, story.kept_logits, padded_lengths)


def _finite(loss: float, batch: int) -> float:
    """The loss, if it is finite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss} at batch {batch} of an epoch", expected="a finite loss", fix="lower the learning rate and train again"
        )
    return loss


def labelled_batches(examples: Examples, plans: Plans, weights: np.ndarray) -> Labelled:
    """Each planned batch: inputs, targets of 0 and 1, float32 [B, C], and row weights [B], 0 for fillers; packed [B, K, C] and [B, K]."""
    for plan in plans:
        slots = plan.slots
        taken = slots >= 0
        labels = examples.labels[slots[taken]]
        targets = np.zeros((*slots.shape, len(weights)), np.float32)
        if examples.sets is None:
            targets[taken, labels] = 1.0
        else:
            targets[taken] = examples.sets[slots[taken]]
        row_weights = np.zeros(slots.shape, np.float32)
        row_weights[taken] = weights[labels]
        yield examples.collate(plan), targets, row_weights


def class_weights(labels: np.ndarray, classes: int, rule: ClassWeight | None) -> np.ndarray:
    """The weight of each label in the loss, float32 [C], 1 on average over the rows.

    "balanced" is rows / (C x rows of the label), as scikit-learn has it; "sqrt", the default, is its square root; both rescaled.
    """
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "sqrt"]
    weights = (len(labels) / (classes * counts)) ** power
    return (weights / np.mean(weights[labels])).astype(np.float32)


def positive_weights(sets: np.ndarray, rule: ClassWeight | None) -> np.ndarray:
    """How much more a label that a row has counts than one that it has not, float32 [C], at most 100.

    "balanced" is the rows without the label for each row with it; "sqrt" is its square root; "none", the default, is 1: with weights a
    label's probability is too high, and a threshold does for rare labels what a weight would.

    Args:
        sets: bool [rows, C], which row has which label.
        rule: "none", "sqrt" or "balanced"; by default "none".
    """
    having = np.maximum(sets.sum(axis=0), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "none"]
    return np.minimum((np.maximum(len(sets) - having, 1) / having) ** power, _MOST_WEIGHT).astype(np.float32)
