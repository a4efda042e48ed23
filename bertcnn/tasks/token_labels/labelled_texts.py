"""Texts with labelled spans: files in CoNLL's form, or tables with a column of spans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

from bertcnn.errors import ColumnError, TableError, one_line
from bertcnn.progress import Progress
from bertcnn.storage import read_text
from bertcnn.tables import find_name, list_columns, open_table, whole_number
from bertcnn.tasks.rejected_rows import RejectedRows, check_rejected, write_rejects
from bertcnn.text import is_blank

CONLL = (".conll", ".iob", ".iob2", ".bio", ".bioes", ".txt")
_TEXT, _SPANS = "text", ("spans", "entities")
_TAG = re.compile(r"([BIESLU])-(.+)")


@dataclass(frozen=True, order=True)
class Span:
    """A part of a text with a label.

    Attributes:
        start: index of its first character.
        end: index after its last character.
    """

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class LabelledText:
    """A text with its spans, which do not overlap, in order."""

    text: str
    spans: tuple[Span, ...] = ()


def read_labelled_texts(
    path: str | PathLike[str], *, rejects: Path | None = None, progress: Progress | None = None
) -> list[LabelledText]:
    """Read texts with labelled spans.

    A row with spans that overlap, lie outside the text or have no label is rejected as a whole;
    without `rejects` and `progress`, that is an error.

    Args:
        path: .conll, .iob, .iob2, .bio, .bioes or .txt: a word and its tag (IOB1, IOB2, BIOES or
            BILOU) in the first and last column of a line, with a blank line between texts; words
            are joined by spaces. Or .jsonl, .json, .csv or another table with the columns text and
            spans: a list of {"start": 0, "end": 5, "label": "NAME"}, or entities: a list of
            [0, 5, "NAME"]; as JSON in tables of cells. The end is exclusive.
        rejects: a .csv file for rejected rows, created only if there are any.
        progress: receives a note on rejected rows.

    Raises:
        ColumnError: a table lacks a column.
        TableError: the file cannot be read, or most of its rows are rejected.
    """
    file = Path(path)
    read = _read_conll if file.suffix.lower() in CONLL else _read_table
    texts, rejected = read(file, rejects)
    check_rejected(file, len(texts), "text", rejected, rejects, progress)
    return texts


def spans_of_tags(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The first and last word and the label of each span in tags such as "B-NAME", "I-NAME", "O".

    A span starts at B, S or U, where the label changes, and after E, L, S, U or O, as in CoNLL's
    script `conlleval`, so IOB1, IOB2, BIOES and BILOU are all read.

    Raises:
        ValueError: a tag is of another form.
    """
    spans: list[tuple[int, int, str]] = []
    goes_on = False
    for word, tag in enumerate(tags):
        match = _TAG.fullmatch(tag)
        if match is None:
            if tag != "O":
                raise ValueError(tag)
            goes_on = False
            continue
        kind, label = match.groups()
        if goes_on and kind in "IEL" and spans[-1][2] == label:
            spans[-1] = (spans[-1][0], word, label)
        else:
            spans.append((word, word, label))
        goes_on = kind in "BI"
    return spans


def check_spans(text: str, spans: Sequence[tuple[Any, Any, Any]]) -> tuple[Span, ...] | str:
    """The spans in order, or the reason why the row is rejected."""
    checked: list[Span] = []
    for values in spans:
        start, end, label = whole_number(values[0]), whole_number(values[1]), values[2]
        shown = f"the span {one_line(json.dumps(values, default=str), 60)}"
        if start is None or end is None:
            return f"{shown} does not start and end with whole numbers"
        if not 0 <= start < end <= len(text):
            return f"{shown} is not within the text of {len(text):,} characters"
        if not isinstance(label, str) or is_blank(label):
            return f"{shown} has no label"
        if is_blank(text[start:end]):
            return f"{shown} has only spaces"
        checked.append(Span(start, end, label.strip()))
    checked.sort()
    for one, other in pairwise(checked):
        if other.start < one.end:
            return f"the spans {one.start}:{one.end} and {other.start}:{other.end} overlap"
    return tuple(checked)


def _read_conll(path: Path, rejects: Path | None) -> tuple[list[LabelledText], RejectedRows]:
    texts, rejected = [], []
    try:
        content = read_text(path).removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            f"{path} cannot be read ({error})", expected="a file in UTF-8", fix="check the path"
        ) from None
    for number, lines in _sentences(content):
        try:
            texts.append(_labelled([line.split() for line in lines]))
        except ValueError as error:
            rejected.append((number, f"the line {one_line(str(error), 60)}", lines[0]))
    return texts, write_rejects(rejects, rejected)


def _sentences(content: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each sentence, and the number of its first line."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate([*content.split("\n"), ""], 1):
        if is_blank(line) or line.startswith("-DOCSTART-"):
            if lines:
                yield first, lines
            lines = []
        else:
            first = first if lines else number
            lines.append(line)


def _labelled(lines: Sequence[Sequence[str]]) -> LabelledText:
    """The text of a sentence; raises ValueError with a line that has no word or no valid tag."""
    for cells in lines:
        if len(cells) < 2 or (cells[-1] != "O" and not _TAG.fullmatch(cells[-1])):
            raise ValueError(f"{' '.join(cells)!r} has no word with a tag such as B-NAME or O")
    words, tags = [cells[0] for cells in lines], [cells[-1] for cells in lines]
    ends: list[int] = []
    for word in words:
        ends.append((ends[-1] + 1 if ends else 0) + len(word))
    spans = [
        Span(ends[first] - len(words[first]), ends[last], label)
        for first, last, label in spans_of_tags(tags)
    ]
    return LabelledText(" ".join(words), tuple(spans))


def _read_table(path: Path, rejects: Path | None) -> tuple[list[LabelledText], RejectedRows]:
    texts = []
    with open_table(path, expected_columns=(_TEXT,), rejects=rejects) as table:
        text_column = find_name(_TEXT, table.columns)
        names = [find_name(name, table.columns) for name in _SPANS]
        spans_column = next((name for name in names if name is not None), None)
        if text_column is None or spans_column is None:
            raise ColumnError(
                f"{path} with the columns {list_columns(table.columns)}",
                expected="the columns 'text' and 'spans' (or 'entities')",
                fix="rename them; name a file of words with tags .conll",
            )
        at = table.columns.index(text_column), table.columns.index(spans_column)
        for chunk in table.chunks():
            for number, row in enumerate(chunk.rows):
                text, cell = row[at[0]], row[at[1]]
                spans = "the text is empty" if is_blank(text) else _spans_in(text, cell)
                if isinstance(spans, str):
                    table.reject(chunk, number, spans)
                else:
                    texts.append(LabelledText(text, spans))
        return texts, RejectedRows.of_table(table)


def _spans_in(text: str, cell: str) -> tuple[Span, ...] | str:
    """The spans in a cell, or the reason why the row is rejected."""
    if is_blank(cell):
        return ()
    try:
        items = json.loads(cell)
        spans = [
            (item["start"], item["end"], item["label"]) if isinstance(item, dict) else tuple(item)
            for item in items
        ]
        if any(len(span) != 3 for span in spans):
            raise ValueError("a span of other than three values")
    except (ValueError, TypeError, KeyError, RecursionError):
        return f"its spans are no list of start, end and label: {one_line(cell, 60)}"
    return check_spans(text, spans)
