"""The training loop: one for classification, question answering, translation and pretraining.

It resembles `keras.Model.fit` and accepts any `keras.callbacks.Callback`. There are two reasons not
to use `fit`. An interrupted training resumes within an epoch and ends with the same bytes, which
requires that batches have a position. And on TensorFlow `fit` compiles one program per step, which
was no faster on a CPU and took 1.6 to 1.9 times as long to compile (docs/benchmarks).
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import keras
import numpy as np

from bertcnn.backend import on_gpu
from bertcnn.data import BatchPlan, plan_training, prefetch
from bertcnn.errors import TrainingError
from bertcnn.progress import Progress
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Figures, Objective, Part, Step, make_step, placed

logger = logging.getLogger(__name__)

_SHOWN = 20  # steps that shown figures are averaged over
_BETWEEN_READS = 10  # steps on a GPU, since reading a figure waits for the GPU
RATE = "tokens_per_second"

Saved = tuple[dict[str, Any], dict[str, np.ndarray]]  # as JSON and as tensors


class Batch(NamedTuple):
    """The input of one step.

    Several `parts` accumulate gradients. `position` belongs to the next batch, as JSON. Figures in
    `meaningless` are ignored. `own` is whether the parts are only this process's rows.
    """

    parts: Sequence[Part]
    position: Any
    tokens: int = 0
    meaningless: Sequence[str] = ()
    own: bool = False


Batches = Callable[[Any], Generator[Batch, None, None]]  # from a position; None for the first


def by_epochs(
    plans: Callable[[int], Sequence[Any]], parts: Callable[[Any], Sequence[Part]]
) -> Batches:
    """Endless batches in epochs, counted from 1; `plans` maps an epoch to its batch plans."""

    def batches(position: Any) -> Generator[Batch, None, None]:  # noqa: ANN401
        epoch, done = position or (1, 0)
        while True:
            for number, plan in enumerate(plans(epoch)[done:], start=done + 1):
                yield Batch(parts(plan), [epoch, number])
            epoch, done = epoch + 1, 0

    return batches


def shuffled(
    lengths: np.ndarray, padded_lengths: Sequence[int], batch_size: int, seed: int
) -> Callable[[int], list[BatchPlan]]:
    """A function of an epoch to the batch plans of rows of these lengths; see `plan_training`."""
    return lambda epoch: plan_training(
        lengths, padded_lengths, batch_size, np.random.default_rng([seed, epoch])
    )


@dataclass(frozen=True)
class Epoch:
    """Mean training loss of an epoch (from 1), and named figures on held-out examples."""

    epoch: int
    loss: float
    figures: dict[str, float]


@dataclass
class State:
    """The progress of a training; `losses` are of the current epoch."""

    step: int = 0
    position: Any = None
    tokens: int = 0
    losses: list[float] = field(default_factory=list)
    history: list[Epoch] = field(default_factory=list)


class TrainerCallback(keras.callbacks.Callback):
    """A Keras callback whose state is saved in savepoints.

    It receives a batch's figures on the device; other callbacks receive floats, which makes them
    wait for a GPU. `trainer` is set before the training begins.
    """

    trainer: Trainer

    def on_figures(self, step: int, means: dict[str, float]) -> None:
        """Receive means over the last 20 steps: after every step on a CPU, every tenth on a GPU."""

    def state(self) -> Saved:
        """The state to save."""
        return {}, {}

    def restore(self, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Restore the result of `state`."""


