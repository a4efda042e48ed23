"""The few-shot recipe: contrastive training, then a head initialised from a linear probe.

It also uses label names, unlabelled rows, and finally the held-out rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from bertcnn.bundle import unit
from bertcnn.inference import Embed, mean_embeddings
from bertcnn.models import Bert, CnnHead
from bertcnn.progress import Progress
from bertcnn.settings import ClassWeight, TrainingSettings
from bertcnn.training.batches import class_weights
from bertcnn.training.contrastive import tune_by_contrast
from bertcnn.training.features import TokenizedRows
from bertcnn.training.head import train_head
from bertcnn.training.linear_probe import regression
from bertcnn.training.state import FitResult
from bertcnn.training.training_data import RunOptions, TrainingData
from bertcnn.wording import count

_FOLDS, _ENOUGH = 5, 1000  # folds are predicted until they hold this many rows
# share of unlabelled rows to train on: a row unlike all labelled rows has a useless pseudo-label
_SURE = 0.9
_FEWEST_EPOCHS = 6
_NEIGHBOURS = 8
_ALPHA = 0.9  # share that a row takes from its neighbours; the rest stays with its own label
_ROUNDS = 30
# replaces a share of 0, so that the regression can still decide
_NOT_REACHED = 1e-3
_WITHOUT_LABEL = -1
_CHANCE = 0.05  # chance of rejecting pseudo-labels that change nothing


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """Pseudo-labels of unlabelled rows, int64 [rows], with their `sureness` from 0 to 1.

    `by_regression` are the labels by regression alone.
    """

    labels: np.ndarray
    sureness: np.ndarray
    by_regression: np.ndarray

    def right(self, labels: np.ndarray) -> tuple[int, int]:
        """How many of the first rows are right: by regression, and by both methods."""
        predictions = (self.by_regression, self.labels)
        by_regression, by_both = (int(np.sum(one[: len(labels)] == labels)) for one in predictions)
        return by_regression, by_both

    def harm(self, labels: np.ndarray) -> bool:
        """Whether label spreading is worse on the first rows, by a one-sided sign test."""
        predictions = (self.by_regression, self.labels)
        before, after = (one[: len(labels)] == labels for one in predictions)
        lost, won = int(np.sum(before & ~after)), int(np.sum(after & ~before))
        return lost > 0 and binomtest(lost, lost + won, alternative="greater").pvalue <= _CHANCE


def spread_labels(
    views: Sequence[np.ndarray], labels: np.ndarray, row_weights: np.ndarray
) -> PseudoLabels:
    """Pseudo-label rows by logistic regression and label spreading.

    The regression is fitted on the labelled rows. Label spreading joins each row to its nearest
    neighbours and spreads the labels along the graph until they converge (Zhou et al. 2004,
    "Learning with Local and Global Consistency", section 2). It reaches wordings that no labelled
    row has. If the two disagree, label spreading counts twice as much.

    Each view is float32 [labelled + others, D], of length 1: embeddings of one encoder, labelled
    rows first. Neighbours are close in all views; the regression uses the first view.
    `row_weights`, float [labelled], are the same for all rows of a label.
    """
    classes, first = np.unique(labels, return_index=True)
    labelled, others = views[0][: len(labels)], views[0][len(labels) :]
    said = regression(labelled, labels, row_weights).predict_proba(others)
    together = np.concatenate(views, axis=1)
    with warnings.catch_warnings():
        # after this many rounds the top label no longer changes
        warnings.simplefilter("ignore", ConvergenceWarning)
        spreading = LabelSpreading(
            kernel=lambda rows, _=None: _joints(rows), alpha=_ALPHA, max_iter=_ROUNDS
        )
        spreading.fit(together, np.concatenate([labels, np.full(len(others), _WITHOUT_LABEL)]))
    # spreading is linear, so weights can be applied afterwards
    reached = spreading.label_distributions_[len(labels) :] * row_weights[first]
    shares = np.sqrt(said) * (reached + _NOT_REACHED)
    shares /= shares.sum(axis=1, keepdims=True)
    by_both, by_regression = (classes[one.argmax(axis=1)] for one in (shares, said))
    return PseudoLabels(by_both, shares.max(axis=1), by_regression)


def _joints(rows: np.ndarray) -> csr_matrix:
    """The symmetric nearest-neighbour graph, float [rows, rows]."""
    neighbours = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(rows) - 1))
    nearest = neighbours.fit(rows).kneighbors_graph()
    return nearest.maximum(nearest.T)


def train_few_shot(
    encoder: Bert, head: CnnHead, data: TrainingData, settings: TrainingSettings, run: RunOptions
) -> FitResult:
    """Train the encoder by the contrastive loss, then train the head from a linear probe.

    Both are changed in place. Label names become training texts if cross-validation shows a gain.
    The most certain nine tenths of the unlabelled rows are pseudo-labelled, unless this harms
    accuracy on the held-out rows. For multi-label rows the encoder stays frozen, and label names
    and unlabelled rows are ignored, since their effect has not been measured.
    """
    refit_labels, pseudo_labelled = None, 0
    if data.train.multi_hot is None:
        data, views = _with_names(encoder, data, run)
        if settings.contrast_steps:
            tune_by_contrast(encoder, data.train, settings, seed=run.seed, progress=run.progress)
        if data.unlabelled:
            labelled = len(data.train.labels)
            data, refit_labels = _with_unlabelled(encoder, data, views, settings, run)
            pseudo_labelled = len(data.train.labels) - labelled
            as_many_steps = math.ceil(settings.epochs * labelled / len(data.train.labels))
            epochs = min(settings.epochs, max(_FEWEST_EPOCHS, as_many_steps))
            settings = settings.model_copy(update={"epochs": epochs})
    embed = run.embed_with(encoder)
    result = train_head(embed, head, data, settings, run, probe=True, refit_labels=refit_labels)
    return replace(result, pseudo_labelled=pseudo_labelled)


def _with_names(
    encoder: Bert, data: TrainingData, run: RunOptions
) -> tuple[TrainingData, np.ndarray]:
    """The data, with label names as training rows if they help, and the rows' embeddings.

    They are float32 [rows, D], of length 1: training, then validation and unlabelled rows if any.
    """
    train, names, labelled = data.train, list(data.label_names or ()), len(data.train.labels)
    others = _others(data)
    run.progress.stage("comparing rows", labelled + len(names) + len(others))
    token_ids = [*train.token_ids, *names, *others]
    embed, width = run.embed_with(encoder), encoder.settings.width
    of_all = directions(embed, token_ids, width, run.progress)
    of_train, of_names, of_others = np.split(of_all, [labelled, labelled + len(names)])
    if names and _names_help(of_train, train.labels, of_names, run.seed, run.progress):
        data = replace(data, train=train.with_rows(TokenizedRows(names, np.arange(len(names)))))
        of_train = np.concatenate([of_train, of_names])
    return data, np.concatenate([of_train, of_others])


def _with_unlabelled(
    encoder: Bert,
    data: TrainingData,
    before: np.ndarray,
    settings: TrainingSettings,
    run: RunOptions,
) -> tuple[TrainingData, np.ndarray | None]:
    train, others = data.train, _others(data)
    run.progress.stage("comparing rows once more", len(train.labels) + len(others))
    embed, width = run.embed_with(encoder), encoder.settings.width
    after = directions(embed, [*train.token_ids, *others], width, run.progress)
    train, refit_labels = with_pseudo_labels(
        train, data.valid, data.unlabelled, [after, before], settings.class_weight, run.progress
    )
    return replace(data, train=train), refit_labels


def _others(data: TrainingData) -> list[np.ndarray]:
    return [*data.valid.token_ids, *data.unlabelled] if data.unlabelled else []


def with_pseudo_labels(
    train: TokenizedRows,
    valid: TokenizedRows,
    unlabelled: Sequence[np.ndarray],
    views: Sequence[np.ndarray],
    class_weight: ClassWeight | None,
    progress: Progress,
) -> tuple[TokenizedRows, np.ndarray | None]:
    """The training rows plus the most certain pseudo-labelled rows, unless these do harm.

    The labels of `valid` only evaluate the pseudo-labels at first. `unlabelled` are token ids,
    int32 [T] each. `views` are embeddings of training, validation and unlabelled rows in this
    order; see `spread_labels`. `class_weight` weights rare labels; without it frequent labels
    spread too far.

    Returns:
        The rows, and their labels after the labels of `valid` were added, int64 [rows]; None if the
        pseudo-labels are not used.
    """
    held_out = len(valid.labels)
    pseudo_labels = _spread(views, train.labels, class_weight)
    without, with_others = pseudo_labels.right(valid.labels)
    outcome = (
        f"of {count(held_out, 'held-out row')} {without} would get the right label without these,"
        f" {with_others} with them"
    )
    harm = pseudo_labels.harm(valid.labels)
    if with_others < without and not harm:
        outcome += ", which can be chance"
    progress.note(
        f"{count(len(unlabelled), 'row')} without a label: {outcome}: they are"
        f" {'left out' if harm else 'used for training too'}"
    )
    if harm:
        return train, None
    surest = np.argsort(-pseudo_labels.sureness[held_out:], kind="stable")
    sure = np.sort(surest[: max(1, round(_SURE * len(unlabelled)))])
    token_ids, labels = [unlabelled[row] for row in sure], pseudo_labels.labels[held_out:][sure]
    rows = train.with_rows(TokenizedRows(token_ids, labels))
    targets = np.concatenate([train.labels, valid.labels])
    return rows, np.concatenate([train.labels, _spread(views, targets, class_weight).labels[sure]])


def _spread(
    views: Sequence[np.ndarray], labels: np.ndarray, class_weight: ClassWeight | None
) -> PseudoLabels:
    weights = class_weights(labels, int(labels.max()) + 1, class_weight)
    return spread_labels(views, labels, weights[labels])


def directions(
    embed: Embed, token_ids: Sequence[np.ndarray], width: int, progress: Progress | None = None
) -> np.ndarray:
    """The mean token embedding of each row, scaled to length 1: float32 [rows, D]."""
    return unit(mean_embeddings(embed, token_ids, width, progress))


def accuracy_without_and_with(
    means: np.ndarray, labels: np.ndarray, name_means: np.ndarray, seed: int
) -> tuple[float, float]:
    """Cross-validated accuracy of a linear probe, without and with label names as training texts.

    `means`, float32 [rows, D], and `name_means`, float32 [C, D], have length 1.
    """
    chance, fold = np.random.default_rng(seed), np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        own = chance.permutation(np.flatnonzero(labels == label))
        fold[own] = (np.arange(len(own)) + chance.integers(_FOLDS)) % _FOLDS
    evaluated, right = 0, np.zeros(2)
    for number in range(_FOLDS):
        held_out = fold == number
        vectors, names = means[~held_out], labels[~held_out]
        if not held_out.any() or len(np.unique(names)) < 2:
            continue
        for variant in range(2):
            if variant == 1:
                vectors = np.concatenate([vectors, name_means])
                names = np.concatenate([names, np.arange(len(name_means))])
            probe = regression(vectors, names, np.ones(len(names)))
            right[variant] += np.sum(probe.predict(means[held_out]) == labels[held_out])
        evaluated += int(held_out.sum())
        if evaluated >= _ENOUGH:
            break
    without, with_names = right / max(evaluated, 1)
    return float(without), float(with_names)


def _names_help(
    means: np.ndarray, labels: np.ndarray, name_means: np.ndarray, seed: int, progress: Progress
) -> bool:
    without, with_names = accuracy_without_and_with(means, labels, name_means, seed)
    outcome = (
        f"{without:.1%} of the rows are right without the labels' names, {with_names:.1%} with them"
    )
    progress.note(
        f"{outcome}: they are {'used for training too' if with_names > without else 'left out'}"
    )
    return with_names > without
