"""Batches, optimizer and evaluation of pretraining."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertcnn.models import BertPretraining, pretraining_figures
from bertcnn.pretraining.batches import PretrainingBatches
from bertcnn.progress import Progress
from bertcnn.settings import PretrainingSettings
from bertcnn.training import (
    BIASES_AND_NORMALISATION,
    RATE,
    Arrays,
    Batch,
    Batches,
    LayerwiseAdamW,
    Part,
    Saved,
    TrainerCallback,
    WarmupLinearDecay,
    check_finite,
    make_figures,
    own_rows,
)

logger = logging.getLogger(__name__)

SHOWN = ("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", RATE)
_EVALUATIONS = 10  # per run, after the first one before step 1
_HELD_OUT_BATCHES = 64  # maximum per evaluation
_WEIGHTS = ("masked_weights", "next_weights")
_LABELS = ("masked_labels", "next_labels")
_OF_PAIRS = ("nsp_loss", "nsp_accuracy")


class PretrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during pretraining, after a checkpoint was saved; the same call resumes from it.

    `step` is the number of steps done.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"{step:,} steps are done")
        self.step = step


@dataclass(frozen=True)
class HeldOutFigures:
    """Figures on held-out documents after some steps.

    `perplexity` is exp of the MLM loss. `nsp_accuracy` is None if no pair is held out.
    """

    step: int
    perplexity: float
    mlm_accuracy: float
    nsp_accuracy: float | None


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
    """Number of steps of a run; every epoch counts as the first, to save planning time."""
    if settings.steps is not None:
        return settings.steps
    return max(1, settings.epochs * batches.steps_per_epoch(0) // settings.accumulate)


def evaluated_after(steps: int) -> list[int]:
    """The steps that end with an evaluation, ascending, including the last step.

    Example:
        >>> evaluated_after(25), evaluated_after(3)
        ([2, 5, 7, 10, 12, 15, 17, 20, 22, 25], [1, 2, 3])
    """
    return sorted({steps * turn // _EVALUATIONS for turn in range(1, _EVALUATIONS + 1)} - {0})


def batches_of_steps(
    model: BertPretraining, training: PretrainingBatches, accumulate: int
) -> Batches:
    """An endless stream of each step's batches; a position is epoch and batch.

    A step has `accumulate` batches. A process makes and reads only the rows of its own devices.
    """

    def steps(position: list[int] | None) -> Generator[Batch, None, None]:
        epoch, index = position or (0, 0)
        while True:
            batches: list[dict[str, np.ndarray]] = []
            own, tokens = own_rows(training.settings.batch_size), 0
            while len(batches) < accumulate:
                if index >= training.steps_per_epoch(epoch):
                    epoch, index = epoch + 1, 0
                batches.append(training.batch(epoch, index, own))
                tokens += training.tokens(epoch, index)
                index += 1
            pairs = any(batch["next_weights"].any() for batch in batches)
            yield Batch(
                _parts(batches, model),
                [epoch, index],
                tokens,
                () if pairs else _OF_PAIRS,
                own=own is not None,
            )

    return steps


def inputs_of(batch: Arrays, model: BertPretraining) -> Arrays:
    """The arrays of a batch that the model takes."""
    return {name: batch[name] for name in model.input}


def _parts(batches: list[dict[str, np.ndarray]], model: BertPretraining) -> list[Part]:
    return [
        (inputs_of(batch, model), {name: batch[name] for name in (*_LABELS, *_WEIGHTS)})
        for batch in batches
    ]


class HeldOut(TrainerCallback):
    """Evaluates on held-out documents, always with the same masks, and reports the figures.

    `history` starts before the first step; it is empty if no document is held out.
    """

    def __init__(
        self, pretraining: BertPretraining, held_out: PretrainingBatches, progress: Progress
    ) -> None:
        super().__init__()
        self.history: list[HeldOutFigures] = []
        self._pretraining, self._held_out, self._progress = pretraining, held_out, progress
        self._figures = make_figures(pretraining, pretraining_figures)
        self._batches = min(held_out.steps_per_epoch(0), _HELD_OUT_BATCHES)

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ANN401, ARG002
        """Evaluate before the first step."""
        if self.trainer.state.step == 0 and not self.history:
            self._evaluate(0)

    def evaluate(self) -> dict[str, float]:
        """Evaluate after an epoch, which is a tenth of the run; {} if no document is held out."""
        figures = self._evaluate(self.trainer.state.step)
        return {f"val_{name}": value for name, value in figures.items()}

    def state(self) -> Saved:
        """The figures to save."""
        return {"history": [asdict(figures) for figures in self.history]}, {}

    def restore(self, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:  # noqa: ARG002
        """Load the saved state."""
        self.history = [HeldOutFigures(**figures) for figures in details["history"]]

    def _evaluate(self, step: int) -> dict[str, float]:
        figures = self._measured(step)
        if figures is None:
            return {}
        self.history.append(figures)
        logger.info("%s", figures)
        following = (
            "" if figures.nsp_accuracy is None else f", next sentence {figures.nsp_accuracy:.1%}"
        )
        self._progress.note(
            f"held out after {step:,} steps: perplexity {figures.perplexity:,.2f}, masked words"
            f" {figures.mlm_accuracy:.1%}{following}"
        )
        measured = {name: value for name, value in asdict(figures).items() if value is not None}
        return {name: value for name, value in measured.items() if name != "step"}

    def _measured(self, step: int) -> HeldOutFigures | None:
        """The figures, which must be finite (TrainingError); None if no document is held out."""
        names = ("mlm_loss", "mlm_accuracy", "nsp_accuracy", *_WEIGHTS)
        sums = np.zeros(len(names))
        for index in range(self._batches):
            batch = self._held_out.batch(0, index)
            targets = {name: batch[name] for name in (*_LABELS, *_WEIGHTS)}
            figures = self._figures(inputs_of(batch, self._pretraining), targets)
            figures |= {name: float(batch[name].sum()) for name in _WEIGHTS}
            sums += [figures[name] for name in names]
        loss, words, following, masked, pairs = sums.tolist()
        if not masked:
            return None
        check_finite({"loss on held-out documents": loss}, step)
        perplexity = math.exp(min(loss / masked, 700.0))
        return HeldOutFigures(
            step, perplexity, words / masked, following / pairs if pairs else None
        )