@dataclass
class Trainer:
    """Trains `model` in place, by `run`.

    Args:
        model: inputs by name to one or more outputs.
        objective: the figures of a batch.
        epoch_ends: the last step of each epoch, ascending.
        evaluate: returns figures on held-out examples; called after each epoch.
        callbacks: Keras callbacks or `TrainerCallback`s, one of each class of the latter.
        savepoints: saves the training periodically, and resumes it.
        shown: figures to show: of the last steps, of the last epoch, or `RATE`.
        stage: title and unit of the progress display.
        reads_after: steps after which figures are read, since reading waits for a GPU; by default
            10 on a GPU and 1 elsewhere.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    objective: Objective
    batches: Batches
    _: KW_ONLY
    epoch_ends: Sequence[int]
    progress: Progress
    evaluate: Callable[[], dict[str, float]] | None = None
    callbacks: Sequence[keras.callbacks.Callback] = ()
    savepoints: Savepoints | None = None
    shown: Sequence[str] = ("loss",)
    stage: tuple[str, str] = ("training", "batches")
    reads_after: int = field(default_factory=lambda: _BETWEEN_READS if on_gpu() else 1)

    def __post_init__(self) -> None:
        self.state = State()
        self.optimizer.build(self.model.trainable_variables)
        self._own = [one for one in self.callbacks if isinstance(one, TrainerCallback)]
        self._listening: list[keras.callbacks.Callback] = list(self._own)
        others = [one for one in self.callbacks if not isinstance(one, TrainerCallback)]
        if others:
            epochs = len(self.epoch_ends)
            listed = keras.callbacks.CallbackList(others, model=self.model, epochs=epochs)
            self._listening.append(listed)
        for callback in self._own:
            callback.set_model(self.model)
            callback.trainer = self
        self._unread: list[tuple[int, Figures, Sequence[str]]] = []  # on the device
        self._recent: deque[dict[str, float]] = deque(maxlen=_SHOWN)
        self._clock: deque[tuple[float, int]] = deque(maxlen=_SHOWN)  # tokens by time
        self._saved = -1  # step of the newest savepoint

    def run(self) -> tuple[Epoch, ...]:
        """Train from the start, or resume an interrupted training.

        Raises:
            TrainingError: a loss or a gradient became infinite or NaN.
            OutputError: a savepoint cannot be written.
        """
        self._restore()
        step = make_step(self.model, self.optimizer, self.objective)
        state, steps = self.state, self.epoch_ends[-1]
        self.model.stop_training = False
        self.model.optimizer = self.optimizer  # where Keras' callbacks look for it
        self._tell("on_train_begin")
        self.progress.stage(self.stage[0], steps, self.stage[1])
        self._advance(state.step)
        with closing(prefetch(self._remaining())) as upcoming:
            while state.step < steps and not self.model.stop_training:
                self._tell("on_epoch_begin", len(state.history))
                if not self.model.stop_training:
                    self._run_epoch(step, upcoming)
        self._tell("on_train_end")
        return tuple(state.history)

    def save(self) -> None:
        """Save the current state, unless it is already saved.

        Raises:
            TrainingError: a loss, a gradient or a weight is not finite; nothing is saved then.
            OutputError: the savepoint cannot be written.
        """
        self._read()
        if self.savepoints is None or self.state.step == self._saved:
            return
        states = {type(one).__name__: one.state() for one in self._own}
        details = {name: own for name, (own, _) in states.items()}
        tensors = {
            f"{name}/{key}": value
            for name, (_, arrays) in states.items()
            for key, value in arrays.items()
        }
        record = {"state": asdict(self.state), "callbacks": details}
        self.savepoints.save(self.state.step, self.model, self.optimizer, record, tensors)
        self._saved = self.state.step

    def _restore(self) -> None:
        saved = None
        if self.savepoints is not None:
            saved = self.savepoints.restore(self.model, self.optimizer)
        if saved is None:
            return
        record, tensors = saved
        history = [Epoch(**one) for one in record["state"]["history"]]
        self.state = State(**{**record["state"], "history": history})
        self._saved = self.state.step
        for callback in self._own:
            name = type(callback).__name__
            own = {
                key.removeprefix(f"{name}/"): value
                for key, value in tensors.items()
                if key.startswith(f"{name}/")
            }
            callback.restore(record["callbacks"][name], own)
        self.progress.note(
            f"resuming an interrupted training after step {self.state.step:,} of"
            f" {self.epoch_ends[-1]:,}"
        )

    def _remaining(self) -> Generator[Batch, None, None]:
        with closing(self.batches(self.state.position)) as batches:
            for batch in islice(batches, self.epoch_ends[-1] - self.state.step):
                yield batch._replace(parts=placed(batch.parts, own=batch.own))

    def _run_epoch(self, step: Step, upcoming: Generator[Batch, None, None]) -> None:
        state, epochs = self.state, len(self.state.history)
        begin, end = self.epoch_ends[epochs - 1] if epochs else 0, self.epoch_ends[epochs]
        self._clock.append((time.monotonic(), state.tokens))
        while state.step < end and not self.model.stop_training:
            batch = next(upcoming)
            self._tell("on_train_batch_begin", state.step - begin)
            figures = step(batch.parts)
            state.step, state.position = state.step + 1, batch.position
            state.tokens += batch.tokens
            self._unread.append((state.step, figures, batch.meaningless))
            if len(self._unread) >= self.reads_after or state.step == end:
                self._read()
            self._tell("on_train_batch_end", state.step - begin - 1, figures)
            if state.step == end or self.model.stop_training:
                self._end_epoch()
            if self.savepoints is not None and self.savepoints.is_due:
                self.save()
            self._advance(1)

    def _end_epoch(self) -> None:
        self._read()
        state, figures = self.state, {} if self.evaluate is None else self.evaluate()
        check_finite(figures, state.step)
        epoch = Epoch(len(state.history) + 1, float(np.mean(state.losses)), figures)
        logger.info("%s", epoch)
        state.history.append(epoch)
        state.losses = []
        self._clock.clear()
        self._tell("on_epoch_end", epoch.epoch - 1, {"loss": epoch.loss, **figures})

    def _read(self) -> None:
        """Fetch the figures of the last steps; raise an error if one is not finite."""
        unread, self._unread = self._unread, []
        for step, values, meaningless in unread:
            figures = {name: float(value) for name, value in values.items()}
            check_finite(figures, step)
            self.state.losses.append(figures["loss"])
            self._recent.append({name: figures[name] for name in figures.keys() - meaningless})
        if unread:
            self._clock.append((time.monotonic(), self.state.tokens))
            for callback in self._own:
                callback.on_figures(self.state.step, self._means())

    def _means(self) -> dict[str, float]:
        names = dict.fromkeys(name for figures in self._recent for name in figures)
        means = {
            name: float(np.mean([figures[name] for figures in self._recent if name in figures]))
            for name in names
        }
        if len(self._clock) > 1:
            (start, before), (end, after) = self._clock[0], self._clock[-1]
            means[RATE] = (after - before) / max(end - start, 1e-9)
        return means

    def _advance(self, steps: int) -> None:
        """Report progress; on Ctrl-C, which can only arrive here between two steps, save first."""
        epoch = self.state.history[-1].figures if self.state.history and self._recent else {}
        figures = {**epoch, **self._means()}
        shown = {name.removeprefix("val_"): value for name, value in figures.items()} | figures
        try:
            self.progress.advance(
                steps, **{name: shown[name] for name in self.shown if name in shown}
            )
        except KeyboardInterrupt:
            self.save()
            raise

    def _tell(self, event: str, *args: Any) -> None:  # noqa: ANN401 - as Keras' callbacks take it
        for callback in self._listening:
            getattr(callback, event)(*args)


def check_finite(figures: Mapping[str, float], step: int) -> None:
    """Raise a TrainingError for a figure that is infinite or NaN."""
    for name, value in figures.items():
        if not math.isfinite(value):
            raise TrainingError(
                f"the {name.replace('_', ' ')} became {value} at step {step:,}",
                expected="finite numbers",
                fix="lower the learning rate and train again; nothing was saved",
            )
