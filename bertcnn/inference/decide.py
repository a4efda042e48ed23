"""From probabilities to labels and decisions: which answers are automatic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from bertcnn.bundle import PARTS, DetectorInputs, OutOfScopeDetector, Strangeness
from bertcnn.data import Hierarchy
from bertcnn.evaluation import HeldBack, exact_match_probability
from bertcnn.settings import DECISIONS, REASONS
from bertcnn.text import is_foreign

_AUTO: Final = DECISIONS.index("auto")
_AMBIGUOUS: Final = DECISIONS.index("review:ambiguous")
_OUT_OF_SCOPE: Final = DECISIONS.index("review:out_of_scope")
_EMPTY: Final = DECISIONS.index("review:empty")
_HARDLY_KNOWN: Final = 0.2  # share of words, by tokens
_LANGUAGE: Final = DECISIONS.index("review:language")
_BLANK, _CERTAIN, _UNCERTAIN, _NO_LABEL, _FOREIGN = (
    REASONS.index(name) for name in ("empty", "certain", "uncertain", "no_label", "language")
)


@dataclass(frozen=True, eq=False)
class Decided:
    """Labels and decisions of many texts; the attributes are as in `Answers`."""

    labels: np.ndarray
    confidence: np.ndarray
    decisions: np.ndarray
    probabilities: np.ndarray
    reasons: np.ndarray


def most_probable(probabilities: np.ndarray, blank: np.ndarray) -> np.ndarray:
    """The index of each text's most probable label, int32 [rows]; -1 for blank texts."""
    return np.where(blank, -1, probabilities.argmax(axis=1)).astype(np.int32)


def foreign_texts(
    texts: Sequence[str], strangeness: Strangeness, languages: Sequence[str]
) -> np.ndarray:
    """Which texts are not in a training language, bool [rows].

    Checks only texts with hardly any known words, which are rare in the right language.
    `languages` of the training rows are empty if unknown.
    """
    foreign = np.zeros(len(texts), bool)
    if languages:
        for row in np.flatnonzero(strangeness.known_words < _HARDLY_KNOWN).tolist():
            foreign[row] = is_foreign(texts[row], languages)
    return foreign


def held_back(
    scope: OutOfScopeDetector,
    inputs: DetectorInputs,
    texts: Sequence[str],
    languages: Sequence[str],
) -> HeldBack:
    """Which texts with known labels are never answered automatically."""
    strangeness = scope.judge(inputs)
    foreign = foreign_texts(texts, strangeness, languages)
    return HeldBack(
        strangeness.outside | foreign, strangeness.doubtful & ~foreign, np.zeros(len(texts), bool)
    )


def decide(
    probabilities: np.ndarray,
    blank: np.ndarray,
    strangeness: Strangeness,
    foreign: np.ndarray,
    *,
    hierarchy: Hierarchy,
    limits: np.ndarray,
    parent_thresholds: Sequence[float | None] = (),
    predicted: np.ndarray | None = None,
) -> Decided:
    """The label of each text, and whether it is automatic.

    A label is automatic if its confidence reaches the label's limit. Otherwise the deepest parent
    label that is certain enough is automatic. All other texts go to a person, and so do texts that
    are blank, in another language, out of scope or nearly so, or without a label where several are
    allowed.

    Args:
        probabilities: float32 [rows, C], calibrated; zeros for blank texts.
        blank: bool [rows], blank texts.
        strangeness: which texts are out of scope, or nearly so.
        foreign: bool [rows], texts that are not in a training language.
        hierarchy: of the labels.
        limits: float32 [C], the lowest automatic confidence of each label.
        parent_thresholds: the same for each level of parents; None if never automatic.
        predicted: bool [rows, C], the assigned labels, if a text may have several.
    """
    labels, outside = most_probable(probabilities, blank), strangeness.outside
    if predicted is None:
        confidence = probabilities.max(axis=1, initial=0)
    else:
        confidence = np.where(
            blank, np.float32(0), exact_match_probability(probabilities, predicted)
        )
        outside = outside | ~predicted.any(axis=1)
    sure = (confidence >= limits[labels]) & ~strangeness.doubtful
    probabilities = hierarchy.with_parents(probabilities)
    parents, parent_confidence = hierarchy.fall_back(
        probabilities,
        ~(blank | foreign | outside | strangeness.doubtful | sure),
        parent_thresholds,
    )
    is_parent = parents >= 0
    decisions = np.select(
        [blank, foreign, outside, sure | is_parent],
        [_EMPTY, _LANGUAGE, _OUT_OF_SCOPE, _AUTO],
        _AMBIGUOUS,
    )
    return Decided(
        np.where(is_parent, parents, labels).astype(np.int32),
        np.where(is_parent, parent_confidence, confidence),
        decisions.astype(np.int32),
        probabilities,
        np.stack([_reasons(decisions, strangeness), strangeness.nearest], axis=1),
    )


def _reasons(decisions: np.ndarray, strangeness: Strangeness) -> np.ndarray:
    """The reason for each decision, indices into `REASONS`, int32 [rows]."""
    strangest = REASONS.index(PARTS[0]) + strangeness.parts.argmax(axis=1)
    return np.select(
        [
            decisions == _EMPTY,
            decisions == _LANGUAGE,
            strangeness.outside | strangeness.doubtful,
            decisions == _OUT_OF_SCOPE,
            decisions == _AUTO,
        ],
        [_BLANK, _FOREIGN, strangest, _NO_LABEL, _CERTAIN],
        _UNCERTAIN,
    ).astype(np.int32)
