"""A training in epochs, of which the one is kept that is best on held-out examples."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, Protocol

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, plan_training
from bertcnn.data.prefetch import prefetch
from bertcnn.errors import TrainingError
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Arrays, PartsStep

logger = logging.getLogger(__name__)

_SHOWN = 50  # batches that the shown loss is the mean of


class Examples(Protocol):
    """What is learned from."""

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each, int [examples]."""

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets, with the `weights` of what the loss is a sum of."""


@dataclass(frozen=True)
class Epoch:
    """Figures of an epoch.

    Attributes:
        epoch: from 1.
        loss: mean in training.
        figures: on held-out examples, by name.
    """

    epoch: int
    loss: float
    figures: dict[str, float]


@dataclass(frozen=True)
class Choice:
    """Which epoch is kept, and when to stop.

    Attributes:
        figure: the name of the figure that decides.
        highest: whether high values are better.
        epochs: most epochs.
        patience: epochs without a better one before training stops; None for never.
    """

    figure: str
    highest: bool
    epochs: int
    patience: int | None = None

    def best(self, history: Sequence[Epoch]) -> Epoch | None:
        """The best epoch, the first of several."""
        sign = -1.0 if self.highest else 1.0
        return min(history, key=lambda one: sign * one.figures[self.figure], default=None)

    def is_over(self, history: Sequence[Epoch]) -> bool:
        """Whether these epochs are enough."""
        best = self.best(history)
        waited = 0 if best is None else len(history) - best.epoch
        return len(history) >= self.epochs or (
            self.patience is not None and waited >= self.patience
        )


@dataclass
class _State:
    """How far a training is; all of it is in a savepoint."""

    losses: list[float] = field(default_factory=list)  # of this epoch's batches
    history: list[Epoch] = field(default_factory=list)
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As JSON and tensors."""
        return {"losses": self.losses, "history": [asdict(one) for one in self.history]}, self.kept

    @classmethod
    def of_parts(cls, saved: Mapping[str, Any], kept: dict[str, np.ndarray]) -> _State:
        """What `parts` gave."""
        return cls(list(saved["losses"]), [Epoch(**one) for one in saved["history"]], kept)


@dataclass
class EpochTrainer:
    """Trains `model` in place, by `run`; it ends with the weights of the best epoch.

    Args:
        model: to train.
        optimizer: the step's.
        step: trains on a batch whose weights add up to 1, and returns its `loss`.
        examples: to learn from.
        evaluate: gives the figures of the model as it is.
        choice: which epoch is kept.
        lengths: padded lengths.
        batch_size: examples of a batch.
        seed: of the order of the examples.
        progress: called for every batch.
        savepoints: where the training is saved from time to time, and goes on from.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    step: PartsStep
    examples: Examples
    evaluate: Callable[[], dict[str, float]]
    choice: Choice
    _: KW_ONLY
    lengths: Sequence[int]
    batch_size: int
    seed: int
    progress: Progress
    savepoints: Savepoints | None = None

    def run(self) -> tuple[Epoch, ...]:
        """Train, from the start or from where an interrupted training was saved.

        Raises:
            TrainingError: the loss became infinite or NaN.
            OutputError: a savepoint cannot be written.
        """
        steps = math.ceil(len(self.examples.lengths) / self.batch_size)
        state, saved = _State(), None
        if self.savepoints is not None:
            saved = self.savepoints.restore(self.model, self.optimizer)
        self.progress.stage("training", steps * self.choice.epochs, "batches")
        if saved is not None:
            state = _State.of_parts(*saved)
            number = len(state.history) + 1
            self.progress.note(f"resuming an interrupted training at epoch {number}")
            self.progress.advance(steps * len(state.history) + len(state.losses))
        while not self.choice.is_over(state.history):
            self._run_epoch(state, steps)
            epoch = Epoch(len(state.history) + 1, float(np.mean(state.losses)), self.evaluate())
            logger.info("%s", epoch)
            state.history, state.losses = [*state.history, epoch], []
            if self.choice.best(state.history) is epoch:
                state.kept = extract(self.model.trainable_variables)
        assign(self.model.trainable_variables, state.kept, error=TrainingError)
        return tuple(state.history)

    def _run_epoch(self, state: _State, steps: int) -> None:
        chance = np.random.default_rng([self.seed, len(state.history) + 1])
        lengths = self.examples.lengths
        plans = plan_training(lengths, self.lengths, self.batch_size, chance)
        figure = self.choice.figure
        shown = {figure: state.history[-1].figures[figure]} if state.history else {}
        for inputs, targets in prefetch(_batches(self.examples, plans[len(state.losses) :])):
            state.losses.append(finite(float(self.step([(inputs, targets)])["loss"])))
            if self.savepoints is not None:
                done = steps * len(state.history) + len(state.losses)
                self.savepoints.offer(done, self.model, self.optimizer, state.parts)
            self.progress.advance(1, loss=float(np.mean(state.losses[-_SHOWN:])), **shown)


def _batches(
    examples: Examples, plans: Sequence[BatchPlan]
) -> Generator[tuple[Arrays, Arrays], None, None]:
    """The batches, with weights that add up to 1."""
    for plan in plans:
        inputs, targets = examples.batch(plan)
        total = np.float32(max(1.0, float(targets["weights"].sum())))
        yield inputs, {**targets, "weights": targets["weights"] / total}


def finite(loss: float) -> float:
    """The loss, if it is finite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss}",
            expected="a finite loss",
            fix="lower the learning rate and train again",
        )
    return float(loss)
