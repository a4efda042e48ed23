"""Training again and again on the same rows: what stays the same is computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import CnnHead
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import HeadSettings, TrainingSettings
from bertcnn.training.features import Embed, Features, TokenizedRows, keras_embed
from bertcnn.training.fit import Examples, FitResult
from bertcnn.training.head import fit_head
from bertcnn.training.recipes import train


@dataclass(frozen=True)
class Attempt:
    """One training.

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


Attempts = Callable[[Attempt, Progress], FitResult]  # runs one attempt


def head_attempts(encoder: Bert, rows: TokenizedRows, embed: Embed | None, path: Path, progress: Progress) -> Attempts:
    """Attempts at the recipe `frozen`; the encoder's output for all rows is computed here.

    Args:
        encoder: stays as it is.
        rows: of which attempts take parts.
        embed: computes the output; by default Keras does.
        path: a new file for it.
        progress: told of every batch.
    """
    width, classes = encoder.settings.width, int(rows.labels.max()) + 1
    progress.stage("computing encoder features", len(rows.labels))
    features = Features(embed or keras_embed(encoder), width, rows.token_ids, path, progress)

    def part(chosen: np.ndarray) -> Examples:
        return Examples(features.of(chosen).collate, rows.lengths[chosen], rows.labels[chosen])

    def run(attempt: Attempt, progress: Progress) -> FitResult:
        head = CnnHead(width, classes, attempt.head, seed=attempt.seed, name="head")
        return fit_head(head, part(attempt.train), part(attempt.valid), attempt.settings, seed=attempt.seed, progress=progress)

    return run


def full_attempts(encoder: Bert, rows: TokenizedRows) -> Attempts:
    """Attempts at the recipe `full`; each starts from the weights that `encoder` has now.

    An attempt is one training: what is best for one is taken to be best for two, in half the time.
    """
    published = {name: value.copy() for name, value in extract(encoder.weights).items()}

    def part(chosen: np.ndarray) -> TokenizedRows:
        return TokenizedRows([rows.token_ids[row] for row in chosen], rows.labels[chosen])

    def run(attempt: Attempt, progress: Progress) -> FitResult:
        assign(encoder.weights, published, error=TrainingError)
        _, result = train(
            encoder,
            part(attempt.train),
            part(attempt.valid),
            attempt.head,
            "full",
            attempt.settings.model_copy(update={"trainings": 1}),
            seed=attempt.seed,
            progress=progress,
        )
        return result

    return run
