"""Adds columns of answers to a file of texts, in constant memory.

The output is streamed, in order, and written atomically, as in `score_csv`.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from bertcnn.data import prefetch
from bertcnn.errors import ColumnError
from bertcnn.progress import Progress
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
from bertcnn.tables import ColumnChoice, TableReader, column_position, free_names, join_texts

_CHUNK_ROWS = 1024
_FRAME = struct.Struct(f"<II{DIGEST_BYTES}s")  # rows, different texts, digest
_SIZE = "<u4"  # bytes of an answer


@dataclass(frozen=True)
class ExtractionReport:
    """The result of `extract_csv`, `extract_spans` and `translate_csv`.

    Attributes:
        columns: names of the new columns.
        answered: number of answers for each field, of spans for each label, or of translations.
        text_columns: the text columns, and the reason for them.
        repeated_headers: rejected rows that repeat the header.
        padded: rows whose last cells are missing in the input, and blank in the output.
    """

    rows: int
    rejected: int
    rejects: Path | None
    columns: tuple[str, ...] = ()
    answered: dict[str, int] = field(default_factory=dict)
    text_columns: ColumnChoice = field(default_factory=lambda: ColumnChoice(()))
    repeated_headers: int = 0
    padded: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class TextColumns:
    """New columns of a table, made from each row's text.

    Attributes:
        names: of the columns; one that the input has already is refused.
        model: id of the model.
        engine: that runs it.
        settings: everything else that the answers depend on, as JSON.
        answer: maps texts to the answers to each, as bytes, which the journal keeps.
        cells: maps a text and its answers to the new cells.
        tally: maps the answers to a text to what `answered` counts, by name; b"" to zeros.
        prefixed: whether a name that the input has already gets the prefix `bertcnn_` instead.
        chunk_rows: rows answered and kept at a time; by default 1,024.
    """

    names: Sequence[str]
    model: str
    engine: str
    settings: str
    answer: Callable[[list[str]], list[bytes]]
    cells: Callable[[str, bytes], Sequence[str]]
    tally: Callable[[bytes], Mapping[str, int]]
    prefixed: bool = False
    chunk_rows: int | None = None


@dataclass(frozen=True)
class _Header(RunHeader):
    """Everything the answers depend on, including the task's settings."""

    settings: str


@dataclass(frozen=True, eq=False)
class _Frame:
    """A chunk of rows with its answers as stored in the journal, without texts.

    Attributes:
        digest: hash of their texts, in order.
        answers: to each different text.
    """

    rows: int
    digest: bytes
    answers: list[bytes]

    def to_bytes(self) -> bytes:
        sizes = np.array([len(one) for one in self.answers], _SIZE)
        head = _FRAME.pack(self.rows, len(sizes), self.digest)
        return b"".join([head, sizes.tobytes(), *self.answers])

    @classmethod
    def from_bytes(cls, payload: bytes, header: Mapping[str, Any]) -> Self | None:
        """The inverse of `to_bytes`; None for other bytes."""
        if len(payload) < _FRAME.size or "settings" not in header:
            return None
        rows, texts, digest = _FRAME.unpack_from(payload)
        start = _FRAME.size + 4 * texts
        if len(payload) < start or texts > rows:
            return None
        sizes = np.frombuffer(payload, _SIZE, texts, _FRAME.size).tolist()
        ends = list(accumulate(sizes, initial=start))
        if len(payload) != ends[-1]:
            return None
        return cls(rows, digest, [payload[begin:end] for begin, end in pairwise(ends)])


def add_columns(
    source: str | Path,
    target: str | Path,
    options: FileOptions | None,
    changes: FileKeywords,
    make: Callable[[], TextColumns],
) -> ExtractionReport:
    """Write a file with new columns; an interrupted run resumes.

    `make` loads the model, after the paths are checked.
    """
    run = FileRun(Path(source), Path(target), replace(options or FileOptions(), **changes))
    run.check()
    columns = make()
    with Journal(run.target, restart=run.options.restart, parse=_Frame.from_bytes) as journal:
        return resumed(journal, lambda: _run(columns, run, journal), run.options.progress)


def _run(columns: TextColumns, run: FileRun, journal: Journal) -> ExtractionReport:
    progress, state = run.options.progress, InputState.of(run.source)
    chunk_rows = columns.chunk_rows or _CHUNK_ROWS
    with run.opened(journal) as (reader, choice):
        header = _Header(
            **vars(state),
            model=columns.model,
            engine=columns.engine,
            software=version("bertcnn"),
            text_columns=choice.text,
            raw=run.options.raw,
            chunk_rows=chunk_rows,
            target=run.target.resolve().name,
            settings=columns.settings,
        )
        names = _names(columns, run.source, reader, progress)
        begin_journal(journal, header, progress)
        started = time.perf_counter()
        answered = Counter(columns.tally(b""))

        def rows() -> Iterator[list[tuple[str, ...]]]:
            progress.stage("answering", reader.total_bytes, "bytes")
            done = read = 0
            for chunk, texts, position in prefetch(_chunks(reader, choice.text, chunk_rows)):
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

        run.write(reader, (*reader.header, *names), rows(), journal, state)
    return ExtractionReport(
        **run.counts(reader),
        columns=names,
        answered=dict(answered),
        text_columns=choice,
        seconds=time.perf_counter() - started,
    )


def _names(
    columns: TextColumns, source: Path, reader: TableReader, progress: Progress
) -> tuple[str, ...]:
    """The names of the new columns in this file."""
    taken = {*reader.columns, *reader.header}
    if columns.prefixed:
        names = free_names(columns.names, taken)
        for name, own in zip(columns.names, names, strict=True):
            if own != name:
                progress.note(f"the input has a column {name!r}: ours is called {own!r}")
        return names
    uses = Counter([*taken, *columns.names])
    clash = next((name for name in columns.names if uses[name] > 1), None)
    if clash is not None:
        raise ColumnError(
            f"a new column {clash!r}, which {str(source)!r} or another field has already",
            expected="names of fields that are free",
            fix="give the field another name",
        )
    return tuple(columns.names)


def _chunks(
    reader: TableReader, text_columns: Sequence[str], chunk_rows: int
) -> Generator[tuple[list[tuple[str, ...]], list[str], int], None, None]:
    columns = [column_position(name, reader.columns) for name in text_columns]
    for chunk in reader.chunks(chunk_rows):
        texts = [join_texts(row[column] for column in columns) for row in chunk.rows]
        yield list(chunk.rows), texts, reader.position


def _answered(
    columns: TextColumns, journal: Journal, texts: Sequence[str], different: list[str]
) -> list[bytes]:
    """The answers to a chunk's different texts, from the journal or the model."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for text in texts:
        digest.update(blake2b(text.encode("utf-8", "surrogatepass")).digest())
    frame: _Frame | None = journal.take(len(texts), digest.digest())
    if frame is None:
        frame = _Frame(len(texts), digest.digest(), columns.answer(different))
        journal.append(frame)
    return frame.answers
