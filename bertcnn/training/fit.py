"""The training loop; several trainings from one start, their weights averaged.

Weights that were learned from the same start in different orders lie in one basin, and their mean
is better than each of them, as the mean of their answers is, but costs no more to ask (Wortsman et
al. 2022, "Model soups"). What it gains is in docs/benchmarks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import choose_lengths, plan_training
from bertcnn.data.packing import Packing
from bertcnn.data.prefetch import prefetch
from bertcnn.errors import TrainingError
from bertcnn.evaluation.macro_f1 import macro_f1_score
from bertcnn.models.forward import Collate, Forward, Inputs, Plans
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import ClassWeight, TrainingSettings
from bertcnn.training.checkpoint import restore_state, training_state
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import independent_cross_entropy, make_step, smoothed_cross_entropy

Labelled = Generator[
    tuple[Inputs, np.ndarray, np.ndarray], None, None
]  # inputs, targets, row weights

logger = logging.getLogger(__name__)

_WEIGHTS = ("kept", "mean")
_MOST_WEIGHT = 100.0  # of a label that a row has


@dataclass(frozen=True)
class Examples:
    """Labelled rows as the network wants them.

    Attributes:
        collate: makes a planned batch's inputs.
        lengths: int [rows], tokens of each row.
        labels: int [rows], 0 to C - 1.
        packing: puts several of them into one row of a batch, of training rows and then of
            validation rows too; by default each is one.
        multi_hot: bool [rows, C], which row has which label, if rows may have several; by default
            each has the one in `labels`.
    """

    collate: Collate
    lengths: np.ndarray
    labels: np.ndarray
    packing: Packing | None = None
    multi_hot: np.ndarray | None = None

    def judged(self, logits: np.ndarray) -> tuple[float, float]:
        """Macro-F1 of the answers, and the share of rows that are right, in all labels.

        A label of several is given from 1/2 on.
        """
        actual, predicted = (
            (self.labels, logits.argmax(axis=1))
            if self.multi_hot is None
            else (self.multi_hot, logits > 0)
        )
        right = predicted == actual if self.multi_hot is None else (predicted == actual).all(axis=1)
        return macro_f1_score(actual, predicted), float(np.mean(right))


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
        kept_epoch: whose weights the model now holds, counted from 1: the last one that is not
            clearly worse than the best.
        valid_logits: float32 [rows, C], of the validation rows under those weights.
        padded_lengths: the compiled shapes' lengths.
        known: of the rows that `train` was asked to answer: logits float32 [rows, C] and means of
            their token embeddings float32 [rows, D]; None where that is no cheaper than to ask the
            saved engine.
        refit_logits: float32 [rows, C], of the validation rows under the weights that the model
            holds, if these have learned from them in the end; all the rest is then from before.
        pseudo_labelled: rows without a label that were learned from with pseudo-labels.
        trainings: the weights are the mean of so many trainings'; `epochs` tell of the first one.
    """

    epochs: tuple[EpochFigures, ...]
    kept_epoch: int
    valid_logits: np.ndarray
    padded_lengths: tuple[int, ...]
    known: tuple[np.ndarray, np.ndarray] | None = None
    refit_logits: np.ndarray | None = None
    pseudo_labelled: int = 0
    trainings: int = 1

    @property
    def model_logits(self) -> np.ndarray:
        """float32 [rows, C], what the model answers on the validation rows."""
        return self.valid_logits if self.refit_logits is None else self.refit_logits


