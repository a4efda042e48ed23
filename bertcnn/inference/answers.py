"""Answers to texts: `Prediction` for one text, `Answers` by column for large files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bertcnn.settings import PHRASES


@dataclass(frozen=True)
class Phrase:
    """A phrase of a text, on one line.

    Attributes:
        start: index of the first character.
        end: index after the last character.
    """

    start: int
    end: int
    words: str


@dataclass(frozen=True)
class Prediction:
    """The answer for one text.

    Attributes:
        label: the most probable label; a parent label if only that is certain enough; all labels in
            one string, possibly empty, if a text may have several; None for a blank text.
        confidence: calibrated probability that the label is right, or that the set of labels is
            exactly right, 0 to 1; None without a label.
        probabilities: of every label in the model's order, then of every parent label.
        because: at most three phrases that moved the answer most, the most important first.
        decision: "auto" if nobody needs to check the answer; otherwise "review:ambiguous",
            "review:out_of_scope" (unlike the training texts, or without a label where several are
            possible), "review:language" (not in a training language) or "review:empty".
        runner_up: the second most probable label; if a text may have several, the label nearest to
            its threshold; None without a label.
        labels: all labels of the text, the most probable first.
        reason: why the decision was made, as text.
    """

    label: str | None
    confidence: float | None
    probabilities: dict[str, float]
    because: tuple[Phrase, ...] = ()
    decision: str = "review:empty"
    runner_up: str | None = None
    labels: tuple[str, ...] = ()
    reason: str = ""

    def as_json(self, *, because: bool = True, probabilities: bool = False) -> dict[str, Any]:
        """The answer as a JSON object, optionally without phrases or with all probabilities.

        Example:
            >>> Prediction("billing", 0.75, {"billing": 0.75}, decision="auto").as_json()["label"]
            'billing'
        """
        answer: dict[str, Any] = {
            "label": self.label,
            "labels": self.labels,
            "confidence": self.confidence,
            "decision": self.decision,
            "runner_up": self.runner_up,
            "reason": self.reason,
        }
        if because:
            answer["because"] = [
                {"start": phrase.start, "end": phrase.end, "words": phrase.words}
                for phrase in self.because
            ]
        if probabilities:
            answer["probabilities"] = self.probabilities
        return answer


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers for many texts, by column; used from the model to the scored file.

    Attributes:
        labels: int32 [rows], indices into `Predictor.hierarchy.answers`; -1 for blank texts.
        confidence: float32 [rows], calibrated probability of that label, 0 to 1; 0 without a label.
        decisions: int32 [rows], indices into `bertcnn.settings.DECISIONS`.
        because: int32 [rows, 3, 2], first character and index after the last character of the
            phrases that moved the answer most; zeros where there are fewer.
        probabilities: float32 [rows, C + P], of every label, then of every parent; zeros without a
            label. [rows, 0] if probabilities are not kept.
        reasons: int32 [rows, 2], an index into `bertcnn.settings.REASONS`, and the label with the
            nearest training texts (-1 if unknown).
    """

    labels: np.ndarray
    confidence: np.ndarray
    decisions: np.ndarray
    because: np.ndarray
    probabilities: np.ndarray
    reasons: np.ndarray

    @classmethod
    def empty(cls, rows: int, names: int) -> Self:
        """Empty answers for `rows` texts, with room for the probabilities of `names` labels."""
        return cls(
            np.zeros(rows, np.int32),
            np.zeros(rows, np.float32),
            np.zeros(rows, np.int32),
            np.zeros((rows, PHRASES, 2), np.int32),
            np.zeros((rows, names), np.float32),
            no_reasons(rows),
        )

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Self:
        """Concatenate answers; needs at least one part."""
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """All columns, in the order of the scoring journal."""
        return (
            self.labels,
            self.confidence,
            self.decisions,
            self.because,
            self.probabilities,
            self.reasons,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, rows: np.ndarray) -> Self:
        """A copy of the answers at these rows."""
        return type(self)(*(column[rows] for column in self.columns))

    def put(self, rows: np.ndarray, answers: Answers) -> None:
        """Store answers at these rows; probabilities only if they are kept."""
        for column, values in zip(self.columns, answers.columns, strict=True):
            if column is not self.probabilities or column.shape[1]:
                column[rows] = values


def no_reasons(rows: int) -> np.ndarray:
    """A `reasons` column without reasons."""
    return np.tile(np.array([0, -1], np.int32), (rows, 1))
