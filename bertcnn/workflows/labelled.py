"""Labelled files: train a model from one, evaluate a model on one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcnn.bundle.bundle import check_bundle_target
from bertcnn.data.hierarchy import check_levels
from bertcnn.data.label_cells import known_sets, read_label_column
from bertcnn.data.label_names import look_alikes
from bertcnn.data.label_sets import AUTO, LabelSet
from bertcnn.data.labels import check_labels
from bertcnn.data.rare_labels import merge_rare
from bertcnn.data.same_labels import KnownLabels
from bertcnn.errors import ColumnError, LabelError, SettingsError
from bertcnn.evaluation.metrics import (
    Evaluation,
    describe_unknown,
    evaluate,
    evaluate_sets,
    find_unknown,
)
from bertcnn.inference.engines import EngineName
from bertcnn.inference.predictor import Predictor, loaded
from bertcnn.progress import Progress, Silent
from bertcnn.storage.folders import held_folder, real_folder
from bertcnn.tables.column_names import find_name
from bertcnn.tables.columns import ColumnChoice, as_in_training, guess_columns, join_texts
from bertcnn.tables.slices import slice_columns
from bertcnn.tables.tables import Table, column_position, list_columns, read_table, rejects_of
from bertcnn.text.cleaning import is_blank

if TYPE_CHECKING:
    from bertcnn.classifier import BertCNNClassifier


@dataclass(frozen=True)
class TrainingReport:
    """What `train_csv` did.

    Attributes:
        bundle_id: of the saved model.
        rows: rows read, those without a label or text counted.
        columns: which columns were used, and why.
        metrics: figures on the validation rows, a JSON object.
        recipe: the recipe used.
        seconds: from opening the file to the saved model.
    """

    bundle_id: str
    rows: int
    columns: ColumnChoice
    metrics: dict[str, object]
    recipe: str
    seconds: float


def train_csv(  # noqa: PLR0913 - a training and what it needs
    data: str | Path,
    out: str | Path,
    classifier: BertCNNClassifier | None = None,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    valid: str | Path | None = None,
    unlabelled: str | Path | None = None,
    min_rows: int = 0,
    multi_label: str = AUTO,
    levels: str | None = None,
    overwrite: bool = False,
    command: str = "",
) -> TrainingReport:
    """Train a classifier on a labelled file and save it.

    The training itself is saved every minute in a hidden folder beside `out`, and goes on from
    there if it was killed and is run again.

    Args:
        data: .csv, .tsv, .jsonl (each also .gz), .parquet or .xlsx, with a text and a label in each
            row.
        out: the folder to save the model in.
        classifier: how to train; by default `BertCNNClassifier()`.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        valid: a file with the same columns that chooses the epoch and the thresholds; by default a
            tenth of the rows, 10,000 at most.
        unlabelled: a file with the same text columns whose texts have no label yet; `few-shot`
            learns from them too, as from the rows of `data` whose label is blank.
        min_rows: labels with fewer rows become part of their parents ("A > B" of "A > B > C") or of
            the label "other"; no row is lost.
        multi_label: what stands between the labels of a row that has several, such as ","; "auto"
            finds ; and | and lists by itself, "no" takes every cell for one label.
        levels: what stands between the levels of a label; by default as the classifier has it. See
            `BertCNNClassifier`.
        overwrite: replace an existing model in `out`.
        command: that was typed, for the report and the card.

    Raises:
        TableError: a file cannot be read, or has no columns or labels to learn from.
        OutputError: `out` exists or cannot be written, or another run trains the model that is to
            stand there.
        EncoderError: the encoder cannot be had.

    Example:
        train_csv("tickets.csv", "models/triage", BertCNNClassifier(recipe="frozen"), label="team")
    """
    from bertcnn.classifier import (
        BertCNNClassifier,
        Columns,
    )  # Keras, which evaluating does not need
    from bertcnn.reports.reporting import Provenance, sha256_of
    from bertcnn.training.savepoints import savepoint_folder

    started = time.perf_counter()
    classifier = classifier or BertCNNClassifier()
    check_levels(levels := classifier.levels if levels is None else levels)
    progress = classifier.progress or Silent()
    if min_rows < 0:
        raise SettingsError(
            f"min_rows {min_rows}", expected="a number of rows, 0 or more", fix="give for example 5"
        )
    check_bundle_target(Path(out), overwrite)
    table = _read(data, Path(out), progress)
    choice = guess_columns(table, text=text, label=label)
    table = _complete(table, choice.text, Path(out), progress)
    _explain(choice.reasons, progress)
    texts, column = (
        _texts(table, choice.text),
        read_label_column(_label_cells(table, choice), multi_label),
    )
    for remark in column.remarks:
        progress.note(remark)
    sets, separator = column.sets, column.separator
    spelled = [name for names in sets for name in names]
    usable = [not is_blank(content) for content in texts]
    used = [name for names, use in zip(sets, usable, strict=True) if use for name in names]
    merged = merge_rare(used, min_rows, levels=levels)
    if merged.merged:
        progress.note(merged.in_words())
    sets = [merged.of(names) for names in sets]
    check_labels([name for names, use in zip(sets, usable, strict=True) if use for name in names])
    for remark in look_alikes(spelled):
        progress.note(remark)
    labels = sets if separator is not None else ["".join(names) for names in sets]
    held_out, slices = None, slice_columns(table, choice)
    if valid is not None:
        other = _read_like(
            choice, valid, Path(f"{Path(out)}.valid"), "the validation file", progress
        )
        names = known_sets(
            _label_cells(other, choice), separator, KnownLabels(merged.labels, merged.merged)
        )
        held_out = (
            _texts(other, choice.text),
            (names if separator is not None else ["".join(name) for name in names]),
        )
        slices = slice_columns(other, choice)
    more: list[str] = []
    if unlabelled is not None:
        texts_only = replace(choice, label=None)
        other = _read_like(
            texts_only,
            unlabelled,
            Path(f"{Path(out)}.unlabelled"),
            "the file without labels",
            progress,
        )
        more = _texts(other, choice.text)
    origin = Provenance(command, Path(data).name, sha256_of(data), slices)
    columns = Columns(choice.text, choice.label, separator, merged.merged, levels)
    with held_folder(
        savepoint_folder(real_folder(out)), does="keeps its training in"
    ) as savepoints:
        classifier.fit(
            texts,
            labels,
            valid=held_out,
            unlabelled=more,
            columns=columns,
            origin=origin,
            savepoints=savepoints,
        )
        bundle_id = classifier.save(out, overwrite=overwrite)
        shutil.rmtree(savepoints, ignore_errors=True)
    return TrainingReport(
        bundle_id,
        len(table),
        choice,
        dict(classifier.metrics_),
        classifier.recipe_[0],
        time.perf_counter() - started,
    )


def evaluate_csv(
    model: str | Path | Predictor,
    data: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    engine: EngineName = "auto",
    report: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare a model with the labels of a file it has not learned from.

    Args:
        model: a saved model's folder, or a loaded one.
        data: a labelled file, as for training.
        text: the text column or columns; by default those of the training file, a guess if the
            model knows of none.
        label: the label column; by default that of the training file, a guess if the model knows of
            none.
        engine: computes the answers of a saved model; see `bertcnn.load`.
        report: a folder, or a file that ends in .html, for a report with examples from the file:
            for the user's own eyes.
        overwrite: replace an existing report.
        progress: told how far it is.

    Raises:
        LabelError: no row has a label that the model knows. Rows with others count as wrong.
        TableError: the file cannot be read, or has no such columns.
        BundleError: the model folder is not a model.
        OutputError: the report's place is taken or cannot be written.
    """
    progress = progress or Silent()
    page = None
    if report is not None:
        from bertcnn.reports.reporting import report_path  # Jinja, which is not needed without

        folder = None if isinstance(model, Predictor) else Path(model)
        page = report_path(report, model=folder, data=Path(data), overwrite=overwrite)
    predictor = loaded(model, engine=engine)
    config, remembered = predictor.bundle.config, {}
    known = (
        [*config.text_columns, *filter(None, [config.label_column])]
        if text is label is None
        else []
    )
    table = _read(data, None, progress, known=known)
    if text is None and config.text_columns:
        text, remembered["text"] = as_in_training(config.text_columns, table.columns, "--text")
    if label is None and config.label_column is not None:
        (label,), remembered["label"] = as_in_training(
            (config.label_column,), table.columns, "--label"
        )
    choice = guess_columns(table, text=text, label=label)
    table = _complete(table, choice.text, None, progress, known)
    _explain(choice.reasons | remembered, progress)
    contents, cells = _texts(table, choice.text), _label_cells(table, choice)
    sets = known_sets(
        cells, config.label_separator, KnownLabels([*predictor.labels, *config.merged_labels])
    )
    places = _usable(contents, sets, progress)
    if not places:
        raise LabelError(
            f"no row of {str(data)!r} has a text and a label in column {choice.label!r}",
            expected="labelled rows",
            fix="name the label column with --label",
        )
    texts, actual = (
        [contents[row] for row in places],
        _as_learned([sets[row] for row in places], config.merged_labels, progress),
    )
    find_unknown(predictor.labels, [name for names in actual for name in names], len(actual))
    unknown = describe_unknown(predictor.labels, actual)
    if unknown:
        progress.note(unknown)
    single = ["".join(names) for names in actual]
    if page is None:
        predicted = _predicted(predictor, texts, progress)
        if config.label_separator is None:
            return evaluate(predictor.labels, single, predicted)
        return evaluate_sets(predictor.labels, actual, predicted)
    from bertcnn.reports.reporting import Provenance, evaluation_report, sha256_of, write_report

    slices = {
        name: [values[row] for row in places]
        for name, values in slice_columns(table, choice).items()
    }
    labels = single if config.label_separator is None else actual
    figures, content = evaluation_report(
        predictor, texts, labels, Provenance("", Path(data).name, sha256_of(data), slices), progress
    )
    write_report(page, content)
    return figures


