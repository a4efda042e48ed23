"""The recipe for few rows a label: contrast, then a head started from a regression.

Everything that is known is learned from: the labels' names, rows without a label, and the rows held
out too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bertcnn.models.bert import Bert
from bertcnn.models.classifier import CnnHead
from bertcnn.progress import Progress, Silent
from bertcnn.settings import ClassWeight, TrainingSettings
from bertcnn.training.contrastive import tune_by_contrast
from bertcnn.training.features import Embed, TokenizedRows
from bertcnn.training.fit import FitResult, class_weights
from bertcnn.training.head import train_head
from bertcnn.training.label_spreading import PseudoLabels, call
from bertcnn.training.linear_probe import regression
from bertcnn.training.savepoints import Savepoints
from bertcnn.wording import count

_FOLDS, _ENOUGH = 5, 1000  # folds, as many of which are asked about as have so many rows together
# of the rows without a label are learned from: what is like none of the labelled ones is called
# anything
_SURE = 0.9
_FEWEST_EPOCHS = 6


def train_few_shot(  # noqa: PLR0913 - what a training is made of
    encoder: Bert,
    head: CnnHead,
    train: TokenizedRows,
    valid: TokenizedRows,
    settings: TrainingSettings,
    *,
    embed_with: Callable[[Bert], Embed],
    label_names: Sequence[np.ndarray] | None = None,
    unlabelled: Sequence[np.ndarray] = (),
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
    known: np.ndarray | None = None,
    refit: bool = False,
) -> FitResult:
    """Tune the encoder by contrast, then train the head from a linear probe.

    Both are changed in place. Where rows may have several labels the encoder stays as it is, and
    neither names nor rows without a label are learned from, as nothing of this has been measured
    there.

    Args:
        encoder: with published weights.
        head: new.
        train: rows to learn from.
        valid: rows that choose the epoch.
        settings: how.
        embed_with: makes what computes an encoder's output.
        label_names: token ids of each label's name, int32 [T]; they are learned from, as texts of
            their labels, if that helps to tell the rows apart.
        unlabelled: token ids of rows without a label, int32 [T] each; the surest nine tenths are
            learned from, as what they are called, unless the held-out rows speak against it.
        seed: of all chance.
        progress: told how far it is.
        savepoints: as for `train_head`.
        known: as for `train_head`.
        refit: as for `train_head`.
    """
    again, called = None, 0
    if train.multi_hot is None:
        names, labelled = list(label_names or ()), len(train.labels)
        others = [*valid.token_ids, *unlabelled] if unlabelled else []
        progress.stage("comparing rows", labelled + len(names) + len(others))
        before = directions(
            embed_with(encoder),
            [*train.token_ids, *names, *others],
            encoder.settings.width,
            progress,
        )
        of_train, of_names, of_others = np.split(before, [labelled, labelled + len(names)])
        if names and _names_help(of_train, train.labels, of_names, seed, progress):
            train, of_train = (
                train.with_rows(TokenizedRows(names, np.arange(len(names)))),
                np.concatenate([of_train, of_names]),
            )
        if settings.contrast_steps:
            tune_by_contrast(encoder, train, settings, seed=seed, progress=progress)
        if unlabelled:
            progress.stage("comparing rows once more", len(train.labels) + len(others))
            after = directions(
                embed_with(encoder), [*train.token_ids, *others], encoder.settings.width, progress
            )
            with_label = len(train.labels)
            views = [after, np.concatenate([of_train, of_others])]
            train, again = with_called(
                train, valid, unlabelled, views, settings.class_weight, progress
            )
            called = len(train.labels) - with_label
            epochs = max(
                _FEWEST_EPOCHS, math.ceil(settings.epochs * with_label / len(train.labels))
            )
            settings = settings.model_copy(update={"epochs": min(settings.epochs, epochs)})
    result = train_head(
        embed_with(encoder),
        head,
        train,
        valid,
        settings,
        probe=True,
        refit=refit,
        refit_labels=again,
        seed=seed,
        progress=progress,
        savepoints=savepoints,
        known=known,
    )
    return replace(result, called=called)


def with_called(
    train: TokenizedRows,
    valid: TokenizedRows,
    unlabelled: Sequence[np.ndarray],
    views: Sequence[np.ndarray],
    class_weight: ClassWeight | None,
    progress: Progress,
) -> tuple[TokenizedRows, np.ndarray | None]:
    """The rows to learn from, and behind them those without a label of whose labels `call` is surest, unless `valid` speaks against it.

    Args:
        train: rows with labels.
        valid: rows whose labels are not to be learned from before the end.
        unlabelled: token ids of rows without a label, int32 [T] each.
        views: of all three kinds, one behind the other, as `call` takes them.
        class_weight: how much rare labels count; a label with many rows would be spread to what is
            between it and others.
        progress: told what became of them.

    Returns:
        The rows, and the labels that they have when those of `valid` are learned from too, int64
        [rows], if they are others.
    """
    asked = len(valid.labels)
    calls = _call(views, train.labels, class_weight)
    without, with_others = calls.right(valid.labels)
    outcome = (
        f"of {count(asked, 'held-out row')} {without} would be called rightly without these,"
        f" {with_others} with them"
    )
    harm = calls.harm(valid.labels)
    if with_others < without and not harm:
        outcome += ", which can be chance"
    progress.note(
        f"{count(len(unlabelled), 'row')} without a label: {outcome}: they are"
        f" {'left out' if harm else 'learned from too'}"
    )
    if harm:
        return train, None
    sure = np.sort(
        np.argsort(-calls.sureness[asked:], kind="stable")[: max(1, round(_SURE * len(unlabelled)))]
    )
    rows = train.with_rows(
        TokenizedRows([unlabelled[row] for row in sure], calls.labels[asked:][sure])
    )
    known = np.concatenate([train.labels, valid.labels])
    return rows, np.concatenate([train.labels, _call(views, known, class_weight).labels[sure]])


def _call(
    views: Sequence[np.ndarray], labels: np.ndarray, class_weight: ClassWeight | None
) -> PseudoLabels:
    return call(views, labels, class_weights(labels, int(labels.max()) + 1, class_weight)[labels])


def directions(
    embed: Embed, token_ids: Sequence[np.ndarray], width: int, progress: Progress | None = None
) -> np.ndarray:
    """Each row's mean token embedding, of length 1: float32 [rows, D].

    `progress` advances by rows.
    """
    means = mean_embeddings(embed, token_ids, width, progress)
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)


def mean_embeddings(
    embed: Embed, token_ids: Sequence[np.ndarray], width: int, progress: Progress | None = None
) -> np.ndarray:
    """Each row's mean token embedding, float32 [rows, D]; `progress` advances by rows."""
    means, told = np.empty((len(token_ids), width), np.float32), progress or Silent()

    def store(rows: np.ndarray, hidden: np.ndarray) -> None:
        for place, row in enumerate(rows):
            means[row] = hidden[place, : len(token_ids[row])].mean(axis=0)
        told.advance(len(rows))

    embed(token_ids, store)
    return means


