"""The training of a task: its epochs, and the fine-tuning of an encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from bertcnn.data import BatchPlan, choose_lengths
from bertcnn.errors import SettingsError
from bertcnn.settings import QuestionTrainingSettings, TranslationTrainingSettings
from bertcnn.training import (
    BIASES_AND_NORMALISATION,
    Arrays,
    Batches,
    BestEpoch,
    LayerwiseAdamW,
    RunOptions,
    Trainer,
    WarmupLinearDecay,
    batch_parts,
    by_epochs,
    shuffled,
)

TOKEN_BUDGET = 4096  # per validation batch


class Examples(Protocol):
    """Training examples of a task."""

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [rows]."""

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; filler rows have weight 0."""


def epochs_of(
    train: Examples,
    settings: QuestionTrainingSettings | TranslationTrainingSettings,
    padded_lengths: Sequence[int],
    seed: int,
) -> tuple[Batches, range]:
    """Shuffled batches, and the last step of each epoch."""
    rows = len(train.lengths)
    batch_size = min(settings.batch_size, rows)
    steps = math.ceil(rows / batch_size)
    batches = by_epochs(
        shuffled(train.lengths, padded_lengths, batch_size, seed),
        lambda plan: batch_parts(*train.batch(plan)),
    )
    return batches, range(steps, steps * settings.epochs + 1, steps)


def check_max_tokens(max_tokens: int, positions: int) -> None:
    """Raise SettingsError for windows that are longer than an encoder's positions."""
    if max_tokens > positions:
        raise SettingsError(
            f"max_tokens {max_tokens} and an encoder with {positions} positions",
            expected=f"at most {positions}",
            fix="give a smaller max_tokens, or another encoder",
        )


def fine_tune(
    model: keras.Model,
    train: Examples,
    figures: Callable[[Any, Mapping[str, Any]], dict[str, Any]],
    settings: QuestionTrainingSettings,
    options: RunOptions,
    evaluate: Callable[[], dict[str, float]],
) -> int:
    """Train an encoder with a linear layer in place; returns the epoch with the best F1.

    The weights of that epoch are kept (Devlin et al. 2019, appendix A.3).

    Args:
        model: the network.
        train: its training examples.
        figures: maps outputs and targets of a batch to the summed loss.
        settings: the schedule.
        options: progress, callbacks and savepoints.
        evaluate: returns `val_f1`, and more, on held-out examples.
    """
    lengths = choose_lengths(train.lengths, settings.compiled_shapes)
    batches, ends = epochs_of(train, settings, lengths, options.seed)
    steps, best = ends[-1], BestEpoch("val_f1")
    Trainer(
        model,
        LayerwiseAdamW(
            WarmupLinearDecay(settings.learning_rate, int(steps * settings.warmup_fraction), steps),
            lambda _: 1.0,
            weight_decay=settings.weight_decay,
            clip_norm=settings.gradient_clip,
            not_decayed=BIASES_AND_NORMALISATION,
        ),
        figures,
        batches,
        epoch_ends=ends,
        progress=options.progress,
        evaluate=evaluate,
        callbacks=[best, *options.callbacks],
        savepoints=options.savepoints,
        shown=("loss", "f1"),
    ).run()
    return best.kept