def _usable(texts: Sequence[str], sets: Sequence[LabelSet], progress: Progress) -> list[int]:
    """The rows with a text and a label; how many others there are is told."""
    labelled = [row for row, names in enumerate(sets) if names]
    places = [row for row in labelled if not is_blank(texts[row])]
    for left_out, lack in (
        (len(sets) - len(labelled), "label"),
        (len(labelled) - len(places), "text"),
    ):
        if left_out:
            progress.note(f"{left_out} of {len(sets)} rows have no {lack} and are left out")
    return places


def _as_learned(
    sets: Sequence[LabelSet], merged: Mapping[str, str], progress: Progress
) -> list[LabelSet]:
    """The labels as the model knows them, those that were too rare to be learned being part of others."""
    found = [tuple(sorted({merged.get(name, name) for name in names})) for names in sets]
    changed = sum(mine != tuple(sorted(names)) for mine, names in zip(found, sets, strict=True))
    if changed:
        progress.note(
            f"{changed} of {len(sets)} rows have a label that was merged into another for training,"
            " and count as that"
        )
    return found


def _label_cells(table: Table, choice: ColumnChoice) -> list[str]:
    """The label column, "" where nothing can be seen."""
    return ["" if is_blank(cell) else cell for cell in table.column(str(choice.label))]


