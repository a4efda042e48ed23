"""`extract_csv`: a file of texts in, the same file with the answers to questions out.

Streamed, in order, complete or not there at all, as `score_csv` does it.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from bertcnn.data.prefetch import prefetch
from bertcnn.errors import ColumnError, SettingsError, one_line
from bertcnn.progress import Progress, Silent
from bertcnn.scoring.journal import (
    DIGEST_BYTES,
    InputState,
    Journal,
    OtherTextsError,
    RunHeader,
)
from bertcnn.scoring.score import ScoringInterrupted, check_rejects, check_unchanged
from bertcnn.tables.columns import ColumnChoice, guess_text_columns, join_texts
from bertcnn.tables.formats import check_input, kind_of
from bertcnn.tables.sinks import FormatLimitError, check_fits_excel
from bertcnn.tables.tables import (
    TableReader,
    check_outcome,
    column_position,
    open_table,
    rejects_of,
)
from bertcnn.tables.writing import TableWriter, explained
from bertcnn.tasks.question_answering.answerer import QuestionAnswerer
from bertcnn.text.cleaning import is_blank

_CHUNK_ROWS = 1024
_FRAME = struct.Struct(f"<III{DIGEST_BYTES}s")  # rows, different texts, fields, digest
_ANSWER = np.dtype([("start", "<i4"), ("end", "<i4"), ("confidence", "<f4")])
_PARTS = ("", "_confidence", "_place")  # of a field's columns


@dataclass(frozen=True)
class ExtractionReport:
    """What `extract_csv` did.

    Attributes:
        rows: rows written, one for each row read.
        rejected: rows that could not be read.
        rejects: the file they are in, if there are any.
        answered: of the rows, how many each field has an answer for.
        text_columns: where the texts came from, and why.
        repeated_headers: of those that could not be read, rows that are the header once more.
        padded: of the rows, those whose last cells are missing in the input, and blank here.
        seconds: from the first row read to the finished output.
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
    """What the answers depend on: also the fields, each with its question."""

    fields: str


@dataclass(frozen=True, eq=False)
class _Frame:
    """One chunk of rows with its answers, as the journal keeps it, without any text.

    Attributes:
        rows: rows of the chunk.
        digest: of their texts, in their order.
        answers: [different texts, fields], where each answer stands in its text, -1 where there is
            none, and its confidence.
    """

    rows: int
    digest: bytes
    answers: np.ndarray

    def to_bytes(self) -> bytes:
        """The payload of its record."""
        return _FRAME.pack(self.rows, *self.answers.shape, self.digest) + self.answers.tobytes()

    @classmethod
    def from_bytes(cls, payload: bytes, header: Mapping[str, Any]) -> Self | None:
        """What `to_bytes` gave; None for anything else."""
        if len(payload) < _FRAME.size or "fields" not in header:
            return None
        rows, texts, fields, digest = _FRAME.unpack_from(payload)
        if len(payload) != _FRAME.size + texts * fields * _ANSWER.itemsize or texts > rows:
            return None
        answers = np.frombuffer(payload, _ANSWER, texts * fields, _FRAME.size)
        if (answers["start"] > answers["end"]).any() or fields != len(json.loads(header["fields"])):
            return None
        return cls(rows, digest, answers.reshape(texts, fields))


