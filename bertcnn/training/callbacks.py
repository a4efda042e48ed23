"""What listens to a training: the rule which weights are kept, and the deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from bertcnn.errors import TrainingError
from bertcnn.models.weights import assign, extract
from bertcnn.training.deadline import Deadline, OutOfTime, seconds_of_epoch
from bertcnn.training.trainer import Saved, TrainerCallback


def standard_error(rows: int) -> Callable[[float], float]:
    """A function of a share of so many rows to its standard error.

    Where all rows are right, that of Agresti and Coull's estimate (1998), since that of 1 would be
    0.
    """

    def error(share: float) -> float:
        share = min(share, (rows + 2) / (rows + 4))
        return math.sqrt(share * (1.0 - share) / rows)

    return error


class BestEpoch(TrainerCallback):
    """Keeps the weights of the best epoch, with which the model ends.

    With a tolerance it is the last epoch that is not worse than the best one by more than that.
    Among epochs that do not differ by more than chance the last is usually the best, since the
    learning rate falls to the end (the rule of one standard error, Breiman et al. 1984, section
    3.4.3).

    Args:
        figure: of the held-out examples, that decides.
        highest: whether high values are better.
        patience: epochs without a better one before training stops; None for never.
        tolerance: of the best value; by default only a better epoch is kept, the first of several.

    Attributes:
        kept: the epoch whose weights are kept, from 1.
    """

    def __init__(
        self,
        figure: str,
        *,
        highest: bool = True,
        patience: int | None = None,
        tolerance: Callable[[float], float] | None = None,
    ) -> None:
        super().__init__()
        self.kept = self.best = 0
        self._figure, self._sign = figure, 1.0 if highest else -1.0
        self._patience, self._tolerance = patience, tolerance
        self._value: float | None = None  # of the best epoch, high if it is good
        self._weights: dict[str, np.ndarray] = {}

    def is_as_good(self, value: float) -> bool:
        """Whether the best epoch is better by at most the tolerance."""
        if self._value is None:
            return True
        allowed = 0.0 if self._tolerance is None else self._tolerance(self._value)
        return self._sign * value >= self._value - allowed

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Stop at once where the training is over already."""
        self._stop_if_over()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401
        """Compare the epoch with the best one."""
        value = logs[self._figure]
        better = self._value is None or self._sign * value > self._value
        if better:
            self._value, self.best = self._sign * value, epoch + 1
        if better or (self._tolerance is not None and self.is_as_good(value)):
            self.kept, self._weights = epoch + 1, extract(self.model.trainable_variables)
        self._stop_if_over()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Give the model the weights that are kept."""
        assign(self.model.trainable_variables, self._weights, error=TrainingError)

    def state(self) -> Saved:
        """The values, and the weights that are kept."""
        return {"kept": self.kept, "best": self.best, "value": self._value}, self._weights

    def restore(self, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Take them back."""
        self.kept, self.best, self._value = details["kept"], details["best"], details["value"]
        self._weights = tensors

    def _stop_if_over(self) -> None:
        waited = len(self.trainer.state.history) - self.best
        if self._patience is not None and self.best and waited >= self._patience:
            self.model.stop_training = True


class LateMean(TrainerCallback):
    """The mean of the weights after some of the last steps, kept on the device.

    The weights of a training's last steps lie in one basin. Their mean is better than each of them,
    and scoring takes no longer than with one (Izmailov et al. 2018, "Averaging Weights Leads to
    Wider Optima and Better Generalization"). What it gains is in docs/benchmarks.

    Args:
        steps: after which the weights are taken.
    """

    def __init__(self, steps: range) -> None:
        super().__init__()
        self.steps, self._taken = steps, 0
        self._mean: dict[str, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Take the weights into the mean."""
        if self.trainer.state.step not in self.steps:
            return
        self._taken += 1
        self._mean = {
            variable.path: self._mean[variable.path]
            + (variable.value - self._mean[variable.path]) / self._taken
            if self._taken > 1
            else ops.copy(variable.value)
            for variable in self.model.trainable_variables
        }

    def weights(self) -> dict[str, np.ndarray]:
        """The mean by name, float32; empty if there is none yet."""
        return {name: ops.convert_to_numpy(value) for name, value in self._mean.items()}

    def state(self) -> Saved:
        """The mean, and of how many it is."""
        return {"taken": self._taken}, self.weights()

    def restore(self, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Take them back."""
        self._taken, self._mean = details["taken"], dict(tensors)


class EndsInTime(TrainerCallback):
    """Ends a training where another epoch would end after the deadline.

    Args:
        deadline: of it.
        shapes: compiled shapes; so many batches may have waited for a compilation.
        whole: whether less than the whole training counts as nothing.
    """

    def __init__(self, deadline: Deadline, shapes: int, *, whole: bool) -> None:
        super().__init__()
        self.deadline, self._shapes, self._whole = deadline, shapes, whole
        self._seconds = self._begun = 0.0  # of the last epoch; of the batch under way
        self._batches: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Stop if there is no time left for it.

        Raises:
            OutOfTime: less than the whole training counts as nothing.
        """
        epochs = len(self.trainer.epoch_ends)
        remaining = epochs - epoch if self._whole else 1
        if self._seconds and self.deadline.is_missed_after(remaining * self._seconds):
            if self._whole:
                raise OutOfTime
            self.model.stop_training = True
            self.trainer.progress.note(
                f"training ends with epoch {epoch} of {epochs}, since another one would end after"
                f" {self.deadline}"
            )
        self._batches, self._begun = [], time.monotonic()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Time the batch."""
        now = time.monotonic()
        self._batches.append(now - self._begun)
        self._begun = now

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Reckon what a whole epoch takes."""
        ends = self.trainer.epoch_ends
        steps = ends[epoch] - (ends[epoch - 1] if epoch else 0)
        # where figures are read later, batches wait for each other, not for compilations
        shapes = self._shapes if self.trainer.reads_after == 1 else 0
        self._seconds = seconds_of_epoch(self._batches, steps, shapes)
