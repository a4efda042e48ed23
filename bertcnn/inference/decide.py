"""What is answered, and who may act on it: from probabilities to labels and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bertcnn.data.hierarchy import Hierarchy
from bertcnn.evaluation.probabilities import exact_match_probability
from bertcnn.settings import DECISIONS

_AUTO: Final = DECISIONS.index("auto")
_AMBIGUOUS: Final = DECISIONS.index("review:ambiguous")
_OUT_OF_SCOPE: Final = DECISIONS.index("review:out_of_scope")
_EMPTY: Final = DECISIONS.index("review:empty")


@dataclass(frozen=True, eq=False)
class Decided:
    """Labels and decisions of many texts; the attributes are as in `Answers`."""

    labels: np.ndarray
    confidence: np.ndarray
    decisions: np.ndarray
    probabilities: np.ndarray


def most_probable(probabilities: np.ndarray, blank: np.ndarray) -> np.ndarray:
    """The place of each text's most probable label, int32 [rows]; -1 for blank texts."""
    return np.where(blank, -1, probabilities.argmax(axis=1)).astype(np.int32)


def decide(
    probabilities: np.ndarray,
    blank: np.ndarray,
    outside: np.ndarray,
    *,
    hierarchy: Hierarchy,
    limits: np.ndarray,
    parent_thresholds: Sequence[float | None] = (),
    given: np.ndarray | None = None,
) -> Decided:
    """The label of each text, and whether it is automatic.

    A label is automatic from its limit on; else the deepest parent that is certain enough is
    answered. What is blank, out of scope, or without a label where there may be several, goes to a
    person, and so does what is left.

    Args:
        probabilities: float32 [rows, C], calibrated; zeros for blank texts.
        blank: bool [rows], in which texts nothing can be seen.
        outside: bool [rows], which texts are out of scope.
        hierarchy: of the labels.
        limits: float32 [C], the confidence from which on each label is automatic.
        parent_thresholds: the same of each level of parents; None where no confidence is enough.
        given: bool [rows, C], which labels are given, where a text may have several.
    """
    labels = most_probable(probabilities, blank)
    if given is None:
        confidence = probabilities.max(axis=1, initial=0)
    else:
        confidence = np.where(blank, np.float32(0), exact_match_probability(probabilities, given))
        outside = outside | ~given.any(axis=1)
    sure = confidence >= limits[labels]
    probabilities = hierarchy.with_parents(probabilities)
    parents, parent_confidence = hierarchy.fall_back(
        probabilities, ~(blank | outside | sure), parent_thresholds
    )
    is_parent = parents >= 0
    decisions = np.select(
        [blank, outside, sure | is_parent], [_EMPTY, _OUT_OF_SCOPE, _AUTO], _AMBIGUOUS
    )
    return Decided(
        np.where(is_parent, parents, labels).astype(np.int32),
        np.where(is_parent, parent_confidence, confidence),
        decisions.astype(np.int32),
        probabilities,
    )
