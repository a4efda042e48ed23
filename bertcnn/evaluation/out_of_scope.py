"""Fits the out-of-scope detector on known texts and a general background.

The logits and mean token embeddings of a label's texts have few directions, represented by k-means
centroids. A text is unusual if it is far from all centroids, has no probable label, or has unusual
words for its label. It is also unusual if a logistic regression assigns it to a background of
general texts, which is the strongest feature with few labels. The limit is a quantile of the
validation rows' scores, exceeded by one in fifty similar texts (split conformal prediction, Vovk et
al. 2005, section 4.1).

Chosen by holding out labels (figures in docs/benchmarks), against the highest probability, energy,
Mahalanobis distances and nearest rows. Nearest rows do as well but would store training rows in the
model; a centroid averages at least three different rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from bertcnn.bundle import BACKGROUND, PARTS, DetectorInputs, OutOfScopeDetector, unit

_OUTSIDE, _DOUBTFUL = 0.02, 0.05  # share of texts like the validation rows
_STRICTEST, _LOOSEST = 0.01, 0.1  # the same, if out-of-scope rows determine the limits
FEWEST_ROWS = 24  # validation rows; with this number, the highest score is the limit
_CENTRES = 12  # most centroids of a label
_ROWS_A_CENTRE = 5
_FEWEST_ROWS = 3  # rows of a centroid; fewer would reveal a row
_KNOWN_OF_A_LABEL, _KNOWN = 80, 900
_NUMBERS = 1 << 23  # in all centroids: 32 MiB; half as many in the words
_LIKE_ALL = 5.0  # pseudo-count per label, distributed as in all texts
_ENOUGH_LABELS = 50  # labels that make words and logits as informative as the other parts
_DIRECTIONS, _WORDS = 0, 3  # indices of the parts
_MOST_BACKGROUND, _LABELS_PER_SHARE = 3.0, 10  # the background's weight, by the number of labels
_INVERSE_PENALTY = 10.0  # of the regression, on unit vectors
_LEARNED = 5000  # most training rows of the regression
_FEWEST_STRANGE = 5  # out-of-scope rows needed to choose the background's weight and the limit
_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # candidates besides the default


@dataclass(frozen=True, eq=False)
class OutsideTexts:
    """Texts that belong to no label, as a model reads them.

    Attributes:
        background: mean token embeddings of general texts, float32 [B, D].
        learned: mean token embeddings of the user's out-of-scope rows, float32 [K, D].
        valid: further such rows, to set the limit; by default none.
    """

    background: np.ndarray
    learned: np.ndarray
    valid: DetectorInputs | None = None

    @classmethod
    def none(cls, width: int) -> OutsideTexts:
        """No texts, for embeddings of this width."""
        return cls(np.empty((0, width), np.float32), np.empty((0, width), np.float32))


@dataclass(frozen=True, eq=False)
class FoldInputs:
    """A fold model's outputs for its training and held-out rows.

    Attributes:
        training: its training rows.
        labels: int [rows], of `training`.
        held_out: its held-out rows.
    """

    training: DetectorInputs
    labels: np.ndarray
    held_out: DetectorInputs


@dataclass(frozen=True, eq=False)
class DetectorFit:
    """Detectors with common limits and relative weights.

    Attributes:
        folds: of each fold's model, with its own centroids, words and direction, so that it can
            judge held-out rows that it did not learn from.
    """

    detector: OutOfScopeDetector
    folds: tuple[OutOfScopeDetector, ...] = ()


def rows_to_know(token_ids: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Distinct rows for `fit_detector`, int [rows], ascending.

    All rows, or about 5,000 evenly spaced, including those for centroids and words.
    """
    first = {
        (row.tobytes(), int(label)): index
        for index, (row, label) in reversed(list(enumerate(zip(token_ids, labels, strict=True))))
    }
    different = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    evenly = np.linspace(0, len(different) - 1, min(len(different), _LEARNED)).astype(int)
    return different[np.union1d(evenly, _of_each_label(labels[different]))]


