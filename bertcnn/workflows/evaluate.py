"""Evaluates a model on a labelled file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bertcnn.bundle import local_folder
from bertcnn.data import LabelSet, indicators
from bertcnn.errors import LabelError
from bertcnn.evaluation import (
    Evaluation,
    OutOfScopeRows,
    against_constant,
    against_constant_sets,
    describe_unknown,
    evaluate,
    evaluate_sets,
    fair_answers,
    find_unknown,
    label_shares,
    usual_answer,
)
from bertcnn.inference import EngineName, Predictor, loaded
from bertcnn.progress import Progress, Silent
from bertcnn.settings import DECISIONS
from bertcnn.tables import LabelledTable, slice_columns
from bertcnn.workflows.labelled import read_as_in_training, rows_in_scope

_AT_ONCE = 1024  # rows
_CALLED = ("review:out_of_scope", "review:language")


def evaluate_csv(
    model: str | Path | Predictor,
    data: str | Path | LabelledTable,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    engine: EngineName = "auto",
    report: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a model on a labelled file it was not trained on.

    Args:
        model: a saved model's folder or URL, or a loaded model.
        data: a labelled file, as for training, or rows from `read_labelled`.
        text: the text column or columns; by default as in training, or guessed.
        label: the label column; by default as in training, or guessed.
        engine: inference engine for a saved model; see `bertcnn.load`.
        report: a folder or an .html file for a report. It quotes texts, so keep it private.
        overwrite: overwrite an existing report.
        progress: progress callback.

    Raises:
        LabelError: no row has a label that the model knows. Rows with unknown labels count as
            wrong, except rows labelled out of scope, which are counted separately.
        TableError: the file cannot be read, or lacks the columns.
        BundleError: the model folder is not a model.
        OutputError: the report exists or cannot be written.
    """
    progress = progress or Silent()
    if not isinstance(model, Predictor):
        model = local_folder(model, progress=progress)
    page = None
    if report is not None:
        from bertcnn.reports import report_path

        folder = None if isinstance(model, Predictor) else model
        path = data.table.path if isinstance(data, LabelledTable) else Path(data)
        page = report_path(report, model=folder, data=path, overwrite=overwrite)
    predictor = loaded(model, engine=engine)
    config = predictor.bundle.config
    read = data
    if not isinstance(read, LabelledTable):
        read = read_as_in_training(read, config, text, label, progress)
    path, choice = read.table.path, read.columns
    rows, actual, strange = rows_in_scope(read, predictor, progress)
    if not rows:
        raise LabelError(
            f"no row of {str(path)!r} has a text and a label in column {choice.label!r}",
            expected="labelled rows",
            fix="name the label column with --label",
        )
    texts = [read.texts[row] for row in rows]
    find_unknown(predictor.labels, [name for names in actual for name in names], len(actual))
    unknown = describe_unknown(predictor.labels, actual)
    if unknown:
        progress.note(unknown)
    outside = _out_of_scope(predictor, [read.texts[row] for row in strange])
    if page is None:
        return replace(_figures(predictor, texts, actual, progress), out_of_scope=outside)
    from bertcnn.reports import Provenance, evaluation_report, write_report
    from bertcnn.storage import sha256_of

    slices = {
        name: [values[row] for row in rows]
        for name, values in (read.slices or slice_columns(read.table, choice)).items()
    }
    origin = Provenance("", path.name, sha256_of(path), slices)
    labels = _single(actual) if config.label_separator is None else actual
    figures, content = evaluation_report(
        predictor, texts, labels, origin, progress, out_of_scope=outside
    )
    write_report(page, content)
    return figures


def _out_of_scope(predictor: Predictor, texts: Sequence[str]) -> OutOfScopeRows | None:
    """How many out-of-scope texts are detected, and how many are automatic."""
    if not texts:
        return None
    parts = (texts[first : first + _AT_ONCE] for first in range(0, len(texts), _AT_ONCE))
    decisions = np.concatenate([predictor.answer(part).decisions for part in parts])
    called = np.isin(decisions, [DECISIONS.index(name) for name in _CALLED])
    automatic = decisions == DECISIONS.index("auto")
    return OutOfScopeRows(len(texts), int(called.sum()), int(automatic.sum()))


def _single(sets: Sequence[LabelSet]) -> list[str]:
    return ["".join(names) for names in sets]


def _figures(
    predictor: Predictor, texts: Sequence[str], actual: Sequence[LabelSet], progress: Progress
) -> Evaluation:
    """The evaluation, in parts, since the probabilities of many rows are large."""
    names, usual = predictor.labels, usual_answer(predictor.bundle.metrics)
    shares = label_shares(predictor.bundle.calibration)
    predicted, fair, predicted_sets = list[int](), list[int](), list[LabelSet]()
    progress.stage("evaluating", len(texts))
    for start in range(0, len(texts), _AT_ONCE):
        part = texts[start : start + _AT_ONCE]
        probabilities = predictor.predict_proba(part)
        if predictor.multi_label:
            predicted_sets += predictor.label_sets(probabilities)
        else:
            predicted += probabilities.argmax(axis=1).tolist()
            fair += fair_answers(probabilities, shares).tolist()
        progress.advance(len(part))
    if predictor.multi_label:
        evaluation = evaluate_sets(names, actual, predicted_sets)
        every = [*names, *evaluation.unknown_labels]
        no_information = against_constant_sets(
            every, indicators(actual, every), indicators(predicted_sets, every), usual=usual
        )
        return replace(evaluation, no_information=no_information)
    single = _single(actual)
    evaluation = evaluate(names, single, [names[index] for index in predicted])
    every = [*names, *evaluation.unknown_labels]
    index_of = {name: index for index, name in enumerate(every)}
    no_information = against_constant(
        every,
        np.array([index_of[name] for name in single]),
        np.array(predicted),
        fair=np.array(fair),
        usual=usual,
    )
    return replace(evaluation, no_information=no_information)
