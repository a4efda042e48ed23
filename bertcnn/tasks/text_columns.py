"""Adds columns of answers to a file of texts, in constant memory.

The output is streamed, in order, and written atomically, as in `score_csv`.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from bertcnn.data import prefetch
from bertcnn.errors import ColumnError
from bertcnn.scoring import (
    DIGEST_BYTES,
    FileRun,
    InputState,
    Journal,
    RunHeader,
    begin_journal,
    resumed,
)
from bertcnn.tables import ColumnChoice, TableReader, column_position, join_texts

_CHUNK_ROWS = 1024
_FRAME = struct.Struct(f"<II{DIGEST_BYTES}s")  # rows, different texts, digest


@dataclass(frozen=True)
class ExtractionReport:
    """The result of `extract_csv` and `extract_spans`.

    Attributes:
        answered: number of answers for each field, or of spans for each label.
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
class TextColumns:
    """New columns of a table, made from each row's text.

    Attributes:
        names: of the columns.
        model: id of the model.
        engine: that runs it.
        settings: everything else that the answers depend on, as JSON.
        dtype: of an answer; its `start` is at most its `end`.
        answer: maps texts to the answers of each, [answers] of this dtype.
        cells: maps a text and its answers to the new cells.
        tally: maps the answers to a text to what `answered` counts, by name.
    """

    names: Sequence[str]
    model: str
    engine: str
    settings: str
    dtype: np.dtype[Any]
    answer: Callable[[list[str]], list[np.ndarray]]
    cells: Callable[[str, np.ndarray], Sequence[str]]
    tally: Callable[[np.ndarray], Mapping[str, int]]


@dataclass(frozen=True)
class _Header(RunHeader):
    """Everything the answers depend on, including the fields or labels."""

    fields: str


@dataclass(frozen=True, eq=False)
class _Frame:
    """A chunk of rows with its answers as stored in the journal, without texts.

    Attributes:
        digest: hash of their texts, in order.
        answers: to each different text, [answers].
    """

    rows: int
    digest: bytes
    answers: list[np.ndarray]

    def to_bytes(self) -> bytes:
        counts = np.array([len(one) for one in self.answers], "<u4")
        head = _FRAME.pack(self.rows, len(counts), self.digest)
        return b"".join([head, counts.tobytes(), *(one.tobytes() for one in self.answers)])

    @classmethod
    def from_bytes(
        cls, dtype: np.dtype[Any], payload: bytes, header: Mapping[str, Any]
    ) -> Self | None:
        """The inverse of `to_bytes`; None for other bytes."""
        if len(payload) < _FRAME.size or "fields" not in header:
            return None
        rows, texts, digest = _FRAME.unpack_from(payload)
        start = _FRAME.size + 4 * texts
        if len(payload) < start or texts > rows:
            return None
        counts = np.frombuffer(payload, "<u4", texts, _FRAME.size).astype(np.int64)
        if len(payload) != start + counts.sum() * dtype.itemsize:
            return None
        answers = np.frombuffer(payload, dtype, -1, start) if counts.sum() else np.empty(0, dtype)
        if (answers["start"] > answers["end"]).any():
            return None
        return cls(rows, digest, np.split(answers, np.cumsum(counts)[:-1]) if texts else [])


def add_columns(
    run: FileRun, dtype: np.dtype[Any], make: Callable[[], TextColumns]
) -> ExtractionReport:
    """Write a file with new columns; an interrupted run resumes.

    `make` loads the model, after the paths are checked.
    """
    run.check()
    columns, parse = make(), partial(_Frame.from_bytes, dtype)
    with Journal(run.target, restart=run.options.restart, parse=parse) as journal:
        return resumed(journal, lambda: _run(columns, run, journal), run.options.progress)


def _run(columns: TextColumns, run: FileRun, journal: Journal) -> ExtractionReport:
    progress, state = run.options.progress, InputState.of(run.source)
    with run.opened(journal) as (reader, choice):
        header = _Header(
            **vars(state),
            model=columns.model,
            engine=columns.engine,
            software=version("bertcnn"),
            text_columns=choice.text,
            raw=run.options.raw,
            chunk_rows=_CHUNK_ROWS,
            target=run.target.resolve().name,
            fields=columns.settings,
        )
        _check_names(columns.names, run.source, reader)
        begin_journal(journal, header, progress)
        started = time.perf_counter()
        answered = Counter(columns.tally(np.empty(0, columns.dtype)))

        def rows() -> Iterator[list[tuple[str, ...]]]:
            progress.stage("answering", reader.total_bytes, "bytes")
            done = read = 0
            for chunk, texts, position in prefetch(_chunks(reader, choice.text)):
                different = {text: index for index, text in enumerate(dict.fromkeys(texts))}
                answers = _answered(columns, journal, texts, list(different))
                pairs = list(zip(different, answers, strict=True))
                cells = [columns.cells(text, of_text) for text, of_text in pairs]
                tallies = [columns.tally(of_text) for _, of_text in pairs]
                indices = [different[text] for text in texts]
                for index in indices:
                    answered.update(tallies[index])
                yield [(*row, *cells[index]) for row, index in zip(chunk, indices, strict=True)]
                done += len(chunk)
                speed = done / (time.perf_counter() - started)
                progress.advance(position - read, rows_per_second=speed)
                read = position

        run.write(reader, (*reader.header, *columns.names), rows(), journal, state)
    return ExtractionReport(
        **run.counts(reader),
        answered=dict(answered),
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
    columns: TextColumns, journal: Journal, texts: Sequence[str], different: list[str]
) -> list[np.ndarray]:
    """The answers to a chunk's different texts, from the journal or the model."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for text in texts:
        digest.update(blake2b(text.encode("utf-8", "surrogatepass")).digest())
    frame: _Frame | None = journal.take(len(texts), digest.digest())
    if frame is None:
        frame = _Frame(len(texts), digest.digest(), columns.answer(different))
        journal.append(frame)
    return frame.answers
