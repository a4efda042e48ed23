"""The columns that scoring adds, and counts of their values."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bertcnn.data import join_labels
from bertcnn.inference import Answers, Predictor, because, describe_reason
from bertcnn.settings import DECISIONS, REASONS
from bertcnn.tables import free_names

_EMPTY = describe_reason(DECISIONS.index("review:empty"), (REASONS.index("empty"), -1), ())


class Named(Protocol):
    """An object with columns, such as an open table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Unique column names, for selection."""

    @property
    def header(self) -> tuple[str, ...]:
        """Column names as in the file."""


class OutputColumns:
    """The columns of the scored file: the input's, then ours under unused names.

    Attributes:
        ours: names of our columns.
        numbers: names of our numeric columns.
        renamed: our columns whose name was taken: standard name -> name written.
    """

    def __init__(
        self, source: Named, predictor: Predictor, *, probabilities: bool, reasons: bool
    ) -> None:
        self._predictor, self._probabilities, self._reasons = predictor, probabilities, reasons
        why = ["reason"] if reasons else []
        shares = [f"p_{label}" for label in predictor.hierarchy.names] if probabilities else []
        default_names = ("predicted_label", "confidence", "decision", "because", *why, *shares)
        names = free_names(default_names, (*source.columns, *source.header))
        self.renamed = {
            ours: name for ours, name in zip(default_names, names, strict=True) if ours != name
        }
        self.ours = names
        self.numbers = frozenset(
            written
            for name, written in zip(default_names, names, strict=True)
            if name in ("confidence", *shares)
        )
        self.all = (*source.header, *names)
        self._none = ("", "", "review:empty", "", *[_EMPTY for _ in why], *["" for _ in shares])

    def counts(self, answers: Answers, places: list[int]) -> np.ndarray:
        """Count rows without a text, then rows of each name, int64 [1 + names].

        `places` are the indices of the rows' texts in the answers.
        """
        names = len(self._predictor.hierarchy.names)
        if not self._predictor.multi_label:
            return np.bincount(answers.labels[places] + 1, minlength=names + 1)
        predicted = self._predictor.multi_hot(answers.probabilities)[places]
        blank = answers.labels[places] < 0
        return np.concatenate([[blank.sum()], predicted[~blank].sum(axis=0)])

    def cells(self, texts: list[str], answers: Answers) -> list[tuple[str, ...]]:
        """Our cells for each text."""
        columns = (answers.labels, answers.confidence, answers.decisions, answers.because)
        cells = [
            (
                (name, f"{sure:.6f}", DECISIONS[decision], because(text, spans))
                if label >= 0
                else self._none
            )
            for name, text, label, sure, decision, spans in zip(
                self._names(answers), texts, *(column.tolist() for column in columns), strict=True
            )
        ]
        if self._reasons:
            words = map(self._reason, answers.decisions.tolist(), answers.reasons.tolist())
            cells = [
                (*row, why) if row is not self._none else row
                for row, why in zip(cells, words, strict=True)
            ]
        if not self._probabilities:
            return cells
        return [
            (*row, *[f"{share:.6f}" for share in shares]) if row is not self._none else row
            for row, shares in zip(cells, answers.probabilities.tolist(), strict=True)
        ]

    def _reason(self, decision: int, reasons: list[int]) -> str:
        return describe_reason(decision, reasons, self._predictor.labels)

    def _names(self, answers: Answers) -> list[str]:
        """The label of each text; undefined for texts without one."""
        if self._predictor.multi_label:
            separator = str(self._predictor.bundle.config.label_separator)
            return [
                join_labels(names, separator)
                for names in self._predictor.label_sets(answers.probabilities)
            ]
        names = self._predictor.hierarchy.answers
        return [names[label] for label in answers.labels.tolist()]