@dataclass
class TrainingState:
    """Where a training is, beside weights and optimizer."""

    epoch: int = 1
    losses: list[float] = field(default_factory=list)  # of the epoch under way
    history: list[EpochFigures] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0
    kept_epoch: int = 0
    kept_logits: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    kept_weights: dict[str, np.ndarray] = field(default_factory=dict)
    training: int = 1
    # of the trainings that have ended
    mean_weights: dict[str, np.ndarray] = field(default_factory=dict)

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As a savepoint keeps it."""
        told = {
            name: getattr(self, name)
            for name in ("epoch", "losses", "best_epoch", "best_macro_f1", "kept_epoch", "training")
        }
        weights = {
            f"{kind}/{name}": value
            for kind in _WEIGHTS
            for name, value in getattr(self, f"{kind}_weights").items()
        }
        return {**told, "history": [asdict(figures) for figures in self.history]}, {
            "kept_logits": self.kept_logits,
            **weights,
        }

    @classmethod
    def of_parts(cls, told: dict[str, Any], tensors: dict[str, np.ndarray]) -> TrainingState:
        """What `parts` gave."""
        history = [EpochFigures(**figures) for figures in told.pop("history")]
        kept, mean = (
            {
                name.removeprefix(f"{kind}/"): value
                for name, value in tensors.items()
                if name.startswith(f"{kind}/")
            }
            for kind in _WEIGHTS
        )
        return cls(
            **told,
            history=history,
            kept_logits=tensors["kept_logits"],
            kept_weights=kept,
            mean_weights=mean,
        )

    def is_over(self, patience: int | None) -> bool:
        """Whether so many epochs have passed without a better one."""
        return (
            patience is not None
            and bool(self.history)
            and self.history[-1].epoch - self.best_epoch >= patience
        )

    def ends_training(self, weights: dict[str, np.ndarray]) -> None:
        """Takes the weights of a training into the mean, and begins another one."""
        mean, share = self.mean_weights or weights, np.float32(1 / self.training)
        self.mean_weights = {
            name: mean[name] + share * (value - mean[name]) for name, value in weights.items()
        }
        self.training, self.epoch, self.losses = self.training + 1, 1, []

    def ends_epoch(self, figures: EpochFigures, rows: int) -> bool:
        """Whether to keep this epoch's weights.

        Unless the best was better by more than the standard error of a share of `rows`. Among
        epochs that the validation rows cannot tell apart the last is the best bet, since the
        learning rate falls to the end; the best figure by a hair belongs to an earlier one too
        often (the rule of one standard error, Breiman et al. 1984, section 3.4.3).
        """
        if figures.macro_f1 > self.best_macro_f1:
            self.best_macro_f1, self.best_epoch = figures.macro_f1, figures.epoch
        self.history.append(figures)
        return self.is_as_good(figures.macro_f1, rows)

    def is_as_good(self, macro_f1: float, rows: int) -> bool:
        """Whether the best epoch is not better by more than the standard error of a share of `rows`.

        Where all rows are right, that of Agresti and Coull's estimate (1998), since that of 1 would
        be 0.
        """
        share = min(self.best_macro_f1, (rows + 2) / (rows + 4))
        return macro_f1 >= self.best_macro_f1 - math.sqrt(share * (1.0 - share) / rows)


@dataclass
class Trainer:
    """Trains `model` in place, by `run`.

    It ends with the weights of the last epoch that is not clearly worse than the best one. Of
    several trainings the first one finds that epoch, the others end with it, and the model gets the
    mean of their weights, unless that is clearly worse than the first one's.

    Args:
        model: inputs by name to logits float32 [B, C], of packed rows [B, K, C].
        train: rows to learn from.
        valid: rows that choose the epoch.
        settings: how.
        layers: blocks of the encoder, for the layer-wise learning rates.
        seed: of the order of the rows.
        progress: told of every batch, and at the end of an epoch, with nothing more done, of its
            macro-F1.
        savepoints: where the training is saved from time to time, and goes on from; by default it
            is not.
        like: a result on fewer rows, to be repeated: the same epoch and number of trainings,
            whatever the validation rows say; by default they choose.
    """

    model: keras.Model
    train: Examples
    valid: Examples
    settings: TrainingSettings
    _: KW_ONLY
    layers: int
    seed: int
    progress: Progress
    savepoints: Savepoints | None = None
    like: FitResult | None = None

    def __post_init__(self) -> None:
        model, train, settings = self.model, self.train, self.settings
        self.trainings = settings.trainings if self.like is None else self.like.trainings
        packing = train.packing
        if packing is None:
            self.padded_lengths = choose_lengths(train.lengths, settings.compiled_shapes)
            self.steps = math.ceil(len(train.labels) / settings.batch_size)
        else:
            self.padded_lengths, self.steps = (
                tuple(length for _, length in packing.shapes),
                packing.steps,
            )
        self.epochs = settings.epochs_of(self.steps)
        steps = self.steps * self.epochs
        schedule = WarmupLinearDecay(
            settings.learning_rate, int(steps * settings.warmup_fraction), steps
        )
        self.optimizer = LayerwiseAdamW(
            schedule,
            layer_share(self.layers, settings),
            weight_decay=settings.weight_decay,
            clip_norm=settings.gradient_clip,
        )
        classes = model.output.shape[-1]
        if train.multi_hot is None:
            loss = smoothed_cross_entropy(settings.label_smoothing)
            self.weights = class_weights(train.labels, classes, settings.class_weight)
        else:  # the label weights go into the loss, since a row has several
            loss = independent_cross_entropy(
                positive_weights(train.multi_hot, settings.class_weight)
            )
            self.weights = np.ones(classes, np.float32)
        self.step = make_step(model, self.optimizer, loss)
        self.forward = Forward(model, self.padded_lengths)
        self.story = TrainingState()

    def run(self) -> FitResult:
        """Train, from the start or from where an interrupted training was saved.

        Raises:
            TrainingError: the loss became infinite or NaN.
            OutputError: a savepoint cannot be written.
        """
        model, optimizer, several = self.model, self.optimizer, self.trainings > 1
        start = training_state(model, optimizer) if several else {}
        saved = None if self.savepoints is None else self.savepoints.restore(model, optimizer)
        if saved is not None:
            self.story = TrainingState.of_parts(*saved)
        first = self.story.training
        for number in range(first, self.trainings + 1):
            self._train(number, goes_on=saved is not None and number == first)
            if several:
                self.story.ends_training(
                    self.story.kept_weights if number == 1 else extract(model.trainable_variables)
                )
                restore_state(start, model, optimizer)
        assign(model.trainable_variables, self.story.kept_weights, error=TrainingError)
        result = FitResult(
            tuple(self.story.history),
            self.story.kept_epoch,
            self.story.kept_logits,
            self.padded_lengths,
        )
        return self._averaged(result) if several else result

    def _train(self, number: int, *, goes_on: bool) -> None:
        """The epochs of one training; the first one's are judged."""
        story, progress = self.story, self.progress
        most = self.epochs if self.like is None else self.like.kept_epoch
        last = most if number == 1 else story.kept_epoch
        progress.stage(
            "training" if self.trainings == 1 else f"training {number} of {self.trainings}",
            self.steps * last,
            "batches",
        )
        if goes_on:
            progress.note(
                f"resuming an interrupted training at epoch {story.epoch}, batch"
                f" {len(story.losses)} of {self.steps}"
            )
            progress.advance(self.steps * (story.epoch - 1) + len(story.losses))
        while story.epoch <= last and not (number == 1 and story.is_over(self.settings.patience)):
            self._run_epoch()
            if number == 1 and (self.like is None or story.epoch == last):
                self._judge_epoch()
            story.epoch, story.losses = story.epoch + 1, []

    def _run_epoch(self) -> None:
        story, packing = self.story, self.train.packing
        chance = np.random.default_rng(
            [self.seed, story.epoch]
            if story.training == 1
            else [self.seed, story.epoch, story.training]
        )
        plans: Plans = (
            plan_training(self.train.lengths, self.padded_lengths, self.settings.batch_size, chance)
            if packing is None
            else packing.epoch(chance)
        )
        shown = (
            {"macro_f1": story.history[-1].macro_f1} if story.history and self.like is None else {}
        )
        for inputs, targets, row_weights in prefetch(
            labelled_batches(self.train, plans[len(story.losses) :], self.weights)
        ):
            story.losses.append(
                _finite(self.step(inputs, targets, row_weights), len(story.losses) + 1)
            )
            if self.savepoints is not None:
                done = self.steps * (self.epochs * (story.training - 1) + story.epoch - 1) + len(
                    story.losses
                )
                self.savepoints.offer(done, self.model, self.optimizer, story.parts)
            self.progress.advance(1, loss=float(np.mean(story.losses[-50:])), **shown)

    def _judge_epoch(self) -> None:
        story, logits = self.story, self._valid_logits()
        macro_f1, accuracy = self.valid.judged(logits)
        figures = EpochFigures(story.epoch, float(np.mean(story.losses)), macro_f1, accuracy)
        logger.info("%s", figures)
        # of rows not learned from
        self.progress.advance(0, **({"macro_f1": macro_f1} if self.like is None else {}))
        if story.ends_epoch(figures, len(self.valid.labels)):
            story.kept_epoch, story.kept_logits, story.kept_weights = (
                story.epoch,
                logits,
                extract(self.model.trainable_variables),
            )

    def _averaged(self, first: FitResult) -> FitResult:
        """Give the model, which has the first training's weights, the mean of all trainings', unless that is clearly worse."""
        assign(self.model.trainable_variables, self.story.mean_weights, error=TrainingError)
        logits = self._valid_logits()
        macro_f1, _ = self.valid.judged(logits)
        if self.like is not None or self.story.is_as_good(macro_f1, len(self.valid.labels)):
            return replace(first, valid_logits=logits, trainings=self.trainings)
        self.progress.note(
            "the mean of the trainings' weights is worse than the first one's, which are kept"
        )
        assign(self.model.trainable_variables, self.story.kept_weights, error=TrainingError)
        return first

    def _valid_logits(self) -> np.ndarray:
        packing, valid = self.train.packing, self.valid
        return self.forward.rows(
            valid.collate,
            valid.lengths,
            None if packing is None else packing.in_order(valid.lengths),
        )


