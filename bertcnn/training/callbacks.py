"""Callbacks of a training: which weights are kept, and the deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from bertcnn.errors import TrainingError
from bertcnn.models import assign, extract
from bertcnn.training.deadline import Deadline, OutOfTime, seconds_of_epoch
from bertcnn.training.trainer import Saved, TrainerCallback


def standard_error(rows: int) -> Callable[[float], float]:
    """A function from a share of `rows` rows to its standard error.

    If all rows are right, it uses Agresti and Coull's estimate (1998) instead of 0.
    """

    def error(share: float) -> float:
        share = min(share, (rows + 2) / (rows + 4))
        return math.sqrt(share * (1.0 - share) / rows)

    return error


class BestEpoch(TrainerCallback):
    """Keeps the weights of the best epoch and restores them at the end.

    With a tolerance it keeps the last epoch that is within the tolerance of the best one. Among
    epochs whose difference may be chance the last is usually best, since the learning rate decays
    (the one-standard-error rule, Breiman et al. 1984, section 3.4.3).

    Args:
        figure: the validation figure that decides.
        patience: epochs without improvement before training stops; None for no early stopping.
        tolerance: maps the best value to the allowed loss; by default only a better epoch is kept.

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
        self._value: float | None = None  # of the best epoch; negated if lower is better
        self._weights: dict[str, np.ndarray] = {}

    def is_as_good(self, value: float) -> bool:
        """Whether the value is within the tolerance of the best epoch."""
        if self._value is None:
            return True
        best = self._sign * self._value
        allowed = 0.0 if self._tolerance is None else self._tolerance(best)
        return self._sign * value >= self._value - allowed

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Stop at once if a resumed training had already run out of patience."""
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
        """The values and the kept weights."""
        return {"kept": self.kept, "best": self.best, "value": self._value}, self._weights

    def restore(self, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Load the saved state."""
        self.kept, self.best, self._value = details["kept"], details["best"], details["value"]
        self._weights = tensors

    def _stop_if_over(self) -> None:
        waited = len(self.trainer.state.history) - self.best
        if self._patience is not None and self.best and waited >= self._patience:
            self.model.stop_training = True


class LateMean(TrainerCallback):
    """The mean of the weights after each of `steps`, kept on the device.

    The weights of the last steps lie in one basin; their mean is better than each of them and costs
    nothing at inference (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better
    Generalization"). docs/benchmarks has the gain.
    """

    def __init__(self, steps: range) -> None:
        super().__init__()
        self.steps, self._taken = steps, 0
        self._mean: dict[str, Any] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Add the weights to the mean."""
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
        """The mean, and the number of weights in it."""
        return {"taken": self._taken}, self.weights()

    def restore(self, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Load the saved state."""
        self._taken, self._mean = details["taken"], dict(tensors)


class EndsInTime(TrainerCallback):
    """Ends a training if another epoch would miss the deadline.

    As many batches as `shapes` may include a compilation. With `whole`, a part of a training is
    useless.
    """

    def __init__(self, deadline: Deadline, shapes: int, *, whole: bool) -> None:
        super().__init__()
        self.deadline, self._shapes, self._whole = deadline, shapes, whole
        self._seconds = self._begun = 0.0  # of the last epoch; start of the current batch
        self._batches: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Stop if there is no time left; raises `OutOfTime` if a part of a training is useless."""
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
        """Estimate the time of a whole epoch."""
        ends = self.trainer.epoch_ends
        steps = ends[epoch] - (ends[epoch - 1] if epoch else 0)
        # if figures are read later, batch times include waiting for other batches
        shapes = self._shapes if self.trainer.reads_after == 1 else 0
        self._seconds = seconds_of_epoch(self._batches, steps, shapes)
