"""The recipe for few rows a label: contrast, then a head started from a regression.

Everything that is known is learned from: the labels' names and the rows held out too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bertcnn.models.bert import Bert
from bertcnn.models.classifier import CnnHead
from bertcnn.progress import Progress
from bertcnn.settings import TrainingSettings
from bertcnn.training.contrast import tune_by_contrast
from bertcnn.training.features import Embed, TokenizedRows
from bertcnn.training.fit import FitResult
from bertcnn.training.head import train_head
from bertcnn.training.probe import regression
from bertcnn.training.savepoints import Savepoints

_FOLDS, _ENOUGH = 5, 1000  # folds, as many of which are asked about as have so many rows together


def train_few_shot(  # noqa: PLR0913 - what a training is made of
    encoder: Bert,
    head: CnnHead,
    train: TokenizedRows,
    valid: TokenizedRows,
    settings: TrainingSettings,
    *,
    embed_with: Callable[[Bert], Embed],
    label_names: Sequence[np.ndarray] | None = None,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
    known: np.ndarray | None = None,
    refit: bool = False,
) -> FitResult:
    """Tune the encoder by contrast, then train the head from a linear probe; both are changed in place.

    Where rows may have several labels the encoder stays as it is and names are not learned from, as neither has been measured there.

    Args:
        encoder: with published weights.
        head: new.
        train: rows to learn from.
        valid: rows that choose the epoch.
        settings: how.
        embed_with: makes what computes an encoder's output.
        label_names: token ids of each label's name, int32 [T]; they are learned from, as texts of their labels, if that helps to tell the
            rows apart.
        seed: of all chance.
        progress: told how far it is.
        savepoints: as for `train_head`.
        known: as for `train_head`.
        refit: as for `train_head`.
    """
    if label_names is not None and train.multi_hot is None:
        named = TokenizedRows(list(label_names), np.arange(len(label_names)))
        means = mean_embeddings(embed_with(encoder), [*train.token_ids, *named.token_ids], encoder.settings.width)
        without, with_names = accuracy_without_and_with(means[: len(train.labels)], train.labels, means[len(train.labels) :], seed)
        outcome = f"{without:.1%} of the rows are told apart without the labels' names, {with_names:.1%} with them"
        progress.note(f"{outcome}: they are {'learned from too' if with_names > without else 'left out'}")
        if with_names > without:
            train = train.with_rows(named)
    if settings.contrast_steps and train.multi_hot is None:
        tune_by_contrast(encoder, train, settings, seed=seed, progress=progress)
    return train_head(
        embed_with(encoder),
        head,
        train,
        valid,
        settings,
        probe=True,
        refit=refit,
        seed=seed,
        progress=progress,
        savepoints=savepoints,
        known=known,
    )


def mean_embeddings(embed: Embed, token_ids: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Each row's mean token embedding, float32 [rows, D]."""
    means = np.empty((len(token_ids), width), np.float32)

    def store(rows: np.ndarray, hidden: np.ndarray) -> None:
        for place, row in enumerate(rows):
            means[row] = hidden[place, : len(token_ids[row])].mean(axis=0)

    embed(token_ids, store)
    return means


def accuracy_without_and_with(means: np.ndarray, labels: np.ndarray, name_means: np.ndarray, seed: int) -> tuple[float, float]:
    """How many of the rows a linear probe gets right that has not learned from them, without and with the labels' names to learn from.

    Args:
        means: float32 [rows, D], of the rows' token embeddings.
        labels: int [rows], 0 to C - 1.
        name_means: float32 [C, D], of the names'.
        seed: of the folds.
    """
    chance, fold = np.random.default_rng(seed), np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        own = chance.permutation(np.flatnonzero(labels == label))
        fold[own] = (np.arange(len(own)) + chance.integers(_FOLDS)) % _FOLDS
    means, name_means = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (means, name_means))
    asked, right = 0, np.zeros(2)
    for number in range(_FOLDS):
        held_out = fold == number
        learned = [(means[~held_out], labels[~held_out])]
        learned.append((np.concatenate([learned[0][0], name_means]), np.concatenate([learned[0][1], np.arange(len(name_means))])))
        if not held_out.any() or len(np.unique(learned[0][1])) < 2:
            continue
        for place, (vectors, names) in enumerate(learned):
            found = regression(vectors, names, np.ones(len(names)))
            right[place] += np.sum(found.predict(means[held_out]) == labels[held_out])
        asked += int(held_out.sum())
        if asked >= _ENOUGH:
            break
    without, with_names = right / max(asked, 1)
    return float(without), float(with_names)
