"""`extract_csv`: adds the answers to questions as columns of a file of texts.

The output is streamed, in order, and written atomically, as in `score_csv`.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from bertcnn.data import prefetch
from bertcnn.errors import ColumnError, SettingsError, one_line
from bertcnn.scoring import (
    DIGEST_BYTES,
    FileKeywords,
    FileOptions,
    FileRun,
    InputState,
    Journal,
    RunHeader,
    begin_journal,
    resumed,
)
from bertcnn.tables import ColumnChoice, TableReader, column_position, join_texts
from bertcnn.tasks.question_answering.answerer import QuestionAnswerer
from bertcnn.text import is_blank

_CHUNK_ROWS = 1024
_FRAME = struct.Struct(f"<III{DIGEST_BYTES}s")  # rows, different texts, fields, digest
_ANSWER = np.dtype([("start", "<i4"), ("end", "<i4"), ("confidence", "<f4")])
_PARTS = ("", "_confidence", "_place")  # suffixes of a field's columns


@dataclass(frozen=True)
class ExtractionReport:
    """The result of `extract_csv`.

    Attributes:
        answered: number of answers for each field.
        text_columns: the text columns, and the reason for them.
        repeated_headers: rejected rows that repeat the header.
        padded: rows whose last cells are missing in the input, and blank in the output.
    """

    rows: int
    rejected: int
    rejects: Path | None
    answered: dict[str, int] = field(default_factory=dict)
    text_columns: ColumnChoice = field(default_factory=lambda: ColumnChoice(()))
    repeated_headers: int = 0
    padded: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Header(RunHeader):
    """Everything the answers depend on, including the fields with their questions."""

    fields: str


@dataclass(frozen=True, eq=False)
class _Frame:
    """A chunk of rows with its answers as stored in the journal, without texts.

    Attributes:
        digest: hash of their texts, in order.
        answers: [different texts, fields], character range (-1: no answer) and confidence.
    """

    rows: int
    digest: bytes
    answers: np.ndarray

    def to_bytes(self) -> bytes:
        return _FRAME.pack(self.rows, *self.answers.shape, self.digest) + self.answers.tobytes()

    @classmethod
    def from_bytes(cls, payload: bytes, header: Mapping[str, Any]) -> Self | None:
        """The inverse of `to_bytes`; None for other bytes."""
        if len(payload) < _FRAME.size or "fields" not in header:
            return None
        rows, texts, fields, digest = _FRAME.unpack_from(payload)
        if len(payload) != _FRAME.size + texts * fields * _ANSWER.itemsize or texts > rows:
            return None
        answers = np.frombuffer(payload, _ANSWER, texts * fields, _FRAME.size)
        if (answers["start"] > answers["end"]).any() or fields != len(json.loads(header["fields"])):
            return None
        return cls(rows, digest, answers.reshape(texts, fields))


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
        TableError: the input or most of its rows cannot be read, or a text is too long.
        OutputError: the output exists or cannot be written, or another run is writing it.
        BundleError: the model folder is not a question answerer.
        ScoringInterrupted: Ctrl-C, after the first answers.

    Example:
        extract_csv("models/fields", "inbox.csv", "out.csv", {"month": "Which month is it about?"})
    """
    _check_fields(fields)
    options = replace(options or FileOptions(), **changes)
    run = FileRun(Path(source), Path(target), options)
    run.check()
    answerer = model if isinstance(model, QuestionAnswerer) else QuestionAnswerer.load(model)
    with Journal(run.target, restart=options.restart, parse=_Frame.from_bytes) as journal:
        return resumed(journal, lambda: _run(answerer, fields, run, journal), options.progress)


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


def _run(
    answerer: QuestionAnswerer, fields: Mapping[str, str], run: FileRun, journal: Journal
) -> ExtractionReport:
    progress, state = run.options.progress, InputState.of(run.source)
    with run.opened(journal) as (reader, choice):
        header = _Header(
            **vars(state),
            model=answerer.identity,
            engine=answerer.engine_name,
            software=version("bertcnn"),
            text_columns=choice.text,
            raw=run.options.raw,
            chunk_rows=_CHUNK_ROWS,
            target=run.target.resolve().name,
            fields=json.dumps(list(fields.items()), ensure_ascii=False),
        )
        columns = [f"{name}{part}" for name in fields for part in _PARTS]
        _check_names(columns, run.source, reader)
        begin_journal(journal, header, progress)
        started, answered = time.perf_counter(), np.zeros(len(fields), np.int64)
        questions = list(fields.values())

        def rows() -> Iterator[list[tuple[str, ...]]]:
            progress.stage("answering", reader.total_bytes, "bytes")
            done = read = 0
            for chunk, texts, position in prefetch(_chunks(reader, choice.text)):
                different = {text: index for index, text in enumerate(dict.fromkeys(texts))}
                indices = [different[text] for text in texts]
                answers = _answered(answerer, questions, journal, texts, list(different))
                answered[:] += (answers["start"][indices] >= 0).sum(axis=0)
                cells = [
                    _cells(text, text_answers)
                    for text, text_answers in zip(different, answers, strict=True)
                ]
                yield [(*row, *cells[index]) for row, index in zip(chunk, indices, strict=True)]
                done += len(chunk)
                speed = done / (time.perf_counter() - started)
                progress.advance(position - read, rows_per_second=speed)
                read = position

        run.write(reader, (*reader.header, *columns), rows(), journal, state)
    return ExtractionReport(
        **run.counts(reader),
        answered=dict(zip(fields, answered.tolist(), strict=True)),
        text_columns=choice,
        seconds=time.perf_counter() - started,
    )


def _check_names(columns: Sequence[str], source: Path, reader: TableReader) -> None:
    uses = Counter([*{*reader.columns, *reader.header}, *columns])
    clash = next((name for name in columns if uses[name] > 1), None)
    if clash is not None:
        raise ColumnError(
            f"a new column {clash!r}, which {str(source)!r} or another field has already",
            expected="names of fields that are free",
            fix="give the field another name",
        )


def _chunks(
    reader: TableReader, text_columns: Sequence[str]
) -> Generator[tuple[list[tuple[str, ...]], list[str], int], None, None]:
    columns = [column_position(name, reader.columns) for name in text_columns]
    for chunk in reader.chunks(_CHUNK_ROWS):
        texts = [join_texts(row[column] for column in columns) for row in chunk.rows]
        yield list(chunk.rows), texts, reader.position


def _answered(
    answerer: QuestionAnswerer,
    questions: Sequence[str],
    journal: Journal,
    texts: Sequence[str],
    different: Sequence[str],
) -> np.ndarray:
    """The answers to a chunk's different texts, from the journal or the model."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for text in texts:
        digest.update(blake2b(text.encode("utf-8", "surrogatepass")).digest())
    frame: _Frame | None = journal.take(len(texts), digest.digest())
    if frame is None:
        answers = np.zeros((len(different), len(questions)), _ANSWER)
        for column, question in enumerate(questions):
            for row, answer in enumerate(answerer.answer(question, different, most=1, cut=True)):
                sure = math.nan if is_blank(different[row]) else answer.confidence
                answers[row, column] = (answer.start, answer.end, sure)
        frame = _Frame(len(texts), digest.digest(), answers)
        journal.append(frame)
    return frame.answers


def _cells(text: str, answers: np.ndarray) -> list[str]:
    cells: list[str] = []
    for start, end, confidence in answers.tolist():
        span = f"{start}:{end}" if start >= 0 else ""
        share = "" if math.isnan(confidence) else f"{confidence:.6f}"
        cells += [text[start:end] if span else "", share, span]
    return cells