def extract_csv(  # noqa: PLR0913 - options that callers name
    model: str | Path | QuestionAnswerer,
    source: str | Path,
    target: str | Path,
    fields: Mapping[str, str],
    *,
    text: str | Sequence[str] | None = None,
    raw: bool = False,
    overwrite: bool = False,
    restart: bool = False,
    allow_rejects: bool = False,
    progress: Progress | None = None,
) -> ExtractionReport:
    """Fill fields from texts: ask each question about every row of a file, in constant memory.

    The output has the input's columns and rows in their order, then for each field three columns:
    the answer under the field's name, empty where there is none; `<field>_confidence`, the
    probability that this is right; and `<field>_place`, first character and the one behind the
    last, such as "17:29", counted in the text as it was read (of several columns, as they are
    joined). Of a text that needs more windows than the model allows, the beginning is read. Rows
    that cannot be read go to `<target>.rejects.csv`. A run that was broken off picks up where it
    stopped, as `score_csv` does.

    Args:
        model: a saved question answerer's folder or URL, or a loaded one.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write, its format by its extension.
        fields: a question for each new column.
        text: the text column or columns; guessed by default.
        raw: do not quote cells that a spreadsheet would run as a formula.
        overwrite: replace an existing `target`.
        restart: forget the answers of an interrupted run.
        allow_rejects: write the output even if most rows could not be read.
        progress: progress callback.

    Raises:
        SettingsError: there are no fields, or a name or a question is blank.
        ColumnError: a field is named like a column of the file, or the text column is missing.
        TableError: the input cannot be read, or most of its rows, or a text is too long.
        OutputError: the output exists or cannot be written, or another run is writing it.
        BundleError: the model folder is not a question answerer.
        ScoringInterrupted: Ctrl-C, once there are answers to keep.

    Example:
        extract_csv("models/fields", "inbox.csv", "out.csv", {"month": "Which month is it about?"})
    """
    source, target, progress = Path(source), Path(target), progress or Silent()
    asked = checked_fields(fields)
    with explained(target):
        check_outcome(source, target, overwrite=overwrite)
        kind, wanted = check_input(source), kind_of(target.resolve())
    if wanted is not None and wanted.format == "xlsx" and kind.format != "xlsx":
        with open_table(source, known=()) as reader:
            check_fits_excel(reader)
    answerer = model if isinstance(model, QuestionAnswerer) else QuestionAnswerer.load(model)
    job = _Job(source, target, asked, text, raw, overwrite, allow_rejects, progress)
    with Journal(target, restart=restart, parse=_Frame.from_bytes) as journal:
        try:
            try:
                return _run(answerer, job, journal)
            except OtherTextsError:
                progress.note("the input has changed since the interrupted run: starting over")
                return _run(answerer, job, journal)
        except FormatLimitError:  # which the same call would meet again
            journal.remove()
            raise
        except KeyboardInterrupt:
            if journal.rows:
                raise ScoringInterrupted(journal.rows) from None
            raise


def checked_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields, if each has a name of its own and a question.

    Raises:
        SettingsError: there are none, or one is blank.
    """
    for name, question in fields.items():
        if is_blank(name) or not isinstance(question, str) or is_blank(question):
            raise SettingsError(
                f"the field {one_line(name)} with the question {one_line(question)}",
                expected="a name and a question",
                fix='give for example --field month="Which month is the bill from?"',
            )
    if not fields:
        raise SettingsError(
            "no field",
            expected="at least one",
            fix='give for example --field month="Which month is the bill from?"',
        )
    return dict(fields)


@dataclass(frozen=True)
class _Job:
    """What `extract_csv` was asked for."""

    source: Path
    target: Path
    fields: dict[str, str]
    text: str | Sequence[str] | None
    raw: bool
    overwrite: bool
    allow_rejects: bool
    progress: Progress

    @property
    def rejects(self) -> Path:
        """Where rows go that cannot be read."""
        return rejects_of(self.target)

    @property
    def columns(self) -> list[str]:
        """The new columns' names."""
        return [f"{name}{part}" for name in self.fields for part in _PARTS]


