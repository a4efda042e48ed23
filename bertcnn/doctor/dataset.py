"""The data doctor's input file: rows, texts and labels."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.data import LabelSet, join_labels, names_in
from bertcnn.doctor.report import Example, Finding, shortened
from bertcnn.errors import ColumnError, LabelColumnError, LabelError, one_line
from bertcnn.progress import Progress
from bertcnn.tables import (
    Chunk,
    ColumnChoice,
    Table,
    guess_columns,
    guess_text_columns,
    open_table,
    read_columns,
)
from bertcnn.wording import count, percent

_EXAMPLES = 4
# most rows examined; with an embedding of 384 numbers and its copy, a row takes about 4 kB
MOST_ROWS = 200_000


@dataclass(frozen=True)
class LabelledDataset:
    """A file in memory, or a sample of it if it has more than `MOST_ROWS` rows.

    Attributes:
        table: rows, columns and line numbers.
        choice: text and label columns; without a label if no column looks like one.
        texts: one per row, "" if blank.
        labels: one per row, "" if blank; None without a label column.
        facts: how the file was read, for the report.
        rejected: line, reason and start of the first unreadable rows.
        separator: between labels if rows may have several; otherwise None.
    """

    table: Table
    choice: ColumnChoice
    texts: list[str]
    labels: list[str] | None
    facts: dict[str, Any]
    rejected: list[tuple[str, str, str]]
    separator: str | None = None

    def names_in(self, cell: str) -> LabelSet:
        """The labels in a cell of the label column; empty for a blank cell."""
        return names_in(cell, self.separator)

    @property
    def lines(self) -> list[int]:
        """The line where each row starts."""
        return self.table.line_numbers

    @cached_property
    def first_rows(self) -> dict[str, int]:
        """The first row of each distinct text, without blank texts; ignores outer spaces."""
        first: dict[str, int] = {}
        for row, text in enumerate(self.texts):
            if text:
                first.setdefault(text.strip(), row)
        return first

    @cached_property
    def others(self) -> list[str]:
        """The columns other than text and label."""
        return [
            name
            for name in self.table.columns
            if name not in self.choice.text and name != self.choice.label
        ]


def read_dataset(
    path: Path,
    text: str | Sequence[str] | None,
    label: str | None,
    multi_label: str,
    rejects: Path | None,
    progress: Progress,
) -> LabelledDataset:
    """Read a file, or a sample of its rows if it has many.

    Args:
        path: the file.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default, and optional.
        multi_label: separator of several labels in a cell, "no", or "auto".
        rejects: file for unreadable rows; None keeps only a few examples.
        progress: progress callback.

    Raises:
        TableError: the file is unreadable or has no rows.
        ColumnError: a named column is missing, or none looks like text.
        LabelError: the label column has a single label, or none.
    """
    with tempfile.TemporaryDirectory(prefix="bertcnn-") as scratch:
        rejects_path = rejects or Path(scratch) / "rejects.csv"
        read = read_columns(
            path,
            lambda table: _choose(table, text, label),
            rejects=rejects_path,
            as_written=True,
            most=MOST_ROWS,
            reading=progress,
            progress=progress,
        )
        rejected = _first_rejected(rejects_path) if read.table.rejected else []
    labels, column = None, read.columns.label
    if column is not None:
        read = read.with_labels(multi_label, progress)
        labels = [join_labels(names, read.separator or "") if names else "" for names in read.sets]
        _check_labels(labels, column)
    dataset = LabelledDataset(
        read.table, read.columns, read.texts, labels, {}, rejected, read.separator
    )
    return replace(dataset, facts=_facts(dataset))


def _first_rejected(path: Path) -> list[tuple[str, str, str]]:
    with open_table(path, delimiter=",", encoding="utf-8", quote='"') as reader:
        return [(line, reason, start) for line, reason, start in reader.peek(_EXAMPLES).rows]


def _choose(table: Chunk, text: str | Sequence[str] | None, label: str | None) -> ColumnChoice:
    """The columns; without a label if none was named and no column looks like one."""
    try:
        return guess_columns(table, text=text, label=label)
    except ColumnError as error:
        if label is not None or isinstance(error, LabelColumnError):
            raise
    return guess_text_columns(table, text=text)


def _check_labels(labels: list[str], column: str) -> None:
    counts = Counter(name for name in labels if name)
    if len(counts) < 2:
        description = f"1 label ({one_line(next(iter(counts)))})" if counts else "no label"
        raise LabelError(
            f"{description} in column {column!r}",
            expected="at least 2 different labels",
            fix="add rows of another label, or name another column with --label",
        )


def _facts(dataset: LabelledDataset) -> dict[str, Any]:
    table, choice, labels = dataset.table, dataset.choice, dataset.labels
    counts = Counter(name for cell in labels or [] for name in dataset.names_in(cell))
    return {
        "format": table.format,
        "encoding": table.encoding,
        "delimiter": table.delimiter,
        "columns": list(table.columns),
        "text_columns": list(choice.text),
        "label_column": choice.label,
        "rows": len(table) + table.left_out,
        "examined": len(table),
        "rejected": table.rejected,
        "labels": None if labels is None else dict(counts.most_common()),
        "label_separator": dataset.separator,
    }


def check_rejected(dataset: LabelledDataset) -> list[Finding]:
    """Rows that could not be read."""
    if not dataset.rejected:
        return []
    rejected, rows = dataset.table.rejected, dataset.facts["rows"]
    return [
        Finding(
            "rejected_rows",
            "problem",
            f"{count(rejected, 'row')} of {rows + rejected:,}"
            f" ({percent(rejected / (rows + rejected))}) could not be read",
            "Correct these lines; training and scoring leave them out too.",
            examples=[
                Example(int(line), reason, shortened(start))
                for line, reason, start in dataset.rejected
            ],
            figures={"rejected": rejected},
        )
    ]


def check_short(dataset: LabelledDataset) -> list[Finding]:
    """Rows with missing cells at the end."""
    if not dataset.table.padded:
        return []
    return [
        Finding(
            "short_rows",
            "note",
            f"{count(dataset.table.padded, 'row')} with fewer cells than the header: the missing"
            " ones are blank",
            "Nothing, where the program that wrote the file leaves out blank cells at the end of a"
            " row.",
            figures={"short": dataset.table.padded},
        )
    ]


def check_columns(dataset: LabelledDataset) -> list[Finding]:
    """Columns that are empty or have a single value."""
    same = {}
    for index, name in enumerate(dataset.table.columns):
        values = {row[index].strip() for row in dataset.table.rows}
        if len(values) == 1 and len(dataset.table) > 1:
            same[name] = values.pop()
    if not same:
        return []
    return [
        Finding(
            "constant_columns",
            "note",
            f"{count(len(same), 'column')} with the same value in every row",
            "Nothing can be learned from such a column; it does no harm.",
            examples=[
                Example(None, f"column {name!r}: {'empty' if not value else shortened(value, 40)}")
                for name, value in list(same.items())[:_EXAMPLES]
            ],
            figures={"constant": list(same)},
        )
    ]


def judged_rows(dataset: LabelledDataset) -> np.ndarray:
    """The rows with a text and a label, int64, ascending."""
    labels = dataset.labels or []
    return np.array(
        [
            row
            for row, (text, name) in enumerate(zip(dataset.texts, labels, strict=False))
            if text and name
        ],
        np.int64,
    )
