"""Reads labelled files for other workflows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bertcnn.bundle import BundleConfig
from bertcnn.data import AUTO, NO, KnownLabels, LabelSet, find_labels, known_sets
from bertcnn.errors import LabelError
from bertcnn.inference import Predictor
from bertcnn.progress import Progress
from bertcnn.tables import (
    ColumnChoice,
    LabelledTable,
    Table,
    as_in_training,
    guess_columns,
    note_left_out,
    read_columns,
    read_labelled,
)
from bertcnn.text import is_blank


def labelled_rows(
    data: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    multi_label: str = AUTO,
    progress: Progress | None = None,
) -> list[tuple[str, str]]:
    """The rows of a single-label file that have a text and a label.

    Columns are guessed by default, and reported. `multi_label` "no" takes every cell as one label.

    Raises:
        TableError: the file cannot be read, or lacks the columns.
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


def read_as_in_training(
    data: str | Path,
    config: BundleConfig,
    text: str | Sequence[str] | None,
    label: str | None,
    progress: Progress,
) -> LabelledTable:
    """Read a labelled file with the model's training columns, unless others are named."""

    def choose(table: Table) -> ColumnChoice:
        names, tag, remembered = text, label, {}
        if text is None and config.text_columns:
            names, remembered["text"] = as_in_training(config.text_columns, table.columns, "--text")
        if label is None and config.label_column is not None:
            (tag,), remembered["label"] = as_in_training(
                (config.label_column,), table.columns, "--label"
            )
        choice = guess_columns(table, text=names, label=tag)
        return replace(choice, reasons=choice.reasons | remembered)

    known_columns = [*config.text_columns, *filter(None, [config.label_column])]
    known_columns = known_columns if text is label is None else []
    read = read_columns(data, choose, expected_columns=known_columns, progress=progress)
    note_left_out(read.table, None, progress)
    return read


def rows_in_scope(
    read: LabelledTable, predictor: Predictor, progress: Progress, outside: str | None = None
) -> tuple[list[int], list[LabelSet], list[int]]:
    """The rows with text and label, their labels, and the rows labelled out of scope.

    Labels have the model's spelling, with rare ones merged as in training; some may be unknown.
    `outside` is the out-of-scope label, or "no"; by default it is found as in training and by name.
    """
    config, texts = predictor.bundle.config, read.texts
    known_labels = KnownLabels([*predictor.labels, *config.merged_labels])
    sets = known_sets(read.cells, config.label_separator, known_labels)
    labelled = [row for row, names in enumerate(sets) if names]
    usable = [row for row in labelled if not is_blank(texts[row])]
    for lost, lack in ((len(sets) - len(labelled), "label"), (len(labelled) - len(usable), "text")):
        if lost:
            progress.note(f"{lost} of {len(sets)} rows have no {lack} and are left out")
    if outside is not None and outside not in (AUTO, NO):
        strange = {outside}
    else:
        row_labels = {name for row in usable for name in sets[row]}
        outside_labels = () if outside == NO else find_labels([*row_labels, *predictor.labels])
        strange = {*outside_labels, *config.out_of_scope_labels} - {*predictor.labels}
    in_scope = [row for row in usable if strange.isdisjoint(sets[row])]
    merged = config.merged_labels
    learned = [tuple(sorted({merged.get(name, name) for name in sets[row]})) for row in in_scope]
    changed = sum(
        names != tuple(sorted(sets[row])) for names, row in zip(learned, in_scope, strict=True)
    )
    if changed:
        progress.note(
            f"{changed} of {len(in_scope)} rows have a label that was merged into another for"
            " training, and count as that"
        )
    return in_scope, learned, [row for row in usable if not strange.isdisjoint(sets[row])]
