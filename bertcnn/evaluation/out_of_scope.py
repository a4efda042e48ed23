"""Learns from known texts alone which texts are out of scope.

Known texts of one label point in a few directions, as logits and as mean token embeddings; those
directions are the centres of k-means. A text far from all of them, without a label that speaks up
for it, or in other words than its label's, is strange. The limit is a rank among the validation
rows, so that of texts like those at most one in fifty is expected above it (split conformal
prediction, Vovk et al. 2005, section 4.1).

Chosen by holding labels out (figures in docs/benchmarks), against the highest probability, energy,
Mahalanobis distances and nearest rows. A nearest row does as well, but would put training rows into
the model; a centre stands for at least three different ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bertcnn.bundle.scope import DetectorInputs, OutOfScopeDetector, unit

_OUTSIDE = 0.02  # of texts like the validation rows
_CENTRES, _ROWS_A_CENTRE, _FEWEST_ROWS = (
    12,
    5,
    3,
)  # of a label at most; for each; without which a centre would give a row away
_KNOWN_OF_A_LABEL, _KNOWN = 80, 900
_NUMBERS = 1 << 23  # of all centres: 32 MiB; half as many of the words
_LIKE_ALL = 5.0  # further texts of each label, whose words are those of all texts
_ENOUGH_LABELS = 50  # to tell by words, and by directions of logits, as well as by the other parts
_DIRECTIONS, _WORDS = 0, 3  # of the parts


def rows_to_know(token_ids: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Different rows of each label for `fit_detector`.

    80, or more if that is fewer than 900 altogether; int [rows], ascending.

    Args:
        token_ids: of the training rows.
        labels: int [rows], theirs.
    """
    first = {
        (row.tobytes(), int(label)): place
        for place, (row, label) in reversed(list(enumerate(zip(token_ids, labels, strict=True))))
    }
    different = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    most = max(_KNOWN_OF_A_LABEL, _KNOWN // max(1, len(np.unique(labels))))
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels):
        own = different[labels[different] == label]
        chosen.append(own[np.linspace(0, len(own) - 1, min(len(own), most)).astype(int)])
    return np.sort(np.concatenate(chosen))


def fit_detector(
    texts: DetectorInputs, labels: np.ndarray, valid: DetectorInputs, *, seed: int = 0
) -> OutOfScopeDetector:
    """The scope of a model.

    Args:
        texts: different training rows.
        labels: int [rows], theirs.
        valid: rows not trained on.
        seed: of k-means.

    Returns:
        One without centres, in which everything is in scope, if there are fewer than 49 validation
        rows, too many labels for 32 MiB of centres, or no label with 3 rows.
    """
    rank = math.ceil((len(valid.logits) + 1) * (1 - _OUTSIDE))
    if rank > len(valid.logits):
        return OutOfScopeDetector()
    scope = _around(OutOfScopeDetector(), texts, labels, seed)
    if not len(scope.logit_centroids) or not len(scope.embedding_centroids):
        return OutOfScopeDetector()
    parts = scope.features(valid)
    spread = parts.std(axis=0)
    weights = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0).astype(np.float32)
    weights[[_DIRECTIONS, _WORDS]] *= min(
        1.0, math.log(texts.logits.shape[1]) / math.log(_ENOUGH_LABELS)
    )  # what a label can tell
    return replace(scope, weights=weights, limit=float(np.sort(parts @ weights)[rank - 1]))


def refit_detector(
    scope: OutOfScopeDetector, texts: DetectorInputs, labels: np.ndarray, *, seed: int = 0
) -> OutOfScopeDetector:
    """The scope of a model that was trained as another one, on rows that taught that one's scope.

    Its limit, around the new centres.

    Args:
        scope: the other model's.
        texts: the same known rows, as the new model reads them.
        labels: int [rows].
        seed: of k-means.
    """
    return _around(scope, texts, labels, seed) if scope else scope


def _around(
    scope: OutOfScopeDetector, texts: DetectorInputs, labels: np.ndarray, seed: int
) -> OutOfScopeDetector:
    """`scope` with these texts' centres and words.

    Without centres if there are too many labels for them.
    """
    classes = texts.logits.shape[1]
    most = min(_CENTRES, _NUMBERS // (classes * (classes + texts.means.shape[1])))
    if not most:
        return OutOfScopeDetector()
    directions, places = (
        _centres(unit(vectors), labels, most, seed) for vectors in (texts.logits, texts.means)
    )
    words, log_odds = label_words(texts.words, labels, classes)
    return replace(
        scope,
        logit_centroids=directions,
        embedding_centroids=places,
        words=words,
        log_odds=log_odds,
    )


def label_words(
    pairs: np.ndarray, labels: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The words that stand in at least 3 rows, as they give no row away, and what they speak for.

    See `OutOfScopeDetector`.
    """
    words, place, rows_with = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
    often = np.sort(np.argsort(-rows_with, kind="stable")[: _NUMBERS // 2 // classes])
    often = often[rows_with[often] >= _FEWEST_ROWS]
    kept = np.full(len(words), -1)
    kept[often] = np.arange(len(often))
    row, word = pairs[kept[place] >= 0, 0], kept[place][kept[place] >= 0]
    counts = np.zeros((len(often), classes), np.float32)
    np.add.at(counts, (word, labels[row]), 1)
    share = (rows_with[often, None] + 0.5) / (len(labels) + 1)  # of all rows
    in_label = (counts + _LIKE_ALL * share) / (np.bincount(labels, minlength=classes) + _LIKE_ALL)
    return words[often].astype(np.int32), np.log(in_label / share).astype(np.float32)


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
            # fewer different vectors than centres: some stay empty
            warnings.simplefilter("ignore", ConvergenceWarning)
            groups = KMeans(count, n_init=1, random_state=seed).fit_predict(own)
        members = (own[groups == group] for group in range(count))
        kept = [rows.mean(axis=0) for rows in members if len(rows) >= _FEWEST_ROWS]
        found.append(np.stack(kept or [own.mean(axis=0)]))
    return unit(np.concatenate(found))
