"""The rows that all competitors score: a labelled file, repeated to any number of rows."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measuring import LABEL, PREDICTED, TEXT
from bertcnn.bundle import BundleConfig
from bertcnn.errors import ColumnError
from bertcnn.tables import (
    Chunk,
    column_position,
    guess_columns,
    guess_text_columns,
    join_texts,
    read_table,
)


@dataclass(frozen=True)
class Rows:
    """The rows that are scored.

    Attributes:
        texts: of each row.
        labels: of each row; None if the file has none.
        columns: which columns the texts came from, for messages.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...] | None
    columns: str

    def repeated(self, rows: int) -> Rows:
        """The given number of rows.

        A smaller number is spread evenly over these rows, since they may be sorted by label. A
        larger number repeats them from the first. Each repeated text ends with the number of its
        repetition, so that no cached answer can be used. The additional word sometimes changes an
        answer, so compare accuracies for the same number of rows only.
        """
        own = len(self.texts)
        if rows <= own:
            places = np.linspace(0, own - 1, rows).astype(int).tolist()
            texts = tuple(self.texts[place] for place in places)
        else:
            places = [row % own for row in range(rows)]
            texts = tuple(
                f"{self.texts[place]} {row // own + 1}" if row >= own else self.texts[place]
                for row, place in enumerate(places)
            )
        return Rows(
            texts, self.labels and tuple(self.labels[place] for place in places), self.columns
        )


def read_input(
    path: str | Path, config: BundleConfig, text: str | None = None, label: str | None = None
) -> Rows:
    """The texts and labels of a file.

    The text columns are those named, else the model's training columns, else guessed.
    """
    table = read_table(path)
    if text is None and config.text_columns and set(config.text_columns) <= set(table.columns):
        text = ",".join(config.text_columns)
    if label is None and config.label_column in table.columns:
        label = config.label_column
    try:
        choice = guess_columns(table, text=text, label=label)
    except ColumnError:
        if label is not None:
            raise
        choice = guess_text_columns(table, text=text)
    columns = f"text {', '.join(choice.text)}; label {choice.label or 'none'}"
    return Rows(
        _texts(table, choice.text),
        tuple(table.column(choice.label)) if choice.label else None,
        columns,
    )


def _texts(table: Chunk, columns: Sequence[str]) -> tuple[str, ...]:
    places = [column_position(name, table.columns) for name in columns]
    return tuple(join_texts(row[place] for place in places) for row in table.rows)


def write_rows(path: Path, rows: Rows) -> Path:
    """Write the input file of every competitor.

    It has a column `text` and, if there are labels, `label`.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if rows.labels is None:
            writer.writerows([[TEXT], *([text] for text in rows.texts)])
        else:
            writer.writerows([[TEXT, LABEL], *zip(rows.texts, rows.labels, strict=True)])
    return path


def check_complete(target: Path, rows: Rows) -> list[str]:
    """The labels in a scored file.

    Raises:
        ValueError: it does not have the same rows as the input, in the same order.
    """
    with target.open(newline="", encoding="utf-8") as file:
        scored = [(row[TEXT], row[PREDICTED]) for row in csv.DictReader(file)]
    if len(scored) != len(rows.texts):
        raise ValueError(f"wrote {len(scored):,} of {len(rows.texts):,} rows")
    for number, ((written, _), text) in enumerate(zip(scored, rows.texts, strict=True), 1):
        # our output escapes text that a spreadsheet would run as a formula
        if written.removeprefix("'") != text.removeprefix("'"):
            raise ValueError(f"wrote another text in row {number:,}")
    return [predicted for _, predicted in scored]


def accuracy(rows: Rows, predicted: Sequence[str]) -> float:
    """Share of the labelled rows whose prediction is correct."""
    pairs = [
        (actual, answer)
        for actual, answer in zip(rows.labels or (), predicted, strict=True)
        if actual.strip()
    ]
    return sum(actual == answer for actual, answer in pairs) / len(pairs)
