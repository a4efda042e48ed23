"""The training loop, and the mean of the weights it passes through.

The weights of a training's last steps lie in one basin. Their mean is better than each of them, and
scoring takes no longer than with one (Izmailov et al. 2018, "Averaging Weights Leads to Wider
Optima and Better Generalization"). What it gains is in docs/benchmarks.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import KW_ONLY, dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import choose_lengths, plan_training
from bertcnn.data.prefetch import prefetch
from bertcnn.errors import TrainingError
from bertcnn.layers.device import on_gpu
from bertcnn.models.forward import Forward, Plans
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import TrainingSettings
from bertcnn.training.batches import Examples, class_weights, labelled_batches, positive_weights
from bertcnn.training.deadline import Deadline, OutOfTime, seconds_of_epoch
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.state import EpochFigures, FitResult, TrainingState
from bertcnn.training.step import independent_cross_entropy, make_step, smoothed_cross_entropy

logger = logging.getLogger(__name__)

_TAKEN = 100  # weights of as many steps would make up the mean if it were over the whole training
_SHOWN = 50  # batches that the shown loss is the mean of
_BETWEEN_READS = 20  # steps on a GPU, which would wait for each loss that is read


@dataclass
class Trainer:
    """Trains `model` in place, by `run`.

    It ends with the mean of the weights in the last steps, if `settings` say so and that is not
    clearly worse than the best epoch; else with the weights of the last epoch that is not clearly
    worse than the best one.

    Args:
        model: inputs by name to logits float32 [B, C], of packed rows [B, K, C].
        train: rows to learn from.
        valid: rows that choose the epoch.
        settings: how.
        layers: blocks of the encoder, for the layer-wise learning rates.
        seed: of the order of the rows.
        progress: called for every batch, and at the end of an epoch, with nothing more done, of its
            macro-F1.
        savepoints: where the training is saved from time to time, and goes on from; by default it
            is not.
        like: a result on fewer rows, to be repeated: the same epoch and mean, whatever the
            validation rows say; by default they choose.
        deadline: where another epoch would end after it, training ends with the epoch that is over;
            by default there is none.
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
    deadline: Deadline | None = None

    def __post_init__(self) -> None:
        model, train, settings = self.model, self.train, self.settings
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
        share = settings.averaged_share if self.like is None or self.like.averaged else 0.0
        # the steps after which weights are taken into the mean, the last one among them
        self.late = range(steps, math.ceil((1.0 - share) * steps), -max(1, steps // _TAKEN))
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
            loss = smoothed_cross_entropy(settings.label_smoothing if train.soft is None else 0.0)
            self.weights = class_weights(train.labels, classes, settings.class_weight)
        else:  # the label weights go into the loss, since a row has several
            loss = independent_cross_entropy(
                positive_weights(train.multi_hot, settings.class_weight)
            )
            self.weights = np.ones(classes, np.float32)
        self.step = make_step(model, self.optimizer, loss)
        self.forward = Forward(model, self.padded_lengths)
        self.state = TrainingState()
        self.epoch_seconds = 0.0  # of the last one
        self.unread: list[Any] = []  # losses of the last steps, on the device
        self.reads_after = _BETWEEN_READS if on_gpu() else 1

    def run(self) -> FitResult:
        """Train, from the start or from where an interrupted training was saved.

        Raises:
            TrainingError: the loss became infinite or NaN.
            OutputError: a savepoint cannot be written.
            OutOfTime: a result is to be repeated, and the deadline does not allow it.
        """
        state, progress, settings = self.state, self.progress, self.settings
        last = self.epochs if self.like is None else self.like.kept_epoch
        progress.stage("training", self.steps * last, "batches")
        if self._restore():
            state = self.state
            progress.note(
                f"resuming an interrupted training at epoch {state.epoch}, batch"
                f" {len(state.losses)} of {self.steps}"
            )
            progress.advance(self.steps * (state.epoch - 1) + len(state.losses))
        while state.epoch <= last and not state.is_over(settings.patience):
            if self._is_late(1 if self.like is None else last - state.epoch + 1):
                self._end_early()
                break
            self._run_epoch()
            if self.like is None or state.epoch == last:
                self._evaluate_epoch()
            state.epoch, state.losses = state.epoch + 1, []
        self._keep_mean()
        assign(self.model.trainable_variables, state.kept_weights, error=TrainingError)
        return FitResult(
            tuple(state.history),
            state.kept_epoch,
            state.kept_logits,
            self.padded_lengths,
            averaged=state.averaged,
        )

    def _restore(self) -> bool:
        """Go back to where an interrupted training was saved; whether there was one."""
        if self.savepoints is None:
            return False
        saved = self.savepoints.restore(self.model, self.optimizer)
        if saved is not None:
            self.state = TrainingState.of_parts(*saved)
        return saved is not None

    def _keep_mean(self) -> None:
        """Keep the mean of the last steps' weights, unless it is clearly worse than the best epoch.

        The model has these weights, or any others, afterwards.
        """
        state = self.state
        if not state.late_steps:
            return
        late_weights = state.late_arrays()
        assign(self.model.trainable_variables, late_weights, error=TrainingError)
        logits = self._valid_logits()
        macro_f1, _ = self.valid.evaluate(logits)
        if self.like is not None or state.is_as_good(macro_f1, len(self.valid.labels)):
            state.averaged = True
            state.kept_epoch, state.kept_logits, state.kept_weights = (
                state.epoch - 1,
                logits,
                late_weights,
            )

    def _is_late(self, epochs: int) -> bool:
        """Whether so many more epochs, as fast as the last one, would end after the deadline."""
        return (
            self.deadline is not None
            and self.epoch_seconds > 0
            and self.deadline.is_missed_after(epochs * self.epoch_seconds)
        )

    def _end_early(self) -> None:
        """Say what is left out, if less than the whole counts at all."""
        if self.like is not None:
            raise OutOfTime
        self.progress.note(
            f"training ends with epoch {self.state.epoch - 1} of {self.epochs}, since another"
            f" one would end after {self.deadline}"
        )

    def _run_epoch(self) -> None:
        state, packing = self.state, self.train.packing
        chance = np.random.default_rng([self.seed, state.epoch])
        plans: Plans = (
            plan_training(self.train.lengths, self.padded_lengths, self.settings.batch_size, chance)
            if packing is None
            else packing.epoch(chance)
        )
        shown = (
            {"macro_f1": state.history[-1].macro_f1} if state.history and self.like is None else {}
        )
        batches, begun = [], time.monotonic()
        for inputs, targets, row_weights in prefetch(
            labelled_batches(self.train, plans[len(state.losses) :], self.weights)
        ):
            self.unread.append(self.step(inputs, targets, row_weights))
            if len(self.unread) == self.reads_after:
                self._read_losses()
            done = self.steps * (state.epoch - 1) + len(state.losses) + len(self.unread)
            if done in self.late:
                state.ends_late_step(self.model.trainable_variables)
            if self.savepoints is not None:
                self.savepoints.offer(done, self.model, self.optimizer, self._parts)
            if state.losses:
                shown["loss"] = float(np.mean(state.losses[-_SHOWN:]))
            self.progress.advance(1, **shown)
            batches.append(time.monotonic() - begun)
            begun = time.monotonic()
        self._read_losses()
        if batches:
            batches[-1] += time.monotonic() - begun  # of the steps that were still under way
            compiling = len(self.padded_lengths) if self.reads_after == 1 else 0
            self.epoch_seconds = seconds_of_epoch(batches, self.steps, compiling)

    def _read_losses(self) -> None:
        """Fetch the losses of the last steps, and end the training if one is not finite."""
        for loss in self.unread:
            self.state.losses.append(_finite(float(loss), len(self.state.losses) + 1))
        self.unread = []

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """For a savepoint: the state, with all losses."""
        self._read_losses()
        return self.state.parts()

    def _evaluate_epoch(self) -> None:
        state, logits = self.state, self._valid_logits()
        macro_f1, accuracy = self.valid.evaluate(logits)
        figures = EpochFigures(state.epoch, float(np.mean(state.losses)), macro_f1, accuracy)
        logger.info("%s", figures)
        # of rows not learned from
        self.progress.advance(0, **({"macro_f1": macro_f1} if self.like is None else {}))
        if state.ends_epoch(figures, len(self.valid.labels)):
            state.kept_epoch, state.kept_logits, state.kept_weights = (
                state.epoch,
                logits,
                extract(self.model.trainable_variables),
            )

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
