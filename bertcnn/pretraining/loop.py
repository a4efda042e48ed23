"""The loop of pretraining: steps, checkpoints, and figures on held-out documents."""

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
from bertcnn.models.pretraining import BertPretraining, pretraining_figures
from bertcnn.pretraining.batches import PretrainingBatches
from bertcnn.pretraining.tensorboard import Board
from bertcnn.progress import Progress
from bertcnn.settings import PretrainingSettings
from bertcnn.training.optimizer import BIASES_AND_NORMALISATION, LayerwiseAdamW, WarmupLinearDecay
from bertcnn.training.step import GRADIENT_NORM, Arrays, make_figures, make_parts_step

logger = logging.getLogger(__name__)

_SHOWN_STEPS = 20  # figures are means over so many
_BOARD_STEPS = 10
_EVALUATIONS = 10  # in a run, beside the one before its first step
_HELD_OUT_BATCHES = 64  # of each evaluation, at most

Batch = dict[str, np.ndarray]
_WEIGHTS = ("masked_weights", "next_weights")  # of a batch
Position = tuple[int, int]  # epoch, and batch in it


class PretrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of pretraining.

    A checkpoint is saved, and the same call goes on from there.

    Attributes:
        step: steps done.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"{step:,} steps are done")
        self.step = step


@dataclass(frozen=True)
class HeldOutFigures:
    """How well held-out documents are guessed after some steps.

    Attributes:
        step: steps done.
        perplexity: exp of the MLM loss: among how many pieces, equally likely, the model would be
            choosing.
        mlm_accuracy: share of masked pieces guessed.
        nsp_accuracy: share of right answers to "does B follow A"; None where no pair is held out.
    """

    step: int
    perplexity: float
    mlm_accuracy: float
    nsp_accuracy: float | None


