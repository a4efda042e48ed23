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
_PARTS = ("logit_centroids", "embedding_centroids", "weights", "limit", "words", "log_odds")
_DIMENSIONS = (2, 2, 1, 1, 1, 2)
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
    """

    logits: np.ndarray
    means: np.ndarray
    words: np.ndarray


@dataclass(frozen=True, eq=False)
class OutOfScopeDetector:
    """Where the texts lie that a model was trained on; without centres, no text is out of scope.

    A text is strange if its logits point where those of no label do, if its token embeddings' mean
    lies far from those of known texts, if no label is probable, or if its words are not those of
    the label it gets. The four are added up, each in units of its standard deviation on the
    validation rows; the first and the last less where labels are few, which then point anywhere.

    Attributes:
        logit_centroids: float32 [P, C], centres of the logits of known texts, of length 1.
        embedding_centroids: float32 [Q, D], centres of their means, of length 1.
        weights: float32 [4], of the distances to these two, of the doubt about the label, and of
            the words.
        limit: outlier score above which a text is out of scope.
        words: int32 [W], the ids of known words, ascending.
        log_odds: float32 [W, C], log of how many times more often a word is in a label's texts than
            in all.
    """

    logit_centroids: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    embedding_centroids: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    weights: np.ndarray = field(default_factory=lambda: _nothing(4))
    limit: float = 0.0
    words: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    log_odds: np.ndarray = field(default_factory=lambda: _nothing(0, 0))

    def __bool__(self) -> bool:
        return len(self.logit_centroids) > 0

    def outside(self, texts: DetectorInputs) -> np.ndarray:
        """Which texts are out of scope, bool [rows]."""
        if not self:
            return np.zeros(len(texts.logits), bool)
        return self.outlier_score(texts) > self.limit

    def outlier_score(self, texts: DetectorInputs) -> np.ndarray:
        """How unlike known texts each text is, float32 [rows]; only comparable within a model."""
        return self.features(texts) @ self.weights

    def features(self, texts: DetectorInputs) -> np.ndarray:
        """What the outlier score is made of, float32 [rows, 4].

        The distances to logit_centroids and embedding_centroids, -log of the highest probability,
        and minus how much the words speak for that label: the sum of their logarithms, as in naive
        Bayes, without words that are not known (Manning et al. 2008, section 13.2).
        """
        logits = texts.logits
        doubt = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
        distances = (
            _distance(logits, self.logit_centroids),
            _distance(texts.means, self.embedding_centroids),
        )
        return np.stack([*distances, doubt, -self.words_for(texts)], axis=1)

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
        limit, words = np.array([self.limit], np.float32), self.words.astype(np.float32)
        return dict(
            zip(
                _PARTS,
                (
                    self.logit_centroids,
                    self.embedding_centroids,
                    self.weights,
                    limit,
                    words,
                    self.log_odds,
                ),
                strict=True,
            )
        )

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
        _check_parts(tensors)
        logit_centroids, embedding_centroids, weights, limit, words, log_odds = (
            tensors[name] for name in _PARTS
        )
        if not len(logit_centroids) and not len(embedding_centroids):
            return cls()
        for name, centres, columns in (
            ("logit_centroids", logit_centroids, labels),
            ("embedding_centroids", embedding_centroids, width),
        ):
            if not len(centres) or centres.shape[1] != columns:
                refuse(
                    f"{FILE} holds {name} of shape {centres.shape}", f"rows of {columns:,} numbers"
                )
            if np.abs(np.linalg.norm(centres, axis=1) - 1).max() > 1e-3:
                refuse(
                    f"{FILE} holds {name} that are not of length 1", "centres as they were saved"
                )
        if weights.shape != (4,) or limit.shape != (1,) or weights.min() < 0:
            refuse(
                f"{FILE} holds weights of shape {weights.shape}, a limit of shape {limit.shape}",
                "(4,), none negative, and (1,)",
            )
        if log_odds.shape != (len(words), labels):
            refuse(
                f"{FILE} holds words of shape {words.shape}, log_odds of shape {log_odds.shape}",
                f"(words,) and (words, {labels:,})",
            )
        ids = np.clip(words, 0, _MOST_IDS).astype(np.int32)
        if (ids != words).any() or (np.diff(ids) <= 0).any():
            refuse(
                f"{FILE} holds words that are no ids, or not in order", "whole numbers, ascending"
            )
        return cls(logit_centroids, embedding_centroids, weights, float(limit[0]), ids, log_odds)


def _check_parts(tensors: Mapping[str, np.ndarray]) -> None:
    """Refuse missing or unknown parts, and parts of the wrong size.

    Numbers that overflow when they are multiplied are refused too.
    """
    odd = sorted(set(tensors) ^ set(_PARTS))
    if odd:
        refuse(f"{FILE} lacks {odd[0]!r} or should not have it", ", ".join(_PARTS))
    for name, dimensions in zip(_PARTS, _DIMENSIONS, strict=True):
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


def _distance(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """1 - the largest cosine with a centre, float32 [rows]."""
    vectors, rows = unit(vectors), max(1, _PRODUCTS // len(centres))
    parts = [
        (vectors[first : first + rows] @ centres.T).max(axis=1)
        for first in range(0, len(vectors), rows)
    ]
    return np.float32(1) - np.concatenate([np.empty(0, np.float32), *parts])
