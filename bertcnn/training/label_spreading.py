"""Pseudo-labels for unlabelled rows, from a regression and from label spreading."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.stats import binomtest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from bertcnn.training.linear_probe import regression

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