def _finite(loss: float, batch: int) -> float:
    """The loss, if it is finite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss} at batch {batch} of an epoch",
            expected="a finite loss",
            fix="lower the learning rate and train again",
        )
    return loss


def labelled_batches(examples: Examples, plans: Plans, weights: np.ndarray) -> Labelled:
    """Each planned batch: inputs, targets of 0 and 1, float32 [B, C], and row weights [B], 0 for fillers; packed [B, K, C] and [B, K]."""
    for plan in plans:
        slots = plan.slots
        taken = slots >= 0
        labels = examples.labels[slots[taken]]
        targets = np.zeros((*slots.shape, len(weights)), np.float32)
        if examples.multi_hot is None:
            targets[taken, labels] = 1.0
        else:
            targets[taken] = examples.multi_hot[slots[taken]]
        row_weights = np.zeros(slots.shape, np.float32)
        row_weights[taken] = weights[labels]
        yield examples.collate(plan), targets, row_weights


def class_weights(labels: np.ndarray, classes: int, rule: ClassWeight | None) -> np.ndarray:
    """The weight of each label in the loss, float32 [C], 1 on average over the rows.

    "balanced" is rows / (C x rows of the label), as scikit-learn has it; "sqrt", the default, is
    its square root; both rescaled.
    """
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "sqrt"]
    weights = (len(labels) / (classes * counts)) ** power
    return (weights / np.mean(weights[labels])).astype(np.float32)


def positive_weights(multi_hot: np.ndarray, rule: ClassWeight | None) -> np.ndarray:
    """How much more a label that a row has counts than one that it has not, float32 [C], at most 100.

    "balanced" is the rows without the label for each row with it; "sqrt" is its square root;
    "none", the default, is 1: with weights a label's probability is too high, and a threshold does
    for rare labels what a weight would.

    Args:
        multi_hot: bool [rows, C], which row has which label.
        rule: "none", "sqrt" or "balanced"; by default "none".
    """
    having = np.maximum(multi_hot.sum(axis=0), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "none"]
    return np.minimum(
        (np.maximum(len(multi_hot) - having, 1) / having) ** power, _MOST_WEIGHT
    ).astype(np.float32)
