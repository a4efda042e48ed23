"""Pseudo-labels for rows without a label, from the labelled rows around them."""

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
_ALPHA = 0.9  # how much a row takes from its neighbours; the rest it keeps of its own label
_ROUNDS = 30
# instead of no share of a label at all, so that the regression can still say it
_NOT_REACHED = 1e-3
_WITHOUT_LABEL = -1
_CHANCE = 0.05  # how often rows that change nothing may be taken for harmful


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """The labels that rows without a label are given.

    Attributes:
        labels: int64 [rows].
        sureness: of these, float64 [rows], between 0 and 1.
        by_regression: what the labelled rows alone say, int64 [rows].
    """

    labels: np.ndarray
    sureness: np.ndarray
    by_regression: np.ndarray

    def right(self, labels: np.ndarray) -> tuple[int, int]:
        """How many of the first rows, with known labels, are right: by regression, by both."""
        found = (self.by_regression, self.labels)
        by_regression, by_both = (int(np.sum(one[: len(labels)] == labels)) for one in found)
        return by_regression, by_both

    def harm(self, labels: np.ndarray) -> bool:
        """Whether the first rows, whose labels are these, speak against the spreading.

        A one-sided sign test of those it changed.
        """
        found = (self.by_regression, self.labels)
        before, after = (one[: len(labels)] == labels for one in found)
        lost, won = int(np.sum(before & ~after)), int(np.sum(after & ~before))
        return lost > 0 and binomtest(lost, lost + won, alternative="greater").pvalue <= _CHANCE


def spread_labels(
    views: Sequence[np.ndarray], labels: np.ndarray, row_weights: np.ndarray
) -> PseudoLabels:
    """Labels for rows that have none, from two witnesses.

    One is a logistic regression on the labelled rows. The other follows the rows themselves: each
    is joined to its nearest ones, and labels spread along these joints until they change no more
    (Zhou et al. 2004, "Learning with Local and Global Consistency", section 2), so that a label
    reaches wordings which no labelled row has. Where they disagree the spreading counts twice as
    much as the regression.

    Args:
        views: each float32 [labelled + others, D], of length 1: the rows as one encoder sees them,
            the labelled ones first. Neighbours are near in all views together, the regression looks
            at the first.
        labels: int [labelled], at least two different ones.
        row_weights: float [labelled], how much each row counts for both witnesses; the same for all
            rows of a label.

    Returns:
        The pseudo-label of each of the others.
    """
    classes, first = np.unique(labels, return_index=True)
    labelled, others = views[0][: len(labels)], views[0][len(labels) :]
    said = regression(labelled, labels, row_weights).predict_proba(others)
    together = np.concatenate(views, axis=1)
    with warnings.catch_warnings():
        # what still moves after so many rounds does not change who is first
        warnings.simplefilter("ignore", ConvergenceWarning)
        spreading = LabelSpreading(
            kernel=lambda rows, _=None: _joints(rows), alpha=_ALPHA, max_iter=_ROUNDS
        )
        spreading.fit(together, np.concatenate([labels, np.full(len(others), _WITHOUT_LABEL)]))
    # what spreads is linear in what it started from
    reached = spreading.label_distributions_[len(labels) :] * row_weights[first]
    shares = np.sqrt(said) * (reached + _NOT_REACHED)
    shares /= shares.sum(axis=1, keepdims=True)
    by_both, by_regression = (classes[one.argmax(axis=1)] for one in (shares, said))
    return PseudoLabels(by_both, shares.max(axis=1), by_regression)


def _joints(rows: np.ndarray) -> csr_matrix:
    """Which rows are joined, float [rows, rows]: each with its nearest, in either direction."""
    neighbours = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(rows) - 1))
    nearest = neighbours.fit(rows).kneighbors_graph()
    return nearest.maximum(nearest.T)
