"""Trains a model on a labelled file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from bertcnn.bundle import check_bundle_target
from bertcnn.data import (
    AUTO,
    NO,
    KnownLabels,
    LabelSet,
    MergedLabels,
    check_levels,
    find_labels,
    known_sets,
    labels_of_sets,
    look_alikes,
    merge_rare,
)
from bertcnn.errors import ColumnError, LabelError, one_line
from bertcnn.progress import Progress, Silent
from bertcnn.storage import held_folder, real_folder
from bertcnn.tables import (
    ColumnChoice,
    Columns,
    LabelledTable,
    Table,
    find_name,
    guess_text_columns,
    list_columns,
    note_left_out,
    read_columns,
    read_labelled,
    rejects_of,
    slice_columns,
)
from bertcnn.wording import count
from bertcnn.workflows.options import TrainingKeywords, TrainingOptions

if TYPE_CHECKING:
    from bertcnn.classifier import BertCNNClassifier


@dataclass(frozen=True)
class TrainingReport:
    """The result of `train_csv`.

    Attributes:
        metrics: figures on the validation rows, a JSON object.
    """

    bundle_id: str
    rows: int
    columns: ColumnChoice
    metrics: dict[str, object]
    recipe: str
    seconds: float


def train_csv(
    data: str | Path | LabelledTable,
    out: str | Path,
    classifier: BertCNNClassifier | None = None,
    options: TrainingOptions | None = None,
    **changes: Unpack[TrainingKeywords],
) -> TrainingReport:
    """Train a classifier on a labelled file and save it.

    The training is saved every minute in a hidden folder next to `out`; an interrupted training
    resumes when it is run again.

    Args:
        data: .csv, .tsv, .jsonl (each also .gz), .parquet or .xlsx, with a text and a label in each
            row; or rows from `read_labelled`, for which `text`, `label` and `multi_label` have no
            effect.
        out: the folder to save the model in.
        classifier: how to train; by default `BertCNNClassifier()`.
        options: all options; by default `TrainingOptions()`.
        changes: single options by name, such as `label="team"`: see `TrainingOptions`.

    Raises:
        TableError: a file cannot be read, or lacks columns or labels.
        OutputError: `out` exists or cannot be written, or another run trains a model for it.
        EncoderError: the encoder cannot be loaded.

    Example:
        train_csv("tickets.csv", "models/triage", BertCNNClassifier(recipe="frozen"), label="team")
    """
    from bertcnn.classifier import BertCNNClassifier  # imports Keras, which takes seconds
    from bertcnn.reports import Provenance
    from bertcnn.storage import sha256_of
    from bertcnn.training import savepoint_folder

    started = time.perf_counter()
    options, classifier = (
        replace(options or TrainingOptions(), **changes),
        classifier or BertCNNClassifier(),
    )
    check_levels(levels := options.levels or classifier.levels)
    progress = classifier.progress or Silent()
    check_bundle_target(out := Path(out), options.overwrite)
    data = _read(data, options, rejects_of(out), progress)
    _note_contradictions(data, progress)
    strange, outside = _out_of_scope(
        options.out_of_scope, classifier.out_of_scope, data, out, progress
    )
    merged = _merge(data, options.min_rows, levels, strange, progress)
    path, choice = data.table.path, data.columns
    held_out, slices, more = None, data.slices, list[str]()
    if options.valid is not None:
        rejects = rejects_of(Path(f"{out}.valid"))
        held_out, slices = _read_validation(options.valid, data, merged, rejects, progress)
    if options.unlabelled is not None:
        rejects = rejects_of(Path(f"{out}.unlabelled"))
        more = _read_like(replace(choice, label=None), options.unlabelled, rejects, progress).texts
    columns = Columns(choice.text, choice.label, data.separator, merged.merged, levels, strange)
    folder = savepoint_folder(real_folder(out))
    with held_folder(folder, does="keeps its training in") as savepoints:
        classifier.fit(
            data.texts,
            labels_of_sets([merged.of(own) for own in data.sets], data.separator),
            valid=held_out,
            unlabelled=more,
            outside=outside,
            columns=columns,
            origin=Provenance(options.command, path.name, sha256_of(path), slices),
            savepoints=savepoints,
        )
        bundle_id = classifier.save(out, overwrite=options.overwrite)
        shutil.rmtree(savepoints, ignore_errors=True)
    recipe, seconds = classifier.recipe_[0], time.perf_counter() - started
    return TrainingReport(bundle_id, len(data), choice, dict(classifier.metrics_), recipe, seconds)


def _read(
    data: str | Path | LabelledTable, options: TrainingOptions, rejects: Path, progress: Progress
) -> LabelledTable:
    if isinstance(data, LabelledTable):
        return data
    return read_labelled(
        data,
        text=options.text,
        label=options.label,
        multi_label=options.multi_label,
        rejects=rejects,
        progress=progress,
    )


def _note_contradictions(data: LabelledTable, progress: Progress) -> None:
    first, torn, lines = dict[str, int](), dict[int, int](), data.table.line_numbers
    for row, (text, names) in enumerate(zip(data.texts, data.sets, strict=True)):
        if text and names and data.sets[first.setdefault(text.strip(), row)] != names:
            torn.setdefault(first[text.strip()], row)
    if torn:
        both = (
            f"line {lines[row]:,} ({one_line('; '.join(data.sets[row]), 40)})"
            for row in next(iter(torn.items()))
        )
        progress.note(
            f"{count(len(torn), 'text')} with different labels, such as {' and '.join(both)}: a"
            " model can be right on one of them only; `bertcnn check` lists them"
        )


def _out_of_scope(
    source: str | Path | None, usual: str, data: LabelledTable, out: Path, progress: Progress
) -> tuple[str, list[str]]:
    """The out-of-scope label ("auto" or "no" too), and the texts of an out-of-scope file."""
    if source is None:
        return usual, []
    if not is_file(source):
        names = {name for own in data.sets for name in own}
        if source in (AUTO, NO) or str(source) in names:
            return str(source), []
        raise LabelError(
            f"out of scope {one_line(str(source))}, which is neither a label nor a file",
            expected=f"one of the labels: {one_line(', '.join(sorted(names)), 200)}; or a file",
            fix="correct it",
        )
    return usual, texts_of(source, data.columns.text, rejects_of(Path(f"{out}.outside")), progress)


def texts_of(
    path: str | Path, trained_on: Sequence[str], rejects: Path, progress: Progress
) -> list[str]:
    """The texts of an unlabelled file, in the columns of the training file if it has them."""

    def choose(table: Table) -> ColumnChoice:
        there = all(find_name(name, table.columns) for name in trained_on)
        choice = guess_text_columns(table, trained_on=trained_on if there else ())
        return replace(choice, reasons={} if there else choice.reasons)

    read = read_columns(path, choose, rejects=rejects, progress=progress)
    note_left_out(read.table, rejects, progress)
    return read.texts


def is_file(name: str | Path) -> bool:
    """Whether this names a file rather than a label."""
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a label may be longer than a file name can be
        return False


def _merge(
    data: LabelledTable, min_rows: int, levels: str, strange: str, progress: Progress
) -> MergedLabels:
    """Merge rare labels, except the out-of-scope label `strange`; report labels that look alike."""
    usable = [own for content, own in zip(data.texts, data.sets, strict=True) if content]
    outside = find_labels((name for own in usable for name in own), strange)
    used = [name for own in usable for name in own if name not in outside]
    merged = merge_rare(used, min_rows, levels=levels)
    if merged.merged:
        progress.note(merged.describe())
    for remark in look_alikes([name for names in data.sets for name in names]):
        progress.note(remark)
    return merged


def _read_validation(
    valid: str | Path, data: LabelledTable, merged: MergedLabels, rejects: Path, progress: Progress
) -> tuple[tuple[list[str], list[str] | list[LabelSet]], dict[str, list[str]]]:
    """The texts of a validation file with their labels, and its columns of slices."""
    rows = _read_like(data.columns, valid, rejects, progress)
    known_labels = KnownLabels(merged.labels, merged.merged)
    sets = known_sets(rows.cells, data.separator, known_labels)
    labels = labels_of_sets(sets, data.separator)
    return (rows.texts, labels), slice_columns(rows.table, data.columns)


def _read_like(
    columns: ColumnChoice, data: str | Path, rejects: Path, progress: Progress
) -> LabelledTable:
    def same_columns(table: Table) -> ColumnChoice:
        for name in (*columns.text, *([columns.label] if columns.label else [])):
            if find_name(name, table.columns) is None:
                raise ColumnError(
                    f"no column {name!r} in {str(data)!r}",
                    expected="the columns of the training file; found are "
                    + list_columns(table.columns),
                    fix="give its columns the same names",
                )
        return replace(columns, reasons={})  # the reasons are about the training file

    read = read_columns(data, same_columns, rejects=rejects, progress=progress)
    note_left_out(read.table, rejects, progress)
    return read
