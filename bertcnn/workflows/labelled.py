"""The rows of a labelled file that have a text and one label, for work that needs exactly one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertcnn.data.label_sets import AUTO
from bertcnn.errors import LabelError
from bertcnn.progress import Progress
from bertcnn.tables.labelled import read_labelled


def labelled_rows(
    data: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    multi_label: str = AUTO,
    progress: Progress | None = None,
) -> list[tuple[str, str]]:
    """The rows of a file that have a text and a label.

    Args:
        data: a labelled file, as for training.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        multi_label: "no" takes every cell for one label.
        progress: reports the columns chosen, and of rows that cannot be read.

    Raises:
        TableError: the file cannot be read, or has no such columns.
        LabelError: its rows have several labels.
    """
    read = read_labelled(data, text=text, label=label, multi_label=multi_label, progress=progress)
    if read.separator is not None:
        raise LabelError(
            f"rows with several labels in column {read.columns.label!r} of {str(data)!r}",
            expected="one label a row, which this command needs",
            fix=(
                "give a file with one label a row, or multi_label 'no' if a cell is one label;"
                " `bertcnn train` learns from several"
            ),
        )
    rows = zip(read.texts, read.sets, strict=True)
    return [(content, names[0]) for content, names in rows if content and names]
