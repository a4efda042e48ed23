"""Labels with levels, "A > B > C": a parent's probability is its children's sum. NumPy only."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from bertcnn.data.label_sets import AUTO, NO
from bertcnn.errors import SettingsError, one_line
from bertcnn.wording import count

LEVELS: Final = " > "
LONGEST_SEPARATOR: Final = 16
MOST_LEVELS: Final = 16  # deeper levels count as one name
_NAMED = 4
# The text after ">" in a comparison: an amount, perhaps with a currency or a unit. "5G", "2FA" and
# "1st line" are names.
_AMOUNT = re.compile(
    r"[<>=~≤≥]*\s*(?:[A-Z]{3}\s|[$€£¥₹]\s?)?[-+]?\d[\d.,:]*\s*"
    r"(?:[-–/]\s*\d.*|[%‰°€£$+].*|(?:[hHdsmkKMxw]|ms|min|hrs?|kg|km|[kKMGT]B|days?|weeks?|months?|years?|hours?|USD|EUR|GBP)\b.*|\s.*)?"
    r"|(?:one|two|three|four|five|six|seven|eight|nine|ten)\s.*",
    re.DOTALL,
)
_LAST = "\U0010ffff"  # sorts after every character that can follow
_OTHER_SIGN = re.compile(r"\s*(?:[<=≤≥]|>=)")


@dataclass(frozen=True)
class Hierarchy:
    """The parents of a model's labels.

    A parent is the part before a separator, such as " > ", in the names of at least two labels. A
    label that is also such a prefix counts as one of them, so "A" can be the prediction for "A or
    something below it".

    Attributes:
        labels: C, in the model's order.
        parents: P, the deepest first, then by name; a parent that is also a label has its name.
    """

    labels: tuple[str, ...]
    parents: tuple[str, ...]
    separator: str = LEVELS

    @classmethod
    def of(cls, labels: Sequence[str], levels: str = LEVELS) -> Hierarchy:
        """Derives the hierarchy from the labels' names; plain names have no parents.

        `levels` is the separator of levels or "no". "auto" means " > " if at least half of the
        labels have a parent, without comparisons such as "Delay > 30 days".

        Example:
            >>> names = ["net > wifi > slow", "net > wifi > dead", "net > cable", "billing"]
            >>> Hierarchy.of(names).parents
            ('net > wifi', 'net')
            >>> Hierarchy.of(["Delay > 30 days", "Delay > 60 days", "Damage"], "auto").parents
            ()
        """
        separator = LEVELS if levels == AUTO else levels
        below = _labels_below([] if levels == NO else labels, separator)
        distinct = set(labels)
        parents = {
            name for name, children in below.items() if name in distinct or len(children) > 1
        }
        if levels == AUTO:
            parents -= comparisons(labels)
            inside = distinct & parents | {label for name in parents for label in below[name]}
            parents = parents if 2 * len(inside) >= len(labels) else set()
        return cls(
            tuple(labels),
            tuple(sorted(parents, key=lambda name: (-len(ancestors(name, separator)), name))),
            separator,
        )

    @property
    def answers(self) -> tuple[str, ...]:
        """All possible predictions: the labels, then the parents."""
        return (*self.labels, *self.parents)

    @property
    def names(self) -> tuple[str, ...]:
        """Unique names of `answers`, for columns and keys.

        If A is also a label, "A > *" stands for A and everything below it.
        """
        labels = frozenset(self.labels)
        return (
            *self.labels,
            *(f"{name}{self.separator}*" if name in labels else name for name in self.parents),
        )

    @cached_property
    def levels(self) -> tuple[np.ndarray, ...]:
        """The indices in `answers` of each level's parents, int64, the deepest level first."""
        depths = np.array([len(ancestors(name, self.separator)) for name in self.parents], np.int64)
        return tuple(
            len(self.labels) + np.flatnonzero(depths == depth)
            for depth in sorted(set(depths.tolist()), reverse=True)
        )

    @cached_property
    def members(self) -> np.ndarray:
        """Whether each label equals or is below each parent, float32 [C, P], 1 and 0."""
        columns = {parent: column for column, parent in enumerate(self.parents)}
        matrix = np.zeros((len(self.labels), len(self.parents)), np.float32)
        for row, label in enumerate(self.labels):
            matrix[
                row,
                [
                    columns[name]
                    for name in (label, *ancestors(label, self.separator))
                    if name in columns
                ],
            ] = 1
        return matrix

    def with_parents(self, probabilities: np.ndarray) -> np.ndarray:
        """Adds the parents' sums to float32 probabilities, [rows, C] to [rows, C + P]."""
        return (
            np.concatenate(
                [probabilities, np.minimum(probabilities @ self.members, np.float32(1))], axis=1
            )
            if self.parents
            else probabilities
        )

    def best_parents(self, probabilities: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Each row's index into `answers`, int64, and probability for the best parent of a level.

        `probabilities` are float32 [rows, C + P], of `with_parents`.
        """
        indices = self.levels[level]
        best = indices[probabilities[:, indices].argmax(axis=1)]
        return best, probabilities[np.arange(len(probabilities)), best]

    def fall_back(
        self, probabilities: np.ndarray, unsure: np.ndarray, thresholds: Sequence[float | None]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The deepest parent above its threshold, for rows with no label above its own.

        Args:
            probabilities: float32 [rows, C + P], of `with_parents`.
            unsure: bool [rows], the rows with no label above its threshold.
            thresholds: one for each level, or fewer; None if no probability is enough.

        Returns:
            Indices into `answers`, int64 [rows], or -1, and the probabilities, float32 [rows].
        """
        indices, certain = np.full(len(probabilities), -1), np.zeros(len(probabilities), np.float32)
        for level, threshold in enumerate(thresholds):
            best, share = self.best_parents(probabilities, level)
            accepted = (
                unsure
                & (indices < 0)
                & (share >= np.float32(np.inf if threshold is None else threshold))
            )
            indices, certain = np.where(accepted, best, indices), np.where(accepted, share, certain)
        return indices, certain


def ancestors(label: str, separator: str = LEVELS) -> list[str]:
    """The names above a label, the highest first, ignoring white space around a separator.

    Example:
        >>> ancestors("a > b > c"), ancestors("a/b", "/")
        (['a', 'a > b'], ['a'])
    """
    names: list[str] = []
    start = label.find(separator)
    while start >= 0 and len(names) < MOST_LEVELS:
        name, rest = label[:start].rstrip(), label[start + len(separator) :].lstrip()
        if name and rest and name not in names[-1:]:
            names.append(name)
        start = label.find(separator, start + len(separator))
    return names


def check_levels(levels: object) -> None:
    """Raises SettingsError if a separator of levels is not a string, blank, or very long."""
    if not isinstance(levels, str) or not levels.strip() or len(levels) > LONGEST_SEPARATOR:
        raise SettingsError(
            f"levels {one_line(levels)}",
            expected=f"'auto', 'no', or a separator of 1 to {LONGEST_SEPARATOR} characters",
            fix="give for example ' > '",
        )


def describe_levels(labels: Sequence[str], levels: str) -> list[str]:
    """Sentences about the parents that labels have, or could have; see `Hierarchy.of`.

    Raises:
        SettingsError: no label contains the separator.

    Example:
        >>> describe_levels(["net > wifi", "net > cable", "billing"], "auto")[0].split(";")[0]
        "1 parent of labels with levels (' > '): 'net' of 2 labels"
    """
    if levels not in (AUTO, NO) and not any(levels in label for label in labels):
        raise SettingsError(
            f"levels {levels!r}",
            expected="a separator that stands in the labels",
            fix=f"correct it, or leave it out; a label is for example {one_line(labels[0], 60)}",
        )
    hierarchy = Hierarchy.of(labels, levels)
    if hierarchy.parents:
        sizes = zip(
            reversed(hierarchy.parents),
            hierarchy.members.sum(axis=0)[::-1].astype(int).tolist(),
            strict=True,
        )
        shown = [f"{one_line(name, 40)} of {count(size, 'label')}" for name, size in sizes]
        more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
        message = (
            f"{count(len(shown), 'parent')} of labels with levels ({hierarchy.separator!r}):"
            f" {', '.join(shown[:_NAMED])}{more}"
        )
        return [
            f"{message}; a text that no label is certain enough for may be answered with a parent;"
            " --levels no takes labels as they are"
        ]
    parents = Hierarchy.of(labels).parents if levels == AUTO else ()
    if not parents:
        return []
    message = (
        f"labels with {LEVELS!r} in them are taken as they are, without {one_line(parents[0], 40)}"
        " as a parent"
    )
    return [f"{message}; --levels {LEVELS!r} makes levels of them"]


def comparisons(labels: Sequence[str]) -> set[str]:
    """The left sides of comparisons, such as "Delay" in "Delay > 30 days".

    At least half of the labels below such a name have an amount after ">", or another label has
    another comparison sign after the name.

    Example:
        >>> names = ["Delay > 30 days", "Delay > 60 days", "net > 5G", "net > wifi"]
        >>> comparisons([*names, "load > limit", "load < limit"]) - {"Delay"}
        {'load'}
    """
    parents, ordered = set(), sorted(labels)
    for parent, below in _labels_below(labels, LEVELS).items():
        amounts = sum(
            _AMOUNT.fullmatch(label[len(parent) :].strip().removeprefix(">").strip()) is not None
            for label in below
        )
        beginning = ordered[bisect_left(ordered, parent) : bisect_left(ordered, parent + _LAST)]
        if 2 * amounts >= len(below) or any(
            _OTHER_SIGN.match(label, len(parent)) for label in beginning
        ):
            parents.add(parent)
    return parents


def _labels_below(labels: Sequence[str], separator: str) -> dict[str, list[str]]:
    below: dict[str, list[str]] = defaultdict(list)
    for label in labels:
        for parent in ancestors(label, separator):
            below[parent].append(label)
    return below