def _predicted(predictor: Predictor, texts: list[str], progress: Progress) -> list[Any]:
    predicted: list[Any] = []
    progress.stage("evaluating", len(texts))
    for start in range(0, len(texts), 1024):
        part = texts[start : start + 1024]
        predicted += predictor.predict(part).tolist()
        progress.advance(len(part))
    return predicted


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
        progress: told of the columns chosen, and of rows that cannot be read.

    Raises:
        TableError: the file cannot be read, or has no such columns.
        LabelError: its rows have several labels.
    """
    progress = progress or Silent()
    table = _read(data, None, progress)
    choice = guess_columns(table, text=text, label=label)
    table = _complete(table, choice.text, None, progress)
    _explain(choice.reasons, progress)
    column = read_label_column(_label_cells(table, choice), multi_label)
    if column.separator is not None:
        raise LabelError(
            f"rows with several labels in column {choice.label!r} of {str(data)!r}",
            expected="one label a row, which this command needs",
            fix=(
                "give a file with one label a row, or multi_label 'no' if a cell is one label;"
                " `bertcnn train` learns from several"
            ),
        )
    for remark in column.remarks:
        progress.note(remark)
    rows = zip(_texts(table, choice.text), column.single, strict=True)
    return [
        (content, name) for content, name in rows if not is_blank(content) and not is_blank(name)
    ]


def _read(
    data: str | Path,
    out: Path | None,
    progress: Progress,
    *,
    known: Sequence[str] = (),
    required: Sequence[str] = (),
) -> Table:
    """A labelled file; rows that cannot be read go beside the model where there is one."""
    rejects = None if out is None else rejects_of(out)
    place = rejects if rejects is not None and rejects.parent.is_dir() else None
    table = read_table(data, rejects=place, required=required, known=known or None)
    if table.rejected and rejects is not None and not rejects.exists():  # for want of a folder
        rejects.parent.mkdir(parents=True, exist_ok=True)
        table = read_table(data, rejects=rejects, required=required, known=known or None)
    if table.remark and not required:
        progress.note(table.remark)
    return table


def _complete(
    table: Table,
    text_columns: Sequence[str],
    out: Path | None,
    progress: Progress,
    known: Sequence[str] = (),
) -> Table:
    """The table without rows that were cut off before their text.

    How many rows are short or could not be read is told.
    """
    if table.is_cut(text_columns):
        table = _read(table.path, out, progress, known=known, required=text_columns)
    if table.rejected:
        where = f"; they and the reasons are in {rejects_of(out)}" if out else ""
        progress.note(
            f"{table.rejected} of {len(table) + table.rejected} rows of {str(table.path)!r} could"
            f" not be read{where}"
        )
    if table.padded:
        progress.note(
            f"{table.padded} of {len(table)} rows of {str(table.path)!r} lack their last cells,"
            " which are blank"
        )
    return table


def _read_like(
    choice: ColumnChoice, data: str | Path, out: Path, role: str, progress: Progress
) -> Table:
    """Another file with the columns of the training file."""
    table = _read(data, out, progress)
    for column in (*choice.text, *([choice.label] if choice.label else [])):
        if find_name(column, table.columns) is None:
            raise ColumnError(
                f"no column {column!r} in {role} {str(data)!r}",
                expected=(
                    f"the columns of the training file; found are {list_columns(table.columns)}"
                ),
                fix="give its columns the same names",
            )
    return _complete(table, choice.text, out, progress)


def _explain(reasons: Mapping[str, str], progress: Progress) -> None:
    for role in ("text", "label"):
        progress.note(f"{role}: {reasons[role]}")


def _texts(table: Table, columns: tuple[str, ...]) -> list[str]:
    places = [column_position(name, table.columns) for name in columns]
    return [join_texts(row[place] for place in places) for row in table.rows]
