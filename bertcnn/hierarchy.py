"""Labels with levels, "A > B > C": a parent's probability is its children's sum.

NumPy only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

LEVELS: Final = " > "  # between the levels of a label's name
MOST_LEVELS: Final = 16  # what stands behind so many of them is one name
_ALL_BELOW: Final = f"{LEVELS}*"


@dataclass(frozen=True)
class Hierarchy:
    """The parents of a model's labels.

    A parent is what stands before a " > " in the names of two labels or more; a label that stands there too counts as one of them, so
    that what is certain to be "A" or something below it can be answered with "A".

    Attributes:
        labels: C, in the model's order.
        parents: P, the deepest first, then by name; one that is a label as well has the same name.
    """

    labels: tuple[str, ...]
    parents: tuple[str, ...]

    @classmethod
    def of(cls, labels: Sequence[str], *, labels_may_be_parents: bool = True) -> Hierarchy:
        """The hierarchy that the labels' names tell; of plain names, one without parents.

        Args:
            labels: the model's.
            labels_may_be_parents: not so in models saved before that was known.

        Example:
            >>> Hierarchy.of(["net > wifi > slow", "net > wifi > dead", "net > cable", "billing"]).parents
            ('net > wifi', 'net')
        """
        below: dict[str, int] = defaultdict(int)
        known = frozenset(labels)
        for label in labels:
            for parent in _ancestors(label):
                below[parent] += 1
        parents = [name for name, count in below.items() if (labels_may_be_parents if name in known else count > 1)]
        return cls(tuple(labels), tuple(sorted(parents, key=lambda name: (-name.count(LEVELS), name))))

    @property
    def answers(self) -> tuple[str, ...]:
        """What an answer says: the labels, then the parents."""
        return (*self.labels, *self.parents)

    @property
    def names(self) -> tuple[str, ...]:
        """The same, each only once, as columns and keys need it: "A > *" is A with all that is below it, where A is a label as well."""
        labels = frozenset(self.labels)
        return (*self.labels, *(f"{name}{_ALL_BELOW}" if name in labels else name for name in self.parents))

    @cached_property
    def levels(self) -> tuple[np.ndarray, ...]:
        """The places of each level's parents in `answers`, int64, the deepest level first."""
        depths = np.array([name.count(LEVELS) for name in self.parents], np.int64)
        return tuple(len(self.labels) + np.flatnonzero(depths == depth) for depth in sorted(set(depths.tolist()), reverse=True))

    @cached_property
    def members(self) -> np.ndarray:
        """Which labels are below each parent or are it, float32 [C, P], 1 and 0."""
        place = {parent: column for column, parent in enumerate(self.parents)}
        found = np.zeros((len(self.labels), len(self.parents)), np.float32)
        for row, label in enumerate(self.labels):
            found[row, [place[name] for name in (label, *_ancestors(label)) if name in place]] = 1
        return found

    def with_parents(self, probabilities: np.ndarray) -> np.ndarray:
        """Probabilities of all names, float32 [rows, C + P], from the labels' [rows, C]: a parent's is the sum of its children's."""
        return (
            np.concatenate([probabilities, np.minimum(probabilities @ self.members, np.float32(1))], axis=1)
            if self.parents
            else probabilities
        )

    def best_parents(self, probabilities: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """The most probable parent of one level, for each row.

        Args:
            probabilities: float32 [rows, C + P], of `with_parents`.
            level: place in `levels`.

        Returns:
            Places in `answers`, int64 [rows], and their probabilities [rows].
        """
        places = self.levels[level]
        best = places[probabilities[:, places].argmax(axis=1)]
        return best, probabilities[np.arange(len(probabilities)), best]

    def fall_back(self, probabilities: np.ndarray, unsure: np.ndarray, thresholds: Sequence[float | None]) -> tuple[np.ndarray, np.ndarray]:
        """The deepest parent that is certain enough, for rows that no label is certain enough for.

        Args:
            probabilities: float32 [rows, C + P], of `with_parents`.
            unsure: bool [rows], which rows these are.
            thresholds: of each level, or fewer; None where no probability is enough.

        Returns:
            Places in `answers`, int64 [rows], -1 where there is no such parent, and the parents' probabilities, float32 [rows].
        """
        places, certain = np.full(len(probabilities), -1), np.zeros(len(probabilities), np.float32)
        for level, threshold in enumerate(thresholds):
            best, share = self.best_parents(probabilities, level)
            found = unsure & (places < 0) & (share >= np.float32(np.inf if threshold is None else threshold))
            places, certain = np.where(found, best, places), np.where(found, share, certain)
        return places, certain


def _ancestors(label: str) -> list[str]:
    """The names above a label.

    Example:
        >>> _ancestors("a > b > c")
        ['a', 'a > b']
    """
    parts = label.split(LEVELS, MOST_LEVELS)
    return [LEVELS.join(parts[:count]) for count in range(1, len(parts))]