def _run(answerer: QuestionAnswerer, job: _Job, journal: Journal) -> ExtractionReport:
    """Answer the file's texts, with the journal locked."""
    progress, state = job.progress, InputState.of(job.source)
    known = () if job.text is None else _names(job.text)
    with open_table(job.source, rejects=job.rejects, known=known) as reader:
        choice = guess_text_columns(reader.peek(), text=job.text, trained_on=())
        reader.require(choice.text)
        remark = reader.remark
        if remark:
            progress.note(remark)
        progress.note(f"text: {choice.reasons['text']}")
        _check_names(job, reader)
        header = _Header(
            **vars(state),
            model=answerer.identity,
            engine=answerer.engine_name,
            software=version("bertcnn"),
            text_columns=choice.text,
            raw=job.raw,
            chunk_rows=_CHUNK_ROWS,
            target=job.target.resolve().name,
            fields=json.dumps(list(job.fields.items()), ensure_ascii=False),
        )
        if dropped := journal.begin(header):
            progress.note(dropped)
        if journal.rows:
            progress.note(
                f"{journal.rows:,} rows were already answered by an interrupted run: continuing"
                " from there"
            )
        started, answered = time.perf_counter(), np.zeros(len(job.fields), np.int64)
        with TableWriter(
            job.target, (*reader.header, *job.columns), raw=job.raw, overwrite=job.overwrite
        ) as writer:
            progress.stage("answering", reader.total_bytes, "bytes")
            read = rows = 0
            for chunk in prefetch(_chunks(reader, choice.text)):
                found = _answered(answerer, job, journal, chunk)
                answered += (found["start"][chunk.places] >= 0).sum(axis=0)
                cells = [_cells(text, own) for text, own in zip(chunk.texts, found, strict=True)]
                writer.write(
                    [
                        (*row, *cells[place])
                        for row, place in zip(chunk.rows, chunk.places, strict=True)
                    ]
                )
                rows += len(chunk.rows)
                seconds = time.perf_counter() - started
                progress.advance(chunk.position - read, rows_per_second=rows / seconds)
                read = chunk.position
            check_rejects(reader, job.source, job.rejects, journal, allowed=job.allow_rejects)
            if reader.remark != remark:  # what the rows have shown
                progress.note(reader.remark)
            writer.finish()
            check_unchanged(job.source, state, journal)
            reader.close()
        journal.remove()
    return ExtractionReport(
        rows=reader.accepted,
        rejected=reader.rejected,
        rejects=job.rejects if reader.rejected else None,
        answered=dict(zip(job.fields, answered.tolist(), strict=True)),
        text_columns=choice,
        repeated_headers=reader.repeated_headers,
        padded=reader.padded,
        seconds=time.perf_counter() - started,
    )


def _names(text: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if isinstance(text, str) else tuple(text)


def _check_names(job: _Job, reader: TableReader) -> None:
    """Refuse fields whose columns the input has already, or that two of them share."""
    taken = {*reader.columns, *reader.header}
    clash = next((name for name in job.columns if name in taken), None)
    if clash is None:
        clash = next((name for name in job.columns if job.columns.count(name) > 1), None)
    if clash is not None:
        raise ColumnError(
            f"a new column {clash!r}, which {str(job.source)!r} or another field has already",
            expected="names of fields that are free",
            fix="give the field another name",
        )


@dataclass(frozen=True)
class _Chunk:
    """A chunk of rows.

    Attributes:
        rows: as they were read.
        position: bytes of the input that were read by then.
        texts: the different texts, in the order in which they appear first.
        places: for each row, which of the texts is its own.
        digest: of the rows' texts, in their order.
    """

    rows: list[tuple[str, ...]]
    position: int
    texts: list[str]
    places: list[int]
    digest: bytes


def _chunks(reader: TableReader, text_columns: Sequence[str]) -> Generator[_Chunk, None, None]:
    columns = [column_position(name, reader.columns) for name in text_columns]
    for chunk in reader.chunks(_CHUNK_ROWS):
        texts = [join_texts(row[column] for column in columns) for row in chunk.rows]
        number: dict[str, int] = {}
        places = [number.setdefault(text, len(number)) for text in texts]
        digest = blake2b(digest_size=DIGEST_BYTES)
        for one in texts:
            digest.update(blake2b(one.encode("utf-8", "surrogatepass")).digest())
        yield _Chunk(list(chunk.rows), reader.position, list(number), places, digest.digest())


def _answered(answerer: QuestionAnswerer, job: _Job, journal: Journal, chunk: _Chunk) -> np.ndarray:
    """The answers to a chunk's texts, from the journal or the model; on record from now on."""
    frame = journal.take(len(chunk.rows), chunk.digest)
    if frame is not None:
        found: np.ndarray = frame.answers
        return found
    answers = np.zeros((len(chunk.texts), len(job.fields)), _ANSWER)
    for column, question in enumerate(job.fields.values()):
        for row, answer in enumerate(answerer.answer(question, chunk.texts, most=1, cut=True)):
            sure = math.nan if is_blank(chunk.texts[row]) else answer.confidence
            answers[row, column] = (answer.start, answer.end, sure)
    journal.append(_Frame(len(chunk.rows), chunk.digest, answers))
    return answers


def _cells(text: str, answers: np.ndarray) -> list[str]:
    """The cells of all fields."""
    cells: list[str] = []
    for start, end, confidence in answers.tolist():
        there = start >= 0
        cells += [
            text[start:end] if there else "",
            "" if math.isnan(confidence) else f"{confidence:.6f}",
            f"{start}:{end}" if there else "",
        ]
    return cells
