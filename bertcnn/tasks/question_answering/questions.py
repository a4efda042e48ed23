"""Questions about texts whose answers are spans of the texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.errors import ColumnError, TableError, one_line
from bertcnn.storage import read_text
from bertcnn.tables import find_name, list_columns, open_table, whole_number
from bertcnn.text import is_blank

_COLUMNS = ("question", "context", "answer")
_OPTIONAL = ("start", "id", "ticket_id")


@dataclass(frozen=True)
class Question:
    """A question about a text.

    Attributes:
        context: the text that the question is about.
        answers: accepted answers, as in the context; empty if it has no answer.
        starts: index of each answer's first character in the context.
        identity: id of the question or of its context; may be empty.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    starts: tuple[int, ...]
    identity: str = ""

    @property
    def answerable(self) -> bool:
        """Whether the context holds an answer."""
        return bool(self.answers)


def read_questions(path: str | PathLike[str]) -> list[Question]:
    """Read the questions of a file.

    Args:
        path: .json in the format of SQuAD 1.1 or 2.0; or .jsonl, .csv, .tsv or another table with
            the columns question, context, answer and, optionally, start and id (or ticket_id).
            Without a start, the answer must occur exactly once in its context. An empty answer
            means that there is no answer. Other columns are ignored.

    Raises:
        ColumnError: a column is missing.
        TableError: the file cannot be read or has no questions; or a row, counted from 1 below the
            header, lacks question or context, or has a start that is invalid or not the answer's.
    """
    file = Path(path)
    questions = _from_squad(file) if file.suffix.lower() == ".json" else _from_table(file)
    if not questions:
        raise TableError(
            f"{file} has no questions", expected="at least 1 question", fix="check the file"
        )
    return questions


def split_by_context(
    questions: Sequence[Question], fraction: float, seed: int
) -> tuple[list[Question], list[Question]]:
    """Split off questions about a share of the contexts; at least 1 context is kept in each part.

    Raises:
        TableError: all questions are about one context.
    """
    contexts = list(dict.fromkeys(question.context for question in questions))
    if len(contexts) < 2:
        raise TableError(
            f"questions about {len(contexts)} context",
            expected="questions about at least 2",
            fix="add questions about another text",
        )
    size = min(max(1, round(fraction * len(contexts))), len(contexts) - 1)
    chosen = np.random.default_rng(seed).permutation(len(contexts))[:size]
    held_out = {contexts[index] for index in chosen}
    parts: tuple[list[Question], list[Question]] = ([], [])
    for question in questions:
        parts[question.context in held_out].append(question)
    return parts


def _from_squad(path: Path) -> list[Question]:
    """Read SQuAD; 1.1 has no is_impossible, and 2.0 has empty answers with it."""
    questions: list[Question] = []
    where = str(path)
    try:
        entries = [
            (paragraph["context"], entry)
            for article in json.loads(read_text(path).removeprefix("\ufeff"))["data"]
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
        for number, (context, entry) in enumerate(entries, 1):
            where = f"question {number} of {path}"
            impossible = entry.get("is_impossible")
            answers = entry.get("answers", []) if impossible else entry["answers"]
            spans = [(one["text"], one["answer_start"]) for one in answers if one["text"]]
            if impossible is not None and bool(impossible) == bool(spans):
                raise TableError(
                    f"{where} with is_impossible {impossible} and {len(spans)} answers",
                    expected="either answers or is_impossible",
                    fix="correct the question or remove it",
                )
            texts, identity = (entry["question"], context), str(entry.get("id", ""))
            questions.append(_checked(where, texts, spans, identity))
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"{where} cannot be read ({type(error).__name__}: {error})",
            expected="JSON in UTF-8 in the form of SQuAD: data, paragraphs, context, qas, answers",
            fix="check the file, or save it as .jsonl with the columns question, context, answer",
        ) from None
    return questions


def _from_table(path: Path) -> list[Question]:
    with open_table(path, known=_COLUMNS) as table:
        columns = {name: find_name(name, table.columns) for name in (*_COLUMNS, *_OPTIONAL)}
        missing = tuple(name for name in _COLUMNS if columns[name] is None)
        if missing:
            raise ColumnError(
                f"{path} without {list_columns(missing)}; found: {list_columns(table.columns)}",
                expected=f"the columns {list_columns(_COLUMNS)} and, optionally, 'start'",
                fix="add the missing columns, or rename others",
            )
        at = {name: table.columns.index(column) for name, column in columns.items() if column}
        rows = [row for chunk in table.chunks() for row in chunk.rows]
        if table.rejected > table.repeated_headers:
            raise TableError(
                f"{path} with rows that cannot be read, the first at {table.first_reason}",
                expected="a cell for each column",
                fix="correct these rows or remove them",
            )
    questions: list[Question] = []
    for number, row in enumerate(rows, 1):
        cells = {name: row[column] for name, column in at.items()}
        start = cells.get("start", "").strip()
        spans = [(cells["answer"], start or None)]
        texts, identity = (cells["question"], cells["context"]), cells.get("id")
        where = f"row {number} of {path}"
        questions.append(_checked(where, texts, spans, identity or cells.get("ticket_id", "")))
    return questions


def _checked(
    where: str, texts: tuple[Any, Any], spans: Sequence[tuple[str, Any]], identity: str
) -> Question:
    for name, text in zip(("question", "context"), texts, strict=True):
        if not isinstance(text, str) or is_blank(text):
            raise TableError(
                f"{where}, whose {name} is {one_line(text) if text else 'empty'}",
                expected="a question and the text that it is about",
                fix="complete the row or remove it",
            )
    answers, starts = [], []
    for answer, value in spans:
        start = whole_number(value)
        start = value if start is None else start
        if isinstance(start, str) or not is_blank(answer):
            starts.append(_start(where, texts[1], answer, start))
            answers.append(answer)
    return Question(*texts, tuple(answers), tuple(starts), identity)


def _start(where: str, context: str, answer: str, start: object) -> int:
    shown = one_line(answer, 40)
    if start is None:
        first = context.find(answer)
        if first < 0 or first != context.rfind(answer):
            raise TableError(
                f"{where}, whose answer {shown} has no start and"
                f" {'is not in' if first < 0 else 'occurs more than once in'} its context",
                expected="an answer that occurs once in its context, or its start",
                fix="correct the answer, or add its position in the column start",
            )
        return first
    if not isinstance(start, int) or isinstance(start, bool):
        raise TableError(
            f"{where}, whose start is {one_line(start, 40)}",
            expected="a whole number: the position of the answer's first character, from 0",
            fix="correct the start",
        )
    if start < 0 or not context.startswith(answer, start):
        excerpt = context[start : start + len(answer)] if start >= 0 else ""
        raise TableError(
            f"{where}, whose answer {shown} is not at its start {start}; found there:"
            f" {one_line(excerpt, 40)}",
            expected="the answer as it stands in the context, its characters counted from 0",
            fix="correct the answer or its start",
        )
    return start
