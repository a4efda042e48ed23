"""A model's scope: where known texts lie, and above which outlier score one is outside.

NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bertcnn.storage.manifest import refuse

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
_LATER = ("centroid_labels", "background", "usual", "auto_limit")  # which models saved before lack
_PRODUCTS = 1 << 22  # computed at a time
_LARGEST = 1e9  # number, far above any that is measured; sums of their products are finite
_MOST_IDS = 1 << 24  # up to which float32 holds every whole number


def _nothing(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@dataclass(frozen=True, eq=False)
class DetectorInputs:
    """What a model makes of texts, and the words in them.

    Attributes:
        logits: float32 [rows, C].
        means: of the token embeddings, float32 [rows, D].
        words: int64 [N, 2], rows and the words that stand in them, as
            `WordPieceTokenizer.whole_words` gives them.
        lengths: int [rows], tokens of each.
    """

    logits: np.ndarray
    means: np.ndarray
    words: np.ndarray
    lengths: np.ndarray

    def of(self, rows: np.ndarray) -> DetectorInputs:
        """Some of the rows, int [chosen], ascending."""
        place = np.full(len(self.logits), -1)
        place[rows] = np.arange(len(rows))
        words = self.words[place[self.words[:, 0]] >= 0]
        words = np.stack([place[words[:, 0]], words[:, 1]], axis=1)
        return DetectorInputs(self.logits[rows], self.means[rows], words, self.lengths[rows])


@dataclass(frozen=True, eq=False)
class Strangeness:
    """How unlike known texts some texts are.

    Attributes:
        parts: float32 [rows, 5], what each part adds to the outlier score, in the order of `PARTS`.
        outside: bool [rows], which texts are out of scope.
        doubtful: bool [rows], which others are too near the limit to be answered automatically.
        nearest: int32 [rows], the label whose known texts are nearest by their mean token
            embedding; -1 where that is not known.
        known_words: float32 [rows], how many known words each text has, by its tokens.
    """

    parts: np.ndarray
    outside: np.ndarray
    doubtful: np.ndarray
    nearest: np.ndarray
    known_words: np.ndarray


@dataclass(frozen=True, eq=False)
class OutOfScopeDetector:
    """Where the texts lie that a model was trained on; without centres, no text is out of scope.

    A text is strange if its logits point where those of no label do, if its token embeddings' mean
    lies far from those of known texts, if no label is probable, if its words are not those of the
    label it gets, or if its mean lies on the side of a background of texts about anything. The five
    are added up, each in units of its standard deviation on the validation rows; the first and the
    fourth less where labels are few, which then point anywhere, and the last more.

    Attributes:
        logit_centroids: float32 [P, C], centres of the logits of known texts, of length 1.
        embedding_centroids: float32 [Q, D], centres of their means, of length 1.
        weights: float32 [5], of the distances to these two, of the doubt about the label, of the
            words, and of the background.
        limit: outlier score above which a text is out of scope.
        words: int32 [W], the ids of known words, ascending.
        log_odds: float32 [W, C], log of how many times more often a word is in a label's texts than
            in all.
        background: float32 [D], the direction from known texts to the background.
        auto_limit: outlier score above which no text is answered automatically; at most `limit`.
        centroid_labels: int32 [Q], whose the centres of the means are; -1 if not known.
        usual: float32 [5], what the features of known texts are on average; the outlier score
            counts what exceeds it.
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
        """How strange each text is, and what follows from it."""
        rows, known = len(texts.logits), self._known_words(texts)
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
            known,
        )

    def outside(self, texts: DetectorInputs) -> np.ndarray:
        """Which texts are out of scope, bool [rows]."""
        return self.judge(texts).outside

    def outlier_score(self, texts: DetectorInputs) -> np.ndarray:
        """How unlike known texts each text is, float32 [rows]; only comparable within a model."""
        return ((self.features(texts) - self.usual) * self.weights).sum(axis=1)

    def features(self, texts: DetectorInputs) -> np.ndarray:
        """What the outlier score is made of, float32 [rows, 5].

        The distances to logit_centroids and embedding_centroids, -log of the highest probability,
        minus how much the words speak for that label: the sum of their logarithms, as in naive
        Bayes, without words that are not known (Manning et al. 2008, section 13.2), and how far the
        mean lies in the direction of the background.
        """
        return self._measure(texts)[0]

    def _measure(self, texts: DetectorInputs) -> tuple[np.ndarray, np.ndarray]:
        """`features`, and the nearest centre of the means, int [rows]."""
        logits = texts.logits
        doubt = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
        away, _ = _nearest(logits, self.logit_centroids)
        far, nearest = _nearest(texts.means, self.embedding_centroids)
        foreign = unit(texts.means) @ self.background
        return np.stack([away, far, doubt, -self.words_for(texts), foreign], axis=1), nearest

    def _known_words(self, texts: DetectorInputs) -> np.ndarray:
        """How many known words each text has, by its tokens, float32 [rows]."""
        rows, words = texts.words.T
        known = rows[np.append(self.words, -1)[np.searchsorted(self.words, words)] == words]
        found = np.bincount(known, minlength=len(texts.logits)).astype(np.float32)
        return found / np.maximum(texts.lengths, 1).astype(np.float32)

    def words_for(self, texts: DetectorInputs) -> np.ndarray:
        """How much each text's words speak for its most probable label, float32 [rows]."""
        rows, words = texts.words.T
        place = np.searchsorted(self.words, words)
        known = np.flatnonzero(np.append(self.words, -1)[place] == words)
        log_odds = (
            self.log_odds[place[known], texts.logits.argmax(axis=1)[rows[known]]]
            if len(known)
            else None
        )
        return np.bincount(rows[known], weights=log_odds, minlength=len(texts.logits)).astype(
            np.float32
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """The parts by name, as they are saved.

        All float32, which holds the ids of 16 million pieces exactly.
        """
        return {
            name: np.atleast_1d(np.asarray(getattr(self, name), np.float32)) for name in _TENSORS
        }

    @classmethod
    def of_tensors(
        cls, tensors: Mapping[str, np.ndarray], labels: int, width: int
    ) -> OutOfScopeDetector:
        """The scope of a model with so many labels and embeddings of this width.

        Args:
            tensors: as `tensors` gave them, finite.
            labels: C.
            width: D.

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
            refuse(f"{FILE} holds words that are not in order", "ascending ids")
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
    """Refuse centres of the wrong width or length."""
    for name, columns in (("logit_centroids", labels), ("embedding_centroids", width)):
        centres = tensors[name]
        if not len(centres) or centres.shape[1] != columns:
            refuse(f"{FILE} holds {name} of shape {centres.shape}", f"rows of {columns:,} numbers")
        if np.abs(np.linalg.norm(centres, axis=1) - 1).max() > 1e-3:
            refuse(f"{FILE} holds {name} that are not of length 1", "centres as they were saved")


def _check_sizes(tensors: Mapping[str, np.ndarray], labels: int, width: int) -> None:
    """Refuse parts that do not fit each other or the model, and weights below 0."""
    wanted = {
        "weights": (len(PARTS),),
        "usual": (len(PARTS),),
        "limit": (1,),
        "auto_limit": (1,),
        "background": (width,),
        "centroid_labels": (len(tensors["embedding_centroids"]),),
        "log_odds": (len(tensors["words"]), labels),
    }
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            refuse(f"{FILE} holds {name} of shape {tensors[name].shape}", str(shape))
    if tensors["weights"].min() < 0:
        refuse(f"{FILE} holds weights below 0", "none negative")


def _whole(numbers: np.ndarray, name: str, lowest: int, highest: int) -> np.ndarray:
    """These numbers as int32, if they are whole and in range."""
    whole = np.clip(numbers, lowest, highest).astype(np.int32)
    if (whole != numbers).any():
        refuse(f"{FILE} holds {name} that are none", f"whole numbers from {lowest} to {highest:,}")
    return whole


def _of_this_version(tensors: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """The tensors of a model that was saved without a background, with one that counts nothing."""
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
    """Refuse missing or unknown parts, and parts of the wrong size.

    Numbers that overflow when they are multiplied are refused too.
    """
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
    """Vectors [rows, N] of length 1, float32."""
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(
        np.float32
    )


def _nearest(vectors: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 - the largest cosine with a centre, float32 [rows], and which centre, int [rows]."""
    vectors, rows = unit(vectors), max(1, _PRODUCTS // len(centres))
    far, places = [np.empty(0, np.float32)], [np.empty(0, np.int64)]
    for first in range(0, len(vectors), rows):
        cosines = vectors[first : first + rows] @ centres.T
        places.append(cosines.argmax(axis=1))
        far.append(np.float32(1) - np.take_along_axis(cosines, places[-1][:, None], 1)[:, 0])
    return np.concatenate(far), np.concatenate(places)
