"""Rows divided for choosing among settings, with enough validation rows for a choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertcnn.data.label_sets import numbered
from bertcnn.data.labels import check_labels
from bertcnn.data.same_labels import KnownLabels
from bertcnn.data.splits import assign_folds, duplicate_key, split_validation
from bertcnn.errors import LabelError, one_line
from bertcnn.progress import Progress
from bertcnn.wording import count
from bertcnn.workflows.labelled import labelled_rows

# validation rows: the standard error of their accuracy is at most 1.6 points, 0.9 where it is 90%
_ENOUGH = 1000
_FOLDS = 5
# of the rows, validated where they are many; what training without a search holds out
_SMALLEST_PART = 0.1


@dataclass(frozen=True)
class DividedRows:
    """The labelled rows, and their folds as row numbers, since a row is in several folds.

    Attributes:
        texts: of all rows.
        labels: names.
        parts: rows to learn from and rows to validate, int64 each, of every fold.
    """

    texts: list[str]
    labels: list[str]
    parts: list[tuple[np.ndarray, np.ndarray]]

    @property
    def validated(self) -> np.ndarray:
        """The rows validated, fold after fold."""
        return np.concatenate([valid for _, valid in self.parts])

    def groups(self) -> np.ndarray:
        """For each validated row a number, the same for duplicates."""
        return numbered([duplicate_key(self.texts[row]) for row in self.validated])[1]


def divided_rows(
    data: str | Path,
    valid: str | Path | None,
    text: str | Sequence[str] | None,
    label: str | None,
    multi_label: str,
    progress: Progress,
) -> DividedRows:
    """The labelled rows, divided."""
    learned = labelled_rows(
        data, text=text, label=label, multi_label=multi_label, progress=progress
    )
    names = [name for _, name in learned]
    check_labels(names)
    if valid is None:
        texts = [content for content, _ in learned]
        parts = divide(texts, names)
        often = "once" if len(parts) == 1 else f"in {len(parts)} of {_FOLDS} folds"
        progress.note(
            f"each trial is validated {often}, on"
            f" {sum(len(held_out) for _, held_out in parts):,} of {len(texts):,} rows"
        )
        return DividedRows(texts, names, parts)
    others = labelled_rows(
        valid, text=text, label=label, multi_label=multi_label, progress=progress
    )
    known = KnownLabels(names)
    found = [(content, own) for content, name in others if (own := known.find(name)) is not None]
    if not found:
        raise LabelError(
            (
                f"validation rows with the label {one_line(others[0][1])}"
                if others
                else "0 validation rows"
            ),
            expected="rows with labels that the training rows have",
            fix="correct the validation rows, or leave them out so that rows are held out",
        )
    if len(found) < len(others):
        message = (
            f"{len(others) - len(found):,} of {count(len(others), 'validation row')} have a label"
            " that no training row has"
        )
        progress.note(f"{message}: no setting can be right there, so they are left out")
    every = [*learned, *found]
    part = np.arange(len(learned)), np.arange(len(learned), len(every))
    return DividedRows([content for content, _ in every], [name for _, name in every], [part])


def divide(texts: Sequence[str], labels: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to learn from and rows to validate, int64 each, once or of several folds.

    As many as choosing among settings needs. Duplicates stay together and every label is learned in
    each fold; the division depends on texts and labels only.

    Raises:
        LabelError: no row can be validated.

    Example:
        >>> ages = ("old", "new", "lost", "red", "late")
        >>> words = [f"{a} {b}" for a in ("router", "invoice") for b in ages]
        >>> [len(valid) for _, valid in divide(words, ["hardware"] * 5 + ["billing"] * 5)]
        [2, 2, 2, 2, 2]
    """
    share = max(_SMALLEST_PART, _ENOUGH / len(texts))
    parts = (
        [split_validation(texts, labels, share)] if share <= 1 / _FOLDS else _folds(texts, labels)
    )
    parts = [(learned, validated) for learned, validated in parts if len(validated)]
    if not parts:
        raise LabelError(
            f"{len(texts)} rows of which none can be held out, since a label's texts differ in"
            " case, digits or punctuation only",
            expected="at least one label with 2 different texts",
            fix="add rows with other texts, or give validation rows of their own",
        )
    return parts


def _folds(texts: Sequence[str], labels: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """As many of the folds as make enough validation rows, or all.

    Of a label in one fold only nothing is held out.
    """
    codes = numbered(labels)[1]
    fold_of = assign_folds([duplicate_key(text) for text in texts], labels, texts, _FOLDS)
    wanted = range(min(_FOLDS, math.ceil(_ENOUGH * _FOLDS / len(texts))))
    held_out = [(fold_of == fold) & np.isin(codes, codes[fold_of != fold]) for fold in wanted]
    return [(np.flatnonzero(~rows), np.flatnonzero(rows)) for rows in held_out]
