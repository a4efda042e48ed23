"""The out-of-scope detector: scores how unlike the training texts a text is. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bertcnn.storage import refuse

FILE: Final = "out_of_scope.safetensors"
PARTS: Final = ("directions", "places", "probability", "words", "background")  # of the score
BACKGROUND: Final = PARTS.index("background")
_TENSORS = {  # name -> number of dimensions
    "logit_centroids": 2,
    "embedding_centroids": 2,
    "centroid_labels": 1,
    "background": 1,
    "weights": 1,
    "usual": 1,
    "limit": 1,
    "auto_limit": 1,
    "words": 1,
    "log_odds": 2,
}
_LATER = ("centroid_labels", "background", "usual", "auto_limit")  # missing in older models
_PRODUCTS = 1 << 22  # most products per step
_LARGEST = 1e9  # far above any measured value; sums of products stay finite
_MOST_IDS = 1 << 24  # float32 holds all integers up to here


def _nothing(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@dataclass(frozen=True, eq=False)
class DetectorInputs:
    """The detector's inputs for texts.

    Attributes:
        logits: float32 [rows, C].
        means: mean token embeddings, float32 [rows, D].
        words: int64 [N, 2], pairs of row and word, from `WordPieceTokenizer.whole_words`.
        lengths: int [rows], number of tokens.
    """

    logits: np.ndarray
    means: np.ndarray
    words: np.ndarray
    lengths: np.ndarray

    def of(self, rows: np.ndarray) -> DetectorInputs:
        """The inputs of some rows, int [chosen], ascending."""
        row_of = np.full(len(self.logits), -1)
        row_of[rows] = np.arange(len(rows))
        words = self.words[row_of[self.words[:, 0]] >= 0]
        words = np.stack([row_of[words[:, 0]], words[:, 1]], axis=1)
        return DetectorInputs(self.logits[rows], self.means[rows], words, self.lengths[rows])


@dataclass(frozen=True, eq=False)
class Strangeness:
    """How unlike the training texts some texts are.

    Attributes:
        parts: float32 [rows, 5], terms of the outlier score, in the order of `PARTS`.
        outside: bool [rows], texts that are out of scope.
        doubtful: bool [rows], other texts too near the limit for automatic answers.
        nearest: int32 [rows], label with the nearest embedding centroid; -1 if unknown.
        known_words: float32 [rows], number of known words per token.
    """

    parts: np.ndarray
    outside: np.ndarray
    doubtful: np.ndarray
    nearest: np.ndarray
    known_words: np.ndarray


@dataclass(frozen=True, eq=False)
class OutOfScopeDetector:
    """Scores texts by their distance from the training texts.

    A text scores high if its logits or its mean token embedding are far from all centroids, if no
    label is probable, if its words are unusual for its label, or if its mean embedding points
    towards a background of general texts. The score is the sum of these five parts, each in
    standard deviations on the validation rows. With few labels, logits and words count less,
    because they carry little information, and the background counts more. Without centroids, no
    text is out of scope.

    Attributes:
        logit_centroids: float32 [P, C], unit centroids of the training texts' logits.
        embedding_centroids: float32 [Q, D], unit centroids of their mean embeddings.
        weights: float32 [5], of the parts, in the order of `PARTS`.
        limit: outlier score above which a text is out of scope.
        words: int32 [W], ids of known words, ascending.
        log_odds: float32 [W, C], log of a word's frequency in a label's texts relative to all.
        background: float32 [D], direction from the training texts to the background.
        auto_limit: outlier score above which no answer is automatic; at most `limit`.
        centroid_labels: int32 [Q], labels of the embedding centroids; -1 if unknown.
        usual: float32 [5], mean features of known texts, which the score subtracts.
    """

    logit_centroids: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    embedding_centroids: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    weights: np.ndarray = field(default_factory=lambda: _nothing(len(PARTS)))
    limit: float = 0.0
    words: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    log_odds: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    background: np.ndarray = field(default_factory=lambda: _nothing(0))
    auto_limit: float = 0.0
    centroid_labels: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    usual: np.ndarray = field(default_factory=lambda: _nothing(len(PARTS)))

    def __bool__(self) -> bool:
        return len(self.logit_centroids) > 0

    def judge(self, texts: DetectorInputs) -> Strangeness:
        """Score texts and compare the scores with the limits."""
        rows, known_words = len(texts.logits), self._known_words(texts)
        if not self:
            nothing, nowhere = np.zeros(rows, bool), np.full(rows, -1, np.int32)
            parts = _nothing(rows, len(PARTS))
            return Strangeness(parts, nothing, nothing, nowhere, np.ones(rows, np.float32))
        features, nearest = self._measure(texts)
        parts = (features - self.usual) * self.weights
        scores = parts.sum(axis=1)
        outside = scores > self.limit
        return Strangeness(
            parts,
            outside,
            (scores > self.auto_limit) & ~outside,
            self.centroid_labels[nearest].astype(np.int32),
            known_words,
        )

    def outside(self, texts: DetectorInputs) -> np.ndarray:
        """Which texts are out of scope, bool [rows]."""
        return self.judge(texts).outside

    def outlier_score(self, texts: DetectorInputs) -> np.ndarray:
        """The outlier score of each text, float32 [rows]; comparable only within a model."""
        return ((self.features(texts) - self.usual) * self.weights).sum(axis=1)

    def features(self, texts: DetectorInputs) -> np.ndarray:
        """The unweighted parts of the outlier score, float32 [rows, 5].

        1 and 2: distances to the nearest logit and embedding centroids. 3: -log of the highest
        probability. 4: minus the summed log odds of the known words for that label, as in naive
        Bayes (Manning et al. 2008, section 13.2). 5: the projection of the mean embedding on the
        background direction.
        """
        return self._measure(texts)[0]

    def _measure(self, texts: DetectorInputs) -> tuple[np.ndarray, np.ndarray]:
        """`features`, and the index of the nearest embedding centroid, int [rows]."""
        logits = texts.logits
        doubt = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
        away, _ = _nearest(logits, self.logit_centroids)
        far, nearest = _nearest(texts.means, self.embedding_centroids)
        foreign = unit(texts.means) @ self.background
        return np.stack([away, far, doubt, -self.words_for(texts), foreign], axis=1), nearest

    def _known_words(self, texts: DetectorInputs) -> np.ndarray:
        """The number of known words per token, float32 [rows]."""
        rows, words = texts.words.T
        matched = rows[np.append(self.words, -1)[np.searchsorted(self.words, words)] == words]
        counts = np.bincount(matched, minlength=len(texts.logits)).astype(np.float32)
        return counts / np.maximum(texts.lengths, 1).astype(np.float32)

    def words_for(self, texts: DetectorInputs) -> np.ndarray:
        """Summed log odds of each text's words for its most probable label, float32 [rows]."""
        rows, words = texts.words.T
        indices = np.searchsorted(self.words, words)
        matches = np.flatnonzero(np.append(self.words, -1)[indices] == words)
        log_odds = (
            self.log_odds[indices[matches], texts.logits.argmax(axis=1)[rows[matches]]]
            if len(matches)
            else None
        )
        return np.bincount(rows[matches], weights=log_odds, minlength=len(texts.logits)).astype(
            np.float32
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """The parts by name, to be saved; float32, which holds ids up to 16 million exactly."""
        return {
            name: np.atleast_1d(np.asarray(getattr(self, name), np.float32)) for name in _TENSORS
        }

    @classmethod
    def of_tensors(
        cls, tensors: Mapping[str, np.ndarray], labels: int, width: int
    ) -> OutOfScopeDetector:
        """Rebuild a detector from finite `tensors`, for C `labels` and embeddings of `width` D.

        Raises:
            BundleError: a part is missing or unknown, or does not fit the model.
        """
        tensors = _of_this_version(tensors)
        _check_parts(tensors)
        if not len(tensors["logit_centroids"]) and not len(tensors["embedding_centroids"]):
            return cls()
        _check_centres(tensors, labels, width)
        _check_sizes(tensors, labels, width)
        ids = _whole(tensors["words"], "words", 0, _MOST_IDS)
        if (np.diff(ids) <= 0).any():
            refuse(f"{FILE} holds words out of order", "ascending ids")
        return cls(
            tensors["logit_centroids"],
            tensors["embedding_centroids"],
            tensors["weights"],
            float(tensors["limit"][0]),
            ids,
            tensors["log_odds"],
            tensors["background"],
            float(tensors["auto_limit"][0]),
            _whole(tensors["centroid_labels"], "centroid_labels", -1, labels - 1),
            tensors["usual"],
        )


def _check_centres(tensors: Mapping[str, np.ndarray], labels: int, width: int) -> None:
    for name, columns in (("logit_centroids", labels), ("embedding_centroids", width)):
        centres = tensors[name]
        if not len(centres) or centres.shape[1] != columns:
            refuse(f"{FILE} holds {name} of shape {centres.shape}", f"rows of {columns:,} numbers")
        if np.abs(np.linalg.norm(centres, axis=1) - 1).max() > 1e-3:
            refuse(f"{FILE} holds {name} that are not of length 1", "centres as they were saved")


def _check_sizes(tensors: Mapping[str, np.ndarray], labels: int, width: int) -> None:
    """Refuse parts that do not fit each other or the model, and negative weights."""
    expected = {
        "weights": (len(PARTS),),
        "usual": (len(PARTS),),
        "limit": (1,),
        "auto_limit": (1,),
        "background": (width,),
        "centroid_labels": (len(tensors["embedding_centroids"]),),
        "log_odds": (len(tensors["words"]), labels),
    }
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            refuse(f"{FILE} holds {name} of shape {tensors[name].shape}", str(shape))
    if tensors["weights"].min() < 0:
        refuse(f"{FILE} holds weights below 0", "none negative")


def _whole(numbers: np.ndarray, name: str, lowest: int, highest: int) -> np.ndarray:
    """Convert to int32; refuses fractions and values out of range."""
    whole = np.clip(numbers, lowest, highest).astype(np.int32)
    if (whole != numbers).any():
        refuse(f"{FILE} holds wrong {name}", f"whole numbers from {lowest} to {highest:,}")
    return whole


def _of_this_version(tensors: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Add a background without effect to the tensors of an older model."""
    if any(name in tensors for name in _LATER) or not all(
        name in tensors for name in _TENSORS if name not in _LATER
    ):
        return tensors
    centres = tensors["embedding_centroids"]
    return {
        **tensors,
        "weights": np.append(tensors["weights"], np.float32(0)),
        "usual": _nothing(len(PARTS)),
        "auto_limit": tensors["limit"],
        "background": _nothing(centres.shape[-1]),
        "centroid_labels": np.full(len(centres), -1, np.float32),
    }


def _check_parts(tensors: Mapping[str, np.ndarray]) -> None:
    """Refuse missing or unknown parts, wrong shapes, and values whose products overflow."""
    odd = sorted(set(tensors) ^ set(_TENSORS))
    if odd:
        refuse(f"{FILE} lacks {odd[0]!r} or should not have it", ", ".join(_TENSORS))
    for name, dimensions in _TENSORS.items():
        if tensors[name].ndim != dimensions:
            refuse(
                f"{FILE} holds {name} of shape {tensors[name].shape}", f"{dimensions} dimensions"
            )
        if np.abs(tensors[name]).max(initial=0) > _LARGEST:
            refuse(
                f"{FILE} holds {name} of up to {np.abs(tensors[name]).max():g}",
                f"at most {_LARGEST:g}",
            )


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors [rows, N] to length 1, float32."""
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(
        np.float32
    )


def _nearest(vectors: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 - the largest cosine with a centroid, float32 [rows], and its index, int [rows]."""
    vectors, rows = unit(vectors), max(1, _PRODUCTS // len(centres))
    far, indices = [np.empty(0, np.float32)], [np.empty(0, np.int64)]
    for first in range(0, len(vectors), rows):
        cosines = vectors[first : first + rows] @ centres.T
        indices.append(cosines.argmax(axis=1))
        far.append(np.float32(1) - np.take_along_axis(cosines, indices[-1][:, None], 1)[:, 0])
    return np.concatenate(far), np.concatenate(indices)