def _of_each_label(labels: np.ndarray) -> np.ndarray:
    """Evenly chosen rows of each label for its centroids and words, int [chosen], ascending."""
    rows_of_label = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    most = max(_KNOWN_OF_A_LABEL, _KNOWN // max(1, len(rows_of_label)))
    chosen = [
        rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)]
        for rows in rows_of_label
    ]
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))


def fit_detector(
    texts: DetectorInputs,
    labels: np.ndarray,
    valid: DetectorInputs,
    outside: OutsideTexts | None = None,
    *,
    seed: int = 0,
    folds: Sequence[FoldInputs] = (),
) -> DetectorFit:
    """Fit the out-of-scope detector of a model and of its folds' models.

    The validation rows and all held-out rows of the folds determine weights and limits together.
    Each part is in standard deviations of its own model, because models of fewer rows have other
    distances. A model with fewer than 24 rows uses the overall standard deviation. Up to 80
    training rows per label, or 900 altogether, give centroids and words.

    `texts` are distinct training rows with `labels`, int [rows]; `valid` are rows not trained on.

    Returns:
        Detectors without centroids, which accept everything, if there are fewer than 24 held-out
        rows, too many labels for 32 MiB of centroids, or no label with 3 rows. A fold's detector
        also has none if its rows are too few for a centroid.
    """
    nothing = DetectorFit(OutOfScopeDetector(), (OutOfScopeDetector(),) * len(folds))
    if len(valid.logits) + sum(len(fold.held_out.logits) for fold in folds) < FEWEST_ROWS:
        return nothing
    outside = outside or OutsideTexts.none(texts.means.shape[1])
    parts = [FoldInputs(texts, labels, valid), *folds]
    scopes = [_unweighted(part, outside, seed) for part in parts]
    if not scopes[0]:
        return nothing
    features = [
        scope.features(part.held_out) if scope else np.empty((0, len(PARTS)), np.float32)
        for scope, part in zip(scopes, parts, strict=True)
    ]
    every = np.concatenate(features)
    scales = [_scale(rows if len(rows) >= FEWEST_ROWS else every) for rows in features]
    in_scope = np.concatenate(
        [(rows - usual) * scale for rows, (usual, scale) in zip(features, scales, strict=True)]
    )
    out_of_scope = None
    if outside.valid is not None:
        out_of_scope = (scopes[0].features(outside.valid) - scales[0][0]) * scales[0][1]
    weights = _best_weights(in_scope, out_of_scope, classes=texts.logits.shape[1])
    limit, auto_limit = _limits(
        (in_scope * weights).sum(axis=1),
        None if out_of_scope is None else (out_of_scope * weights).sum(axis=1),
    )
    detector, *fold_detectors = (
        replace(scope, weights=weights * scale, usual=usual, limit=limit, auto_limit=auto_limit)
        if scope
        else scope
        for scope, (usual, scale) in zip(scopes, scales, strict=True)
    )
    return DetectorFit(detector, tuple(fold_detectors))


