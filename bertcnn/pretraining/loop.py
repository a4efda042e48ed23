"""The pretraining loop: steps, checkpoints, and evaluation on held-out documents."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import keras
import numpy as np

from bertcnn.data.prefetch import prefetch
from bertcnn.errors import TrainingError
from bertcnn.layers.device import on_gpu
from bertcnn.models.pretraining import BertPretraining, pretraining_figures
from bertcnn.pretraining.batches import PretrainingBatches
from bertcnn.pretraining.tensorboard import Board
from bertcnn.progress import Progress
from bertcnn.settings import PretrainingSettings
from bertcnn.training.optimizer import BIASES_AND_NORMALISATION, LayerwiseAdamW, WarmupLinearDecay
from bertcnn.training.step import (
    GRADIENT_NORM,
    Arrays,
    Figures,
    make_figures,
    make_parts_step,
)

logger = logging.getLogger(__name__)

_SHOWN_STEPS = 20  # figures are means over this many steps
_BOARD_STEPS = 10
_EVALUATIONS = 10  # per run, after the one before its first step
_HELD_OUT_BATCHES = 64  # per evaluation, at most

Batch = dict[str, np.ndarray]
_WEIGHTS = ("masked_weights", "next_weights")  # names in a batch
Position = tuple[int, int]  # epoch, and batch within it


class PretrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during pretraining, after a checkpoint was saved; the same call resumes from it.

    Attributes:
        step: steps done.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"{step:,} steps are done")
        self.step = step


@dataclass(frozen=True)
class HeldOutFigures:
    """Figures on held-out documents after some steps.

    Attributes:
        step: steps done.
        perplexity: exp of the MLM loss.
        mlm_accuracy: share of masked pieces predicted correctly.
        nsp_accuracy: accuracy of next sentence prediction; None if no pair is held out.
    """

    step: int
    perplexity: float
    mlm_accuracy: float
    nsp_accuracy: float | None


@dataclass
class State:
    """The state of a run.

    Attributes:
        step: steps done.
        position: position of the next batch.
        tokens: tokens processed so far, without padding.
        history: figures on held-out documents, in order.
    """

    step: int = 0
    position: Position = (0, 0)
    tokens: int = 0
    history: list[HeldOutFigures] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The state as JSON for a checkpoint, which stores the step itself."""
        return {
            "position": list(self.position),
            "tokens": self.tokens,
            "history": [asdict(figures) for figures in self.history],
        }

    @classmethod
    def from_json(cls, step: int, saved: Mapping[str, Any]) -> State:
        """The state that `as_json` wrote."""
        epoch, index = saved["position"]
        return cls(
            step,
            (epoch, index),
            saved["tokens"],
            [HeldOutFigures(**figures) for figures in saved["history"]],
        )


def make_optimizer(settings: PretrainingSettings, steps: int) -> LayerwiseAdamW:
    """AdamW with warm-up and linear decay; no weight decay on biases and normalisation."""
    schedule = WarmupLinearDecay(
        settings.learning_rate, int(steps * settings.warmup_fraction), steps
    )
    return LayerwiseAdamW(
        schedule,
        lambda _: 1.0,
        weight_decay=settings.weight_decay,
        clip_norm=settings.gradient_clip,
        not_decayed=BIASES_AND_NORMALISATION,
    )


