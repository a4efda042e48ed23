"""Questions about texts whose answers are spans of the texts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.errors import ColumnError, TableError, one_line
from bertcnn.progress import Progress
from bertcnn.storage import read_text
from bertcnn.tables import find_name, list_columns, open_table, whole_number
from bertcnn.tasks.rejected_rows import RejectedRows, check_rejected, write_rejects
from bertcnn.text import is_blank
from bertcnn.wording import count

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


def read_questions(
    path: str | PathLike[str], *, rejects: Path | None = None, progress: Progress | None = None
) -> list[Question]:
    """Read the questions of a file.

    A row without question or context, or whose answer is not at its start, is rejected; without
    `rejects` and `progress`, that is an error. An answer that differs from its context only in
    blanks, or whose start points to blanks before it, is taken as the context has it.

    Args:
        path: .json in the format of SQuAD 1.1 or 2.0; or .jsonl, .csv, .tsv or another table with
            the columns question, context, answer and, optionally, start and id (or ticket_id).
            Without a start, the answer must occur exactly once in its context. An empty answer
            means that there is no answer. Other columns are ignored.
        rejects: a .csv file for rejected rows, created only if there are any.
        progress: receives notes on rejected rows and on corrected blanks.

    Raises:
        ColumnError: a column is missing.
        TableError: the file cannot be read, has no questions, or most of them are rejected.
    """
    file = Path(path)
    read = _from_squad if file.suffix.lower() == ".json" else _from_table
    found, rejected = read(file, rejects)
    check_rejected(file, len(found), "question", rejected, rejects, progress)
    corrected = sum(is_corrected for _, is_corrected in found)
    if corrected and progress is not None:
        progress.note(
            f"{count(corrected, 'question')} whose answer or start differed from the context in"
            " blanks: taken as the context has it"
        )
    return [question for question, _ in found]


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


_Found = list[tuple[Question, bool]]  # with whether blanks were corrected


def _from_squad(path: Path, rejects: Path | None) -> tuple[_Found, RejectedRows]:
    """Read SQuAD; 1.1 has no is_impossible, and 2.0 has empty answers with it."""
    try:
        entries = [
            (paragraph["context"], entry)
            for article in json.loads(read_text(path).removeprefix("\ufeff"))["data"]
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise TableError(
            f"{path} cannot be read ({type(error).__name__}: {error})",
            expected="JSON in UTF-8 in the form of SQuAD: data, paragraphs, context, qas, answers",
            fix="check the file, or save it as .jsonl with the columns question, context, answer",
        ) from None
    found: _Found = []
    rejected = []
    for number, (context, entry) in enumerate(entries, 1):
        try:
            found.append(_from_entry(context, entry))
        except _UnusableError as error:
            content = json.dumps(entry, ensure_ascii=False)
            rejected.append((number, str(error), content))
    return found, write_rejects(rejects, rejected, unit="question")


def _from_entry(context: Any, entry: Any) -> tuple[Question, bool]:  # noqa: ANN401 - JSON
    try:
        impossible = entry.get("is_impossible")
        answers = entry.get("answers", []) if impossible else entry["answers"]
        spans = [(one["text"], one["answer_start"]) for one in answers if one["text"]]
        texts, identity = (entry["question"], context), str(entry.get("id", ""))
    except (KeyError, TypeError, AttributeError) as error:
        raise _UnusableError(
            f"not in the form of SQuAD ({type(error).__name__}: {error})"
        ) from None
    if impossible is not None and bool(impossible) == bool(spans):
        raise _UnusableError(f"it has is_impossible {impossible} and {len(spans)} answers")
    return _question(texts, spans, identity)


def _from_table(path: Path, rejects: Path | None) -> tuple[_Found, RejectedRows]:
    found: _Found = []
    with open_table(path, expected_columns=_COLUMNS, rejects=rejects) as table:
        columns = {name: find_name(name, table.columns) for name in (*_COLUMNS, *_OPTIONAL)}
        missing = tuple(name for name in _COLUMNS if columns[name] is None)
        if missing:
            raise ColumnError(
                f"{path} without {list_columns(missing)}; found: {list_columns(table.columns)}",
                expected=f"the columns {list_columns(_COLUMNS)} and, optionally, 'start'",
                fix="add the missing columns, or rename others",
            )
        at = {name: table.columns.index(column) for name, column in columns.items() if column}
        for chunk in table.chunks():
            for number, row in enumerate(chunk.rows):
                cells = {name: row[column] for name, column in at.items()}
                texts, start = (cells["question"], cells["context"]), cells.get("start", "").strip()
                identity = cells.get("id") or cells.get("ticket_id", "")
                try:
                    found.append(_question(texts, [(cells["answer"], start or None)], identity))
                except _UnusableError as error:
                    table.reject(chunk, number, str(error))
        return found, RejectedRows.of_table(table)


class _UnusableError(Exception):
    """Why a row is rejected."""


def _question(
    texts: tuple[Any, Any], spans: Sequence[tuple[Any, Any]], identity: str
) -> tuple[Question, bool]:
    for name, text in zip(("question", "context"), texts, strict=True):
        if not isinstance(text, str) or is_blank(text):
            raise _UnusableError(f"its {name} is {one_line(text) if text else 'empty'}")
    given, found = [], []
    for answer, value in spans:
        if not isinstance(answer, str):
            raise _UnusableError(f"its answer is {one_line(answer, 40)}")
        start = whole_number(value)
        start = value if start is None else start
        if isinstance(start, str) or not is_blank(answer):
            given.append((answer, start))
            found.append(_span(texts[1], answer, start))
    answers, starts = zip(*found, strict=True) if found else ((), ())
    is_corrected = any(
        answer != text or start not in (None, place)
        for (answer, start), (text, place) in zip(given, found, strict=True)
    )
    return Question(*texts, answers, starts, identity), is_corrected


def _span(context: str, answer: str, start: object) -> tuple[str, int]:
    """The answer and its start as they are in the context, whose blanks may be others."""
    shown = one_line(answer, 40)
    words = r"\s+".join(map(re.escape, answer.split()))
    if start is None:
        places = [match.start() for match in re.finditer(f"(?={words})", context)]
        if len(places) != 1:
            how = "occurs more than once in" if places else "is not in"
            raise _UnusableError(f"its answer {shown} has no start and {how} its context")
        start = places[0]
    if not isinstance(start, int) or isinstance(start, bool):
        raise _UnusableError(f"its start is {one_line(start, 40)}, no whole number")
    if start >= 0 and context.startswith(answer, start):
        return answer, start
    match = re.compile(rf"\s*({words})").match(context, start) if start >= 0 else None
    if match is None:
        excerpt = context[start : start + len(answer)] if start >= 0 else ""
        raise _UnusableError(
            f"its answer {shown} is not at its start {start}; found there: {one_line(excerpt, 40)}"
        )
    return match[1], match.start(1)