def _scale(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and 1 / standard deviation of each part, float32 [5]; 0 for constant parts."""
    spread = features.std(axis=0)
    inverse = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0)
    mean = features.mean(axis=0, dtype=np.float64)
    return mean.astype(np.float32), inverse.astype(np.float32)


def _unweighted(part: FoldInputs, outside: OutsideTexts, seed: int) -> OutOfScopeDetector:
    """A detector with centroids, words and direction, if there are enough rows for a centroid."""
    scope = _around(OutOfScopeDetector(), part.training, part.labels, seed)
    if not len(scope.logit_centroids) or not len(scope.embedding_centroids):
        return OutOfScopeDetector()
    return replace(scope, background=_direction(part.training.means, outside))


def _best_weights(features: np.ndarray, unknown: np.ndarray | None, *, classes: int) -> np.ndarray:
    """The weight of each part, float32 [5].

    With at least 5 out-of-scope rows, the background's weight is the one with the best AUROC.
    `features` (held-out rows with a label) and `unknown` (out-of-scope rows) are float32 [rows, 5].
    """
    spread = features.std(axis=0)
    weights = np.where(spread > 0, 1 / np.where(spread > 0, spread, 1), 0).astype(np.float32)
    weights[[_DIRECTIONS, _WORDS]] *= min(
        1.0, math.log(classes) / math.log(_ENOUGH_LABELS)
    )  # the information in a label
    unit_weight = weights[BACKGROUND]
    weights[BACKGROUND] *= _background_weight(classes)
    if unknown is None or len(unknown) < _FEWEST_STRANGE:
        return weights
    tried = [weights] + [
        np.where(np.arange(len(weights)) == BACKGROUND, one * unit_weight, weights)
        for one in _WEIGHTS
    ]
    areas = [float(np.mean(np.sign((unknown @ one)[:, None] - features @ one))) for one in tried]
    return tried[int(np.argmax(areas))].astype(np.float32)


def _background_weight(labels: int) -> float:
    """3 for up to 3 labels, falling to 0 at 50 labels, where the background did not help."""
    share = _LABELS_PER_SHARE / labels - _LABELS_PER_SHARE / _ENOUGH_LABELS
    return min(_MOST_BACKGROUND, max(0.0, share))


def with_limits(
    scope: OutOfScopeDetector, valid: DetectorInputs, strange: DetectorInputs | None = None
) -> OutOfScopeDetector:
    """A detector with limits from these rows.

    2 % of texts like the validation rows are above `limit` and 5 % above `auto_limit`. With at
    least 5 out-of-scope rows, each limit maximises the difference between the shares of unknown and
    known rows above it (Youden 1950), with 1 to 5 % of the known rows above `limit` and 5 to 10 %
    above `auto_limit`. Held-out `valid` rows have a label, `strange` rows are out of scope.
    """
    limit, auto_limit = _limits(
        scope.outlier_score(valid), None if strange is None else scope.outlier_score(strange)
    )
    return replace(scope, limit=limit, auto_limit=auto_limit)


def _limits(in_scope: np.ndarray, strange: np.ndarray | None) -> tuple[float, float]:
    if strange is None or len(strange) < _FEWEST_STRANGE:
        return _above(in_scope, _OUTSIDE), _above(in_scope, _DOUBTFUL)
    return (
        _best_limit(in_scope, strange, _STRICTEST, _DOUBTFUL),
        _best_limit(in_scope, strange, _DOUBTFUL, _LOOSEST),
    )


def _best_limit(in_scope: np.ndarray, strange: np.ndarray, least: float, most: float) -> float:
    """The limit with the largest difference of shares, between two shares of known rows."""
    lowest, highest = _above(in_scope, most), _above(in_scope, least)
    tried = np.unique(np.clip(np.append(strange, in_scope), lowest, highest))[::-1]
    gain = [(strange > one).mean() - (in_scope > one).mean() for one in tried]
    return float(tried[int(np.argmax(gain))])


def _above(scores: np.ndarray, share: float) -> float:
    """The score that this share of further texts is expected to exceed."""
    return float(np.quantile(scores, 1 - share, method="weibull"))


def refit_detector(
    scope: OutOfScopeDetector,
    texts: DetectorInputs,
    labels: np.ndarray,
    outside: OutsideTexts | None = None,
    *,
    seed: int = 0,
) -> OutOfScopeDetector:
    """Refit the centroids for another model trained on the same rows; keeps the limits.

    `texts` and `outside` are the same texts, as the new model reads them; `labels` are int [rows].
    """
    if not scope:
        return scope
    outside = outside or OutsideTexts.none(texts.means.shape[1])
    direction = _direction(texts.means, outside)
    return _around(replace(scope, background=direction), texts, labels, seed)


def _direction(means: np.ndarray, outside: OutsideTexts) -> np.ndarray:
    """The direction from known texts to the background, float32 [D]; zeros without a background.

    The coefficients of a logistic regression on unit mean embeddings. It uses all known rows: with
    a few hundred, it assigns much of a trade to the background.
    """
    from sklearn.linear_model import LogisticRegression

    in_scope = unit(means)
    strange = unit(np.concatenate([outside.background, outside.learned]))
    if not len(strange) or not len(in_scope):
        return np.zeros(means.shape[1], np.float32)
    model = LogisticRegression(C=_INVERSE_PENALTY, class_weight="balanced", max_iter=500)
    model.fit(np.concatenate([strange, in_scope]), np.repeat([1, 0], [len(strange), len(in_scope)]))
    coefficients: np.ndarray = model.coef_[0]
    return coefficients.astype(np.float32)


def _around(
    scope: OutOfScopeDetector, texts: DetectorInputs, labels: np.ndarray, seed: int
) -> OutOfScopeDetector:
    """`scope` with centroids and words from up to 80 texts per label, or 900 altogether.

    Has no centroids if there are too many labels.
    """
    chosen = _of_each_label(labels)
    texts, labels = texts.of(chosen), labels[chosen]
    classes = texts.logits.shape[1]
    most = min(_CENTRES, _NUMBERS // (classes * (classes + texts.means.shape[1])))
    if not most:
        return OutOfScopeDetector()
    (directions, _), (centroids, owners) = (
        _centres(unit(vectors), labels, most, seed) for vectors in (texts.logits, texts.means)
    )
    words, log_odds = label_words(texts.words, labels, classes)
    return replace(
        scope,
        logit_centroids=directions,
        embedding_centroids=centroids,
        centroid_labels=owners,
        words=words,
        log_odds=log_odds,
    )


def label_words(
    pairs: np.ndarray, labels: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The words in at least 3 rows, so that none reveals a row, and their log odds per label.

    See `OutOfScopeDetector`.
    """
    words, inverse, rows_with = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
    often = np.sort(np.argsort(-rows_with, kind="stable")[: _NUMBERS // 2 // classes])
    often = often[rows_with[often] >= _FEWEST_ROWS]
    kept = np.full(len(words), -1)
    kept[often] = np.arange(len(often))
    row, word = pairs[kept[inverse] >= 0, 0], kept[inverse][kept[inverse] >= 0]
    counts = np.zeros((len(often), classes), np.float32)
    np.add.at(counts, (word, labels[row]), 1)
    share = (rows_with[often, None] + 0.5) / (len(labels) + 1)  # of all rows
    in_label = (counts + _LIKE_ALL * share) / (np.bincount(labels, minlength=classes) + _LIKE_ALL)
    return words[often].astype(np.int32), np.log(in_label / share).astype(np.float32)


def _centres(
    vectors: np.ndarray, labels: np.ndarray, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Unit centroids of each label's vectors, and their labels, int32 [centres].

    Centroids of fewer than 3 rows are left out.
    """
    from sklearn.cluster import KMeans  # not needed to load a model
    from sklearn.exceptions import ConvergenceWarning

    centres, owners = [np.empty((0, vectors.shape[1]), np.float32)], []
    for label in np.unique(labels):
        of_label = vectors[labels == label]
        if len(of_label) < _FEWEST_ROWS:
            continue
        count = min(most, max(1, len(of_label) // _ROWS_A_CENTRE))
        with warnings.catch_warnings():
            # fewer distinct vectors than centroids leave some empty
            warnings.simplefilter("ignore", ConvergenceWarning)
            groups = KMeans(count, n_init=1, random_state=seed).fit_predict(of_label)
        members = (of_label[groups == group] for group in range(count))
        kept = [rows.mean(axis=0) for rows in members if len(rows) >= _FEWEST_ROWS]
        centres.append(np.stack(kept or [of_label.mean(axis=0)]))
        owners += [label] * len(centres[-1])
    return unit(np.concatenate(centres)), np.array(owners, np.int32)


@cache
def background_texts() -> tuple[str, ...]:
    """All background texts, without blanks and duplicates; all written for this purpose.

    Messages to many trades, everyday talk, news, code, spam, scams, job applications, praise,
    misdirected mail, and other languages. A model stores only a direction computed from them.
    """
    lines = files("bertcnn.evaluation").joinpath("background.txt").read_text("utf-8").splitlines()
    return tuple(dict.fromkeys(line for line in lines if line.strip()))
