"""Out of scope: learned from known texts alone, without a text of the kind that is to be found.

Known texts of one label point in a few directions, as logits and as mean token embeddings; those directions are the centres of k-means. A
text far from all of them, or without a label that speaks up for it, is strange. The limit is a rank among the validation rows, so that
of texts like those at most one in fifty is expected above it (split conformal prediction, Vovk et al. 2005, section 4.1).

Chosen by holding labels out (figures in benchmarks/README.md), against the highest probability, energy, Mahalanobis distances and nearest
rows. A nearest row does as well, but would put training rows into the model; a centre stands for at least three different ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bertcnn.scope import Scope, features, unit

_OUTSIDE = 0.02  # of texts like the validation rows
_CENTRES, _ROWS_A_CENTRE, _FEWEST_ROWS = 12, 5, 3  # of a label at most; for each; without which a centre would give a row away
_KNOWN_OF_A_LABEL, _KNOWN = 80, 900
_NUMBERS = 1 << 23  # of all centres: 32 MiB


def rows_to_know(token_ids: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Different rows of each label for `learn_scope`: 80, or more if that is fewer than 900 altogether; int [rows], ascending.

    Args:
        token_ids: of the training rows.
        labels: int [rows], theirs.
    """
    first = {(row.tobytes(), int(label)): place for place, (row, label) in reversed(list(enumerate(zip(token_ids, labels, strict=True))))}
    different = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    most = max(_KNOWN_OF_A_LABEL, _KNOWN // max(1, len(np.unique(labels))))
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        own = different[labels[different] == label]
        chosen.append(own[np.linspace(0, len(own) - 1, min(len(own), most)).astype(int)])
    return np.sort(np.concatenate(chosen))


def learn_scope(
    logits: np.ndarray, means: np.ndarray, labels: np.ndarray, valid_logits: np.ndarray, valid_means: np.ndarray, *, seed: int = 0
) -> Scope:
    """The scope of a model.

    Args:
        logits: float32 [rows, C], of different training rows.
        means: float32 [rows, D], of their token embeddings.
        labels: int [rows], theirs.
        valid_logits: float32 [V, C], of rows not trained on.
        valid_means: float32 [V, D].
        seed: of k-means.

    Returns:
        One without centres, in which everything is in scope, if there are fewer than 49 validation rows, too many labels for 32 MiB of
        centres, or no label with 3 rows.
    """
    rank = math.ceil((len(valid_logits) + 1) * (1 - _OUTSIDE))
    if rank > len(valid_logits):
        return Scope()
    directions, places = _all_centres(logits, means, labels, seed)
    if not len(directions) or not len(places):
        return Scope()
    parts = features(valid_logits, valid_means, directions, places)
    spread = parts.std(axis=0)
    weights = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0).astype(np.float32)
    return Scope(directions, places, weights, float(np.sort(parts @ weights)[rank - 1]))


def moved_scope(scope: Scope, logits: np.ndarray, means: np.ndarray, labels: np.ndarray, *, seed: int = 0) -> Scope:
    """The scope of a model that was trained as another one, on rows that taught that one's scope: its limit, around the new centres.

    Args:
        scope: the other model's.
        logits: float32 [rows, C], of the same known rows, by the new model.
        means: float32 [rows, D].
        labels: int [rows].
        seed: of k-means.
    """
    if not scope:
        return scope
    directions, places = _all_centres(logits, means, labels, seed)
    return replace(scope, directions=directions, places=places)


def _all_centres(logits: np.ndarray, means: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Those of the logits and of the means; none if there are too many labels for them."""
    most = min(_CENTRES, _NUMBERS // (logits.shape[1] * (logits.shape[1] + means.shape[1])))
    directions, places = (_centres(unit(vectors), labels if most else labels[:0], most, seed) for vectors in (logits, means))
    return directions, places


def _centres(vectors: np.ndarray, labels: np.ndarray, most: int, seed: int) -> np.ndarray:
    """The centres of each label's vectors, of length 1; those of fewer than 3 rows are left out."""
    from sklearn.cluster import KMeans  # which loading a model does not need
    from sklearn.exceptions import ConvergenceWarning

    found = [np.empty((0, vectors.shape[1]), np.float32)]
    for label in np.unique(labels):
        own = vectors[labels == label]
        if len(own) < _FEWEST_ROWS:
            continue
        count = min(most, max(1, len(own) // _ROWS_A_CENTRE))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different vectors than centres: some stay empty
            groups = KMeans(count, n_init=1, random_state=seed).fit_predict(own)
        members = (own[groups == group] for group in range(count))
        kept = [rows.mean(axis=0) for rows in members if len(rows) >= _FEWEST_ROWS]
        found.append(np.stack(kept or [own.mean(axis=0)]))
    return unit(np.concatenate(found))
