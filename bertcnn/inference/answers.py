"""Answers to texts: one by one as people read them, and by column for large files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bertcnn.settings import PHRASES


@dataclass(frozen=True)
class Phrase:
    """A place in a text.

    Attributes:
        start: its first character.
        end: the one behind its last.
        words: what stands there, on one line.
    """

    start: int
    end: int
    words: str


@dataclass(frozen=True)
class Prediction:
    """The answer for one text.

    Attributes:
        label: the most probable label; where only a parent of labels is certain enough, that
            parent; where a text may have several, all of them in one string, which is empty if no
            label is probable enough; None for a text in which nothing can be seen.
        confidence: its calibrated probability, 0 to 1, or that all labels are right and none is
            missing; None without a label.
        probabilities: of every label, in the model's order, then of their parents, if they have
            any.
        because: the phrases that moved the answer most, at most three, the most important first.
        decision: "auto" if the answer may be acted on; else "review:ambiguous",
            "review:out_of_scope" (the text looks like none that the model was trained on, or gets
            no label where it may have several), "review:language" (it is in another language than
            they) or "review:empty", a matter for a person.
        runner_up: the second most probable label, or where there may be several, the one nearest to
            its threshold; None without a label.
        labels: all labels of a text that may have several, the most probable first; else the one in
            `label`.
        reason: why the decision is what it is, in words.
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
        """The answer as a JSON object, on request without its phrases or with all probabilities.

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
    """The answers for many texts, by column; the one type from the model to the scored file.

    Attributes:
        labels: int32 [rows], places in `Predictor.hierarchy.answers`: labels, then parents; -1 for
            a text in which nothing can be seen.
        confidence: float32 [rows], the calibrated probability of that label, 0 to 1; 0 without one.
        decisions: int32 [rows], places in `bertcnn.settings.DECISIONS`.
        because: int32 [rows, 3, 2], the phrases that moved the answer most, by their first
            character in the text and the one behind the last; zeros where there are fewer.
        probabilities: float32 [rows, C + P], of every label, then of every parent; zeros without a
            label. [rows, 0] where they are not kept.
        reasons: int32 [rows, 2], why the decision is what it is, a place in
            `bertcnn.settings.REASONS`, and the label whose known texts are nearest, -1 if not
            known.
    """

    labels: np.ndarray
    confidence: np.ndarray
    decisions: np.ndarray
    because: np.ndarray
    probabilities: np.ndarray
    reasons: np.ndarray

    @classmethod
    def empty(cls, rows: int, names: int) -> Self:
        """Room for so many answers, with the probabilities of so many names."""
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
        """The answers of at least one part after the other."""
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """All columns, in the order in which the journal of a scoring keeps them."""
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
        """Put answers at these rows; probabilities only where they are kept."""
        for own, given in zip(self.columns, answers.columns, strict=True):
            if own is not self.probabilities or own.shape[1]:
                own[rows] = given


def no_reasons(rows: int) -> np.ndarray:
    """The column `reasons` of answers without one."""
    return np.tile(np.array([0, -1], np.int32), (rows, 1))