def count_steps(batches: PretrainingBatches, settings: PretrainingSettings) -> int:
    """Number of steps of a run.

    Every epoch counts as many batches as the first, since planning each of them takes time; their
    real numbers differ a little.
    """
    if settings.steps is not None:
        return settings.steps
    return max(1, settings.epochs * batches.steps_per_epoch(0) // settings.accumulate)


class Run:
    """A pretraining run and its state.

    Args:
        model: the model to train.
        optimizer: its optimizer, which is built here.
        steps: total number of steps.
        accumulate: batches per step.
        training: training batches.
        held_out: batches for evaluation.

    Attributes:
        state: the run's state.
    """

    def __init__(
        self,
        model: BertPretraining,
        optimizer: keras.optimizers.Optimizer,
        steps: int,
        accumulate: int,
        training: PretrainingBatches,
        held_out: PretrainingBatches,
    ) -> None:
        optimizer.build(model.trainable_variables)
        self.model, self.optimizer, self.steps, self.accumulate = (
            model,
            optimizer,
            steps,
            accumulate,
        )
        self.training, self.held_out, self.state = training, held_out, State()


def run_steps(
    run: Run,
    *,
    save: Callable[[], None],
    seconds_between_saves: float,
    board: Board,
    progress: Progress,
) -> None:
    """Train the run's model in place, from its current state to its last step.

    Args:
        run: the run, which is changed.
        save: saves the run's current state.
        seconds_between_saves: time between two saves.
        board: receives the figures.
        progress: progress callback.

    Raises:
        TrainingError: the loss or the gradient is not finite; nothing is saved then.
        PretrainingInterrupted: Ctrl-C, raised by `progress`; `save` was called.
    """
    state, steps = run.state, run.steps
    step_on = make_parts_step(run.model, run.optimizer, pretraining_figures)
    evaluate = _Evaluation(run.model, run.held_out)
    evaluations = {steps * turn // _EVALUATIONS for turn in range(1, _EVALUATIONS + 1)}
    recent, reads_after = _Recent(), _BOARD_STEPS if on_gpu() else 1

    def save_checked() -> None:
        recent.read()
        save()

    if state.step == 0 and not state.history:
        _note_figures(evaluate, state, board, progress)
    progress.stage("pretraining", steps, "steps")
    _report(lambda: progress.advance(state.step), state, save_checked)
    last_save = started = time.monotonic()
    with closing(prefetch(_steps(run))) as upcoming:
        for batches, position in upcoming:
            figures = step_on(_parts(batches, run.model))
            tokens = sum(run.training.real_tokens(batch) for batch in batches)
            state.step, state.position, state.tokens = (
                state.step + 1,
                position,
                state.tokens + tokens,
            )
            pairs = any(batch["next_weights"].any() for batch in batches)
            recent.add(state.step, figures, pairs, tokens, time.monotonic() - started)
            if state.step % reads_after == 0 or state.step in evaluations:
                recent.read()
            if state.step in evaluations:
                _note_figures(evaluate, state, board, progress)
            if state.step % _BOARD_STEPS == 0:
                norm = {GRADIENT_NORM: float(figures[GRADIENT_NORM])}
                board.write(state.step, "training", recent.means() | norm)
            if state.step == steps or time.monotonic() - last_save >= seconds_between_saves:
                save_checked()
                last_save = time.monotonic()
            _report(lambda: progress.advance(1, **recent.means()), state, save_checked)
            started = time.monotonic()


def _report(advance: Callable[[], None], state: State, save: Callable[[], None]) -> None:
    """Report progress; Ctrl-C is raised here, between two steps, where the state can be saved."""
    try:
        advance()
    except KeyboardInterrupt:
        save()
        raise PretrainingInterrupted(state.step) from None


def _parts(batches: Sequence[Batch], model: BertPretraining) -> Iterator[tuple[Arrays, Arrays]]:
    """Inputs and targets of each batch of a step.

    The weights are divided by their sum over the step, so that losses are means over the step.
    """
    totals = {
        name: max(1.0, sum(float(batch[name].sum()) for batch in batches)) for name in _WEIGHTS
    }
    for batch in batches:
        shares = {name: batch[name] / np.float32(total) for name, total in totals.items()}
        yield (
            inputs_of(batch, model),
            {
                "masked_labels": batch["masked_labels"],
                "next_labels": batch["next_labels"],
                **shares,
            },
        )


def inputs_of(batch: Batch, model: BertPretraining) -> Arrays:
    """The arrays of a batch that the model takes."""
    return {name: batch[name] for name in model.input}


def _check_finite(figures: Mapping[str, float], step: int) -> None:
    """Stop at a loss or gradient that is not finite.

    Raises:
        TrainingError: one of them is not.
    """
    infinite = next(
        (
            name
            for name in ("mlm_loss", "nsp_loss", GRADIENT_NORM)
            if not math.isfinite(figures[name])
        ),
        None,
    )
    if infinite is not None:
        names = {
            "mlm_loss": "the masked-word loss",
            "nsp_loss": "the next-sentence loss",
            GRADIENT_NORM: "the gradient's norm",
        }
        raise TrainingError(
            f"{names[infinite]} became {figures[infinite]} at step {step:,}",
            expected="finite numbers",
            fix=(
                "run it again with a lower learning rate and --restart; these weights were not"
                " saved"
            ),
        )


class _Recent:
    """Figures of the last steps, which stay on the device until they are read."""

    def __init__(self) -> None:
        self._unread: list[tuple[int, Figures, bool, dict[str, float]]] = []
        self._read: deque[dict[str, float]] = deque(maxlen=_SHOWN_STEPS)

    def add(self, step: int, figures: Figures, pairs: bool, tokens: int, seconds: float) -> None:
        """Add a step; `pairs` says whether its batches have pairs of sentences."""
        self._unread.append((step, figures, pairs, {"seconds": seconds, "tokens": float(tokens)}))

    def read(self) -> None:
        """Fetch the figures of all steps.

        Raises:
            TrainingError: one of them is not finite.
        """
        started = time.monotonic()
        for step, scalars, pairs, spent in self._unread:
            figures = {name: float(value) for name, value in scalars.items()}
            _check_finite(figures, step)
            names = ("mlm_loss", "mlm_accuracy", *(("nsp_loss", "nsp_accuracy") if pairs else ()))
            self._read.append({name: figures[name] for name in names} | spent)
        if self._unread:
            self._read[-1]["seconds"] += time.monotonic() - started
        self._unread = []

    def means(self) -> dict[str, float]:
        """Means over the last steps that were read, and tokens per second."""
        if not self._read:
            return {}
        names = [name for name in self._read[-1] if name not in ("seconds", "tokens")]
        means = {
            name: float(np.mean([figures[name] for figures in self._read if name in figures]))
            for name in names
        }
        seconds, tokens = (
            sum(figures[name] for figures in self._read) for name in ("seconds", "tokens")
        )
        return {**means, "tokens_per_second": tokens / max(seconds, 1e-9)}


def _note_figures(evaluate: _Evaluation, state: State, board: Board, progress: Progress) -> None:
    """Evaluate, and report the figures."""
    figures = evaluate(state.step)
    if figures is None:
        return
    state.history.append(figures)
    logger.info("%s", figures)
    board.write(
        state.step,
        "held_out",
        {
            name: value
            for name, value in asdict(figures).items()
            if value is not None and name != "step"
        },
    )
    following = (
        "" if figures.nsp_accuracy is None else f", next sentence {figures.nsp_accuracy:.1%}"
    )
    progress.note(
        f"held out after {state.step:,} steps: perplexity {figures.perplexity:,.2f}, masked words"
        f" {figures.mlm_accuracy:.1%}{following}"
    )


class _Evaluation:
    """Figures on held-out documents, always with the same masks; compiles at its first use."""

    def __init__(self, model: BertPretraining, held_out: PretrainingBatches) -> None:
        self._model, self._held_out = model, held_out
        self._figures = make_figures(model, pretraining_figures)
        self._batches = min(held_out.steps_per_epoch(0), _HELD_OUT_BATCHES)

    def __call__(self, step: int) -> HeldOutFigures | None:
        """The figures; None if no document is held out."""
        sums = {
            "mlm_loss": 0.0,
            "mlm_accuracy": 0.0,
            "nsp_accuracy": 0.0,
            "masked_weights": 0.0,
            "next_weights": 0.0,
        }
        for index in range(self._batches):
            batch = self._held_out.batch(0, index)
            targets = {
                name: batch[name]
                for name in ("masked_labels", "masked_weights", "next_labels", "next_weights")
            }
            figures = {
                **self._figures(inputs_of(batch, self._model), targets),
                **{name: float(batch[name].sum()) for name in _WEIGHTS},
            }
            sums = {name: total + figures[name] for name, total in sums.items()}
        masked, pairs = sums["masked_weights"], sums["next_weights"]
        if not masked:
            return None
        loss = sums["mlm_loss"] / masked
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss on held-out documents became {loss} after step {step:,}",
                expected="finite numbers",
                fix=(
                    "run it again with a lower learning rate and --restart; these weights were not"
                    " saved"
                ),
            )
        right = sums["nsp_accuracy"] / pairs if pairs else None
        return HeldOutFigures(
            step, math.exp(min(loss, 700.0)), sums["mlm_accuracy"] / masked, right
        )


def _steps(run: Run) -> Generator[tuple[list[Batch], Position], None, None]:
    """The batches of each remaining step, and the position of the step after it."""
    epoch, index = run.state.position
    for _ in range(run.state.step, run.steps):
        batches: list[Batch] = []
        while len(batches) < run.accumulate:
            if index >= run.training.steps_per_epoch(epoch):
                epoch, index = epoch + 1, 0
            batches.append(run.training.batch(epoch, index))
            index += 1
        yield batches, (epoch, index)