def accuracy_without_and_with(
    means: np.ndarray, labels: np.ndarray, name_means: np.ndarray, seed: int
) -> tuple[float, float]:
    """How many of the rows a linear probe gets right that has not learned from them, without and with the labels' names to learn from.

    Args:
        means: float32 [rows, D], of length 1.
        labels: int [rows], 0 to C - 1.
        name_means: float32 [C, D], of length 1, of the names.
        seed: of the folds.
    """
    chance, fold = np.random.default_rng(seed), np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        own = chance.permutation(np.flatnonzero(labels == label))
        fold[own] = (np.arange(len(own)) + chance.integers(_FOLDS)) % _FOLDS
    asked, right = 0, np.zeros(2)
    for number in range(_FOLDS):
        held_out = fold == number
        learned = [(means[~held_out], labels[~held_out])]
        learned.append(
            (
                np.concatenate([learned[0][0], name_means]),
                np.concatenate([learned[0][1], np.arange(len(name_means))]),
            )
        )
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


def _names_help(
    means: np.ndarray, labels: np.ndarray, name_means: np.ndarray, seed: int, progress: Progress
) -> bool:
    """Whether labels' names tell more than the rows alone; the notes say so."""
    without, with_names = accuracy_without_and_with(means, labels, name_means, seed)
    outcome = (
        f"{without:.1%} of the rows are told apart without the labels' names, {with_names:.1%} with"
        " them"
    )
    progress.note(
        f"{outcome}: they are {'learned from too' if with_names > without else 'left out'}"
    )
    return with_names > without
