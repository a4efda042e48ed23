"""`extract_csv`: adds the answers to questions as columns of a file of texts.

The output is streamed, in order, and written atomically, as in `score_csv`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from bertcnn.errors import SettingsError, one_line
from bertcnn.scoring import FileKeywords, FileOptions
from bertcnn.tasks.question_answering.answerer import QuestionAnswerer
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.text import is_blank

_ANSWER = np.dtype([("start", "<i4"), ("end", "<i4"), ("confidence", "<f4")])
_PARTS = ("", "_confidence", "_place")  # suffixes of a field's columns


def extract_csv(
    model: str | Path | QuestionAnswerer,
    source: str | Path,
    target: str | Path,
    fields: Mapping[str, str],
    options: FileOptions | None = None,
    **changes: Unpack[FileKeywords],
) -> ExtractionReport:
    """Ask each question about every row of a file, in constant memory.

    The output has the input's columns and rows, then three columns for each field: the answer under
    the field's name, empty for no answer; `<field>_confidence`, the probability that this is right;
    and `<field>_place`, the character range such as "17:29" in the text as it was read (several
    columns are joined). A text with too many windows is truncated. Rows that cannot be read go to
    `<target>.rejects.csv`. An interrupted run resumes, as in `score_csv`.

    Args:
        model: a saved question answerer's folder or URL, or a loaded model.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write; its extension sets the format.
        fields: a question for each new column.
        options: all options; by default `FileOptions()`.
        changes: single options by name, such as `text="body"`: see `FileOptions`.

    Raises:
        SettingsError: there are no fields, or a name or a question is blank.
        ColumnError: a field has the name of an existing column, or the text column is missing.
        TableError: a text is too long, or as for `score_csv`, which has the other errors too.
        BundleError: the model folder is not a question answerer.

    Example:
        extract_csv("models/fields", "inbox.csv", "out.csv", {"month": "Which month is it about?"})
    """
    _check_fields(fields)
    return add_columns(source, target, options, changes, partial(_columns, model, fields))


def _columns(model: str | Path | QuestionAnswerer, fields: Mapping[str, str]) -> TextColumns:
    answerer = model if isinstance(model, QuestionAnswerer) else QuestionAnswerer.load(model)
    return TextColumns(
        names=[f"{name}{part}" for name in fields for part in _PARTS],
        model=answerer.identity,
        engine=answerer.engine_name,
        settings=json.dumps(list(fields.items()), ensure_ascii=False),
        answer=partial(_answers, answerer, list(fields.values())),
        cells=_cells,
        tally=partial(_tally, list(fields)),
    )


def _check_fields(fields: Mapping[str, str]) -> None:
    fix = 'give for example --field month="Which month is the bill from?"'
    if not fields:
        raise SettingsError("no field", expected="at least one", fix=fix)
    for name, question in fields.items():
        if is_blank(name) or not isinstance(question, str) or is_blank(question):
            raise SettingsError(
                f"the field {one_line(name)} with the question {one_line(question)}",
                expected="a name and a question",
                fix=fix,
            )


def _answers(answerer: QuestionAnswerer, questions: Sequence[str], texts: list[str]) -> list[bytes]:
    """The answer to each question about each text."""
    answers = np.zeros((len(texts), len(questions)), _ANSWER)
    for column, question in enumerate(questions):
        for row, answer in enumerate(answerer.answer(question, texts, most=1, cut=True)):
            sure = math.nan if is_blank(texts[row]) else answer.confidence
            answers[row, column] = (answer.start, answer.end, sure)
    return [row.tobytes() for row in answers]


def _tally(fields: Sequence[str], answers: bytes) -> dict[str, int]:
    starts = np.frombuffer(answers, _ANSWER)["start"].tolist()
    answered = {name: int(start >= 0) for name, start in zip(fields, starts, strict=False)}
    return {**dict.fromkeys(fields, 0), **answered}


def _cells(text: str, answers: bytes) -> list[str]:
    cells: list[str] = []
    for start, end, confidence in np.frombuffer(answers, _ANSWER).tolist():
        span = f"{start}:{end}" if start >= 0 else ""
        share = "" if math.isnan(confidence) else f"{confidence:.6f}"
        cells += [text[start:end] if span else "", share, span]
    return cells