@dataclass
class State:
    """Where a run is.

    Attributes:
        step: steps done.
        position: of the batch that comes next.
        tokens: learned from so far, padding apart.
        history: figures on held-out documents, in order.
    """

    step: int = 0
    position: Position = (0, 0)
    tokens: int = 0
    history: list[HeldOutFigures] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint, which has the step itself."""
        return {
            "position": list(self.position),
            "tokens": self.tokens,
            "history": [asdict(figures) for figures in self.history],
        }

    @classmethod
    def from_json(cls, step: int, found: Mapping[str, Any]) -> State:
        """What `as_json` gave."""
        epoch, index = found["position"]
        return cls(
            step,
            (epoch, index),
            found["tokens"],
            [HeldOutFigures(**figures) for figures in found["history"]],
        )


def make_optimizer(settings: PretrainingSettings, steps: int) -> LayerwiseAdamW:
    """AdamW with warm-up and linear decay; biases and normalisation do not decay."""
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
    """Steps of a run; epochs count as many batches as the first one has, since planning all of them takes time (each differs a little)."""
    if settings.steps is not None:
        return settings.steps
    return max(1, settings.epochs * batches.steps_per_epoch(0) // settings.accumulate)


class Run:
    """What a run works with, and where it is.

    Args:
        model: what learns.
        optimizer: how; built for the model here.
        steps: where the run ends.
        accumulate: batches of a step.
        training: batches to learn from.
        held_out: batches for evaluation.

    Attributes:
        state: where it is.
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
    """Train the run's model in place, from where it is to its end.

    Args:
        run: changes as it goes.
        save: keeps the run as it is when it is called.
        seconds_between_saves: how long may be lost to a kill.
        board: is given the figures.
        progress: told of every step.

    Raises:
        TrainingError: the loss or the gradient is not finite; nothing is saved then.
        PretrainingInterrupted: Ctrl-C, heard by `progress`; `save` was called.
    """
    state, steps = run.state, run.steps
    step_on = make_parts_step(run.model, run.optimizer, pretraining_figures)
    evaluate = _Evaluation(run.model, run.held_out)
    evaluations = {steps * turn // _EVALUATIONS for turn in range(1, _EVALUATIONS + 1)}
    recent: deque[dict[str, float]] = deque(maxlen=_SHOWN_STEPS)
    if state.step == 0 and not state.history:
        _note_figures(evaluate, state, board, progress)
    progress.stage("pretraining", steps, "steps")
    _heard(lambda: progress.advance(state.step), state, save)
    last_save = started = time.monotonic()
    with closing(prefetch(_made(run))) as made:
        for batches, position in made:
            figures = step_on(_parts(batches, run.model))
            _check_finite(figures, state.step + 1)
            tokens = sum(run.training.real_tokens(batch) for batch in batches)
            state.step, state.position, state.tokens = (
                state.step + 1,
                position,
                state.tokens + tokens,
            )
            recent.append(
                {
                    **_shown(figures, batches),
                    "seconds": time.monotonic() - started,
                    "tokens": float(tokens),
                }
            )
            if state.step in evaluations:
                _note_figures(evaluate, state, board, progress)
            if state.step % _BOARD_STEPS == 0:
                board.write(
                    state.step,
                    "training",
                    {**_means(recent), GRADIENT_NORM: figures[GRADIENT_NORM]},
                )
            if state.step == steps or time.monotonic() - last_save >= seconds_between_saves:
                save()
                last_save = time.monotonic()
            _heard(lambda: progress.advance(1, **_means(recent)), state, save)
            started = time.monotonic()


def _heard(advance: Callable[[], None], state: State, save: Callable[[], None]) -> None:
    """Tell of progress; Ctrl-C heard there comes between two steps, so all is as it should be to be saved."""
    try:
        advance()
    except KeyboardInterrupt:
        save()
        raise PretrainingInterrupted(state.step) from None


def _parts(batches: Sequence[Batch], model: BertPretraining) -> Iterator[tuple[Arrays, Arrays]]:
    """Inputs and targets of each batch of a step.

    The weights are shares of the step's, so that losses are means over the whole step.
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
    """What the model takes of a batch."""
    return {name: batch[name] for name in model.input}


def _check_finite(figures: Mapping[str, float], step: int) -> None:
    """Stop at a loss or gradient that is infinite or no number.

    Raises:
        TrainingError: it is one.
    """
    found = next(
        (
            name
            for name in ("mlm_loss", "nsp_loss", GRADIENT_NORM)
            if not math.isfinite(figures[name])
        ),
        None,
    )
    if found is not None:
        names = {
            "mlm_loss": "the loss of masked words",
            "nsp_loss": "the loss of next sentences",
            GRADIENT_NORM: "the gradient's norm",
        }
        raise TrainingError(
            f"{names[found]} became {figures[found]} at step {step:,}",
            expected="finite numbers",
            fix=(
                "run it again with a lower learning rate and --restart; these weights were not"
                " saved"
            ),
        )


def _shown(figures: Mapping[str, float], batches: Sequence[Batch]) -> dict[str, float]:
    """The figures that mean something: those of next sentences only where there are pairs."""
    pairs = any(batch["next_weights"].any() for batch in batches)
    return {
        name: figures[name]
        for name in ("mlm_loss", "mlm_accuracy", *(("nsp_loss", "nsp_accuracy") if pairs else ()))
    }


def _means(recent: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over the last steps, and their tokens a second."""
    names = [name for name in recent[-1] if name not in ("seconds", "tokens")]
    means = {
        name: float(np.mean([figures[name] for figures in recent if name in figures]))
        for name in names
    }
    seconds, tokens = (sum(figures[name] for figures in recent) for name in ("seconds", "tokens"))
    return {**means, "tokens_per_second": tokens / max(seconds, 1e-9)}


def _note_figures(evaluate: _Evaluation, state: State, board: Board, progress: Progress) -> None:
    """Evaluate and tell."""
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
    """Figures on held-out documents, always with the same masks; compiled when it is first used."""

    def __init__(self, model: BertPretraining, held_out: PretrainingBatches) -> None:
        self._model, self._held_out = model, held_out
        self._figures = make_figures(model, pretraining_figures)
        self._batches = min(held_out.steps_per_epoch(0), _HELD_OUT_BATCHES)

    def __call__(self, step: int) -> HeldOutFigures | None:
        """None where no document is held out."""
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
            found = {
                **self._figures(inputs_of(batch, self._model), targets),
                **{name: float(batch[name].sum()) for name in _WEIGHTS},
            }
            sums = {name: total + found[name] for name, total in sums.items()}
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


def _made(run: Run) -> Generator[tuple[list[Batch], Position], None, None]:
    """The batches of each step that is left, and where the step after it begins."""
    epoch, index = run.state.position
    for _ in range(run.state.step, run.steps):
        batches: list[Batch] = []
        while len(batches) < run.accumulate:
            if index >= run.training.steps_per_epoch(epoch):
                epoch, index = epoch + 1, 0
            batches.append(run.training.batch(epoch, index))
            index += 1
        yield batches, (epoch, index)
