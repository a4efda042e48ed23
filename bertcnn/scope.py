"""What a model was made for: where known texts lie, and from which strangeness on a text is out of scope. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bertcnn.sealed import refuse

FILE: Final = "out_of_scope.safetensors"
_PARTS = ("directions", "places", "weights", "limit")
_PRODUCTS = 1 << 22  # computed at a time


def _nothing(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@dataclass(frozen=True, eq=False)
class Scope:
    """Where the texts lie that a model has learned from; without centres, no text is out of scope.

    A text is strange if its logits point where those of no label do, if its token embeddings' mean lies far from those of known texts,
    or if no label is probable. The three are added up, each in units of its standard deviation on the validation rows.

    Attributes:
        directions: float32 [P, C], centres of the logits of known texts, of length 1.
        places: float32 [Q, D], centres of their means, of length 1.
        weights: float32 [3], of the distances to these two, and of the doubt about the label.
        limit: strangeness above which a text is out of scope.
    """

    directions: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    places: np.ndarray = field(default_factory=lambda: _nothing(0, 0))
    weights: np.ndarray = field(default_factory=lambda: _nothing(3))
    limit: float = 0.0

    def __bool__(self) -> bool:
        return len(self.directions) > 0

    def outside(self, logits: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Which texts are out of scope, bool [rows]; logits float32 [rows, C], means of the token embeddings float32 [rows, D]."""
        if not self:
            return np.zeros(len(logits), bool)
        return self.strangeness(logits, means) > self.limit

    def strangeness(self, logits: np.ndarray, means: np.ndarray) -> np.ndarray:
        """How unlike known texts each text is, float32 [rows]; only comparable within a model."""
        return features(logits, means, self.directions, self.places) @ self.weights

    def tensors(self) -> dict[str, np.ndarray]:
        """The parts by name, as they are saved."""
        return dict(zip(_PARTS, (self.directions, self.places, self.weights, np.array([self.limit], np.float32)), strict=True))

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, np.ndarray], labels: int, width: int) -> Scope:
        """The scope of a model with so many labels and embeddings of this width.

        Args:
            tensors: as `tensors` gave them, finite.
            labels: C.
            width: D.

        Raises:
            BundleError: a part is missing or unknown, or does not fit the model.
        """
        odd = sorted(set(tensors) ^ set(_PARTS))
        if odd:
            refuse(f"{FILE} lacks {odd[0]!r} or should not have it", ", ".join(_PARTS))
        directions, places, weights, limit = (tensors[name] for name in _PARTS)
        if not len(directions) and not len(places):
            return cls()
        for name, centres, columns in (("directions", directions, labels), ("places", places, width)):
            if centres.ndim != 2 or not len(centres) or centres.shape[1] != columns:
                refuse(f"{FILE} holds {name} of shape {centres.shape}", f"rows of {columns:,} numbers")
            if np.abs(np.linalg.norm(centres, axis=1) - 1).max() > 1e-3:
                refuse(f"{FILE} holds {name} that are not of length 1", "centres as they were saved")
        if weights.shape != (3,) or limit.shape != (1,) or weights.min() < 0:
            refuse(f"{FILE} holds weights of shape {weights.shape}, a limit of shape {limit.shape}", "(3,), none negative, and (1,)")
        return cls(directions, places, weights, float(limit[0]))


def features(logits: np.ndarray, means: np.ndarray, directions: np.ndarray, places: np.ndarray) -> np.ndarray:
    """What strangeness is made of, float32 [rows, 3]: the distances to directions and places, and -log of the highest probability."""
    doubt = np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
    return np.stack([_distance(logits, directions), _distance(means, places), doubt], axis=1)


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [rows, N] of length 1, float32."""
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def _distance(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """1 - the largest cosine with a centre, float32 [rows]."""
    vectors, rows = unit(vectors), max(1, _PRODUCTS // len(centres))
    parts = [(vectors[first : first + rows] @ centres.T).max(axis=1) for first in range(0, len(vectors), rows)]
    return np.float32(1) - np.concatenate([np.empty(0, np.float32), *parts])
