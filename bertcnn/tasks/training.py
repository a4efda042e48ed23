"""The epochs of a task's training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from bertcnn.data import BatchPlan
from bertcnn.settings import QuestionTrainingSettings, TranslationTrainingSettings
from bertcnn.training import Arrays, Batches, batch_parts, by_epochs, shuffled

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
