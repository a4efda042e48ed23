"""Repeated trainings on the same rows; what stays the same is computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.inference.embeddings import Embed
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import CnnHead
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import HeadSettings, TrainingSettings
from bertcnn.training.batches import Examples
from bertcnn.training.features import Features, TokenizedRows, keras_embed
from bertcnn.training.head import fit_head
from bertcnn.training.recipes import train
from bertcnn.training.state import FitResult
from bertcnn.training.training_data import RunOptions, TrainingData


@dataclass(frozen=True)
class Trial:
    """One training of many: row numbers and settings, small enough for a worker process.

    Attributes:
        train: int [rows], the rows to learn from.
        valid: int [rows], the rows that choose the epoch.
        head: shape of the CNN head.
        settings: how.
        seed: of all chance.
    """

    train: np.ndarray
    valid: np.ndarray
    head: HeadSettings
    settings: TrainingSettings
    seed: int


class Trials(Protocol):
    """Runs trials; can be pickled."""

    def __call__(self, trial: Trial, progress: Progress, /) -> FitResult:
        """One training, as it would be alone."""


class HeadTrials:
    """Trials at the recipe `frozen`; the encoder's output for all rows is computed here.

    Args:
        encoder: stays as it is.
        rows: of which trials take parts.
        embed: computes the output; by default Keras does.
        path: a new file for it, which has to stay.
        progress: called for every batch.
    """

    def __init__(
        self,
        encoder: Bert,
        rows: TokenizedRows,
        embed: Embed | None,
        path: Path,
        progress: Progress,
    ) -> None:
        self._width, self._classes, self._rows = (
            encoder.settings.width,
            int(rows.labels.max()) + 1,
            rows,
        )
        progress.stage("computing encoder features", len(rows.labels))
        self._features = Features(
            embed or keras_embed(encoder), self._width, rows.token_ids, path, progress
        )

    def __call__(self, trial: Trial, progress: Progress) -> FitResult:
        """Train a head."""
        head = CnnHead(self._width, self._classes, trial.head, seed=trial.seed, name="head")
        parts = self._part(trial.train), self._part(trial.valid)
        return fit_head(head, *parts, trial.settings, seed=trial.seed, progress=progress)

    def _part(self, chosen: np.ndarray) -> Examples:
        return Examples(
            self._features.of(chosen).collate, self._rows.lengths[chosen], self._rows.labels[chosen]
        )


class FullTrials:
    """Trials at the recipe `full`; each starts from the weights that `encoder` has now.

    A trial is one training: what is best for one is taken to be best for several.

    Args:
        encoder: stays as it is.
        rows: of which trials take parts.
        changes: to the settings of each trial; by default none.
    """

    def __init__(
        self, encoder: Bert, rows: TokenizedRows, changes: Mapping[str, Any] | None = None
    ) -> None:
        self._settings, self._seed, self._rows = encoder.settings, encoder.seed, rows
        self._changes = dict(changes or {})
        self._weights = extract(encoder.weights)

    def __call__(self, trial: Trial, progress: Progress) -> FitResult:
        """Train an encoder of its own and a head."""
        encoder = Bert(self._settings, seed=self._seed)
        assign(encoder.weights, self._weights, error=TrainingError)
        parts = self._rows.of(trial.train), self._rows.of(trial.valid)
        once = trial.settings.model_copy(update=self._changes)
        run = RunOptions(trial.seed, progress)
        _, result = train(encoder, TrainingData(*parts), trial.head, "full", once, run)
        return result
