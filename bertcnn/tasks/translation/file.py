"""`translate_csv`: adds a translation to every row of a file.

The output is streamed, in order, and written atomically, as in `score_csv`.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, Unpack

import keras

from bertcnn.data import prefetch
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
from bertcnn.tables import (
    ColumnChoice,
    TableReader,
    column_position,
    free_names,
    join_texts,
)
from bertcnn.tasks.translation.translator import Translator
from bertcnn.text import is_blank

_CHUNK_ROWS = 256
_FRAME = struct.Struct(f"<I{DIGEST_BYTES}s")  # rows, digest


@dataclass(frozen=True)
class TranslationReport:
    """The result of `translate_csv`.

    Attributes:
        column: name of the new column.
        blank: rows without a text, whose translation is empty.
        text_columns: the text columns, and the reason for them.
        repeated_headers: rejected rows that repeat the header.
        padded: rows whose last cells are missing in the input, and blank in the output.
    """

    rows: int
    rejected: int
    rejects: Path | None
    column: str
    blank: int
    text_columns: ColumnChoice = field(default_factory=lambda: ColumnChoice(()))
    repeated_headers: int = 0
    padded: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Header(RunHeader):
    """Everything the translations depend on, including the beam width."""

    beam: int


@dataclass(frozen=True)
class _Frame:
    """A chunk of rows with its translations as stored in the journal, without the texts."""

    rows: int
    digest: bytes
    translations: list[str]  # one for each distinct text

    def to_bytes(self) -> bytes:
        return _FRAME.pack(self.rows, self.digest) + json.dumps(self.translations).encode()

    @classmethod
    def from_bytes(cls, payload: bytes, header: Mapping[str, Any]) -> Self | None:
        """The inverse of `to_bytes`; None for other bytes."""
        if len(payload) < _FRAME.size or "beam" not in header:
            return None
        rows, digest = _FRAME.unpack_from(payload)
        translations = json.loads(payload[_FRAME.size :])
        return cls(rows, digest, translations) if len(translations) <= rows else None


def translate_csv(
    model: str | Path | Translator,
    source: str | Path,
    target: str | Path,
    *,
    beam: int = 4,
    options: FileOptions | None = None,
    **changes: Unpack[FileKeywords],
) -> TranslationReport:
    """Translate every row of a file, in constant memory; resumes an interrupted run.

    The output has the input's columns and rows, then `translation`, or `bertcnn_translation` if
    that name is taken. Several text columns are joined. A long text is truncated to the model's
    `source_tokens`. Rows that cannot be read go to `<target>.rejects.csv`.

    Args:
        model: a saved translator's folder or URL, or a loaded model.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write; its extension sets the format.
        beam: beam width; 1 for greedy search.
        options: all options; by default `FileOptions()`.
        changes: single options by name, such as `text="body"`: see `FileOptions`.

    Raises:
        SettingsError: `beam` is below 1.
        ColumnError: the text column is missing.
        TableError: the input or most of its rows cannot be read.
        OutputError: the output exists or cannot be written, or another run is writing it.
        BundleError: the model folder is not a translator.
        ScoringInterrupted: Ctrl-C, after the first translations.

    Example:
        translate_csv("models/italian", "inbox.csv", "out.csv", text="body")
    """
    options = replace(options or FileOptions(), **changes)
    run = FileRun(Path(source), Path(target), options)
    run.check()
    translator = model if isinstance(model, Translator) else Translator.load(model)
    translator.translate([], beam=beam)  # check the beam before any work
    with Journal(run.target, restart=options.restart, parse=_Frame.from_bytes) as journal:
        return resumed(journal, lambda: _run(translator, beam, run, journal), options.progress)


def _run(translator: Translator, beam: int, run: FileRun, journal: Journal) -> TranslationReport:
    progress, state = run.options.progress, InputState.of(run.source)
    with run.opened(journal) as (reader, choice):
        (column,) = free_names(["translation"], (*reader.columns, *reader.header))
        if column != "translation":
            progress.note(f"the input has a column 'translation': ours is called {column!r}")
        header = _Header(
            **vars(state),
            model=translator.identity,
            engine=keras.backend.backend(),
            software=version("bertcnn"),
            text_columns=choice.text,
            raw=run.options.raw,
            chunk_rows=_CHUNK_ROWS,
            target=run.target.resolve().name,
            beam=beam,
        )
        begin_journal(journal, header, progress)
        started, blank = time.perf_counter(), 0

        def rows() -> Iterator[list[tuple[str, ...]]]:
            nonlocal blank
            progress.stage("translating", reader.total_bytes, "bytes")
            done = read = 0
            for chunk, texts, position in prefetch(_chunks(reader, choice.text)):
                written = _translated(translator, beam, journal, texts)
                blank += sum(map(is_blank, texts))
                yield [(*row, written[text]) for row, text in zip(chunk, texts, strict=True)]
                done += len(chunk)
                speed = done / (time.perf_counter() - started)
                progress.advance(position - read, rows_per_second=speed)
                read = position

        run.write(reader, (*reader.header, column), rows(), journal, state)
    return TranslationReport(
        **run.counts(reader),
        column=column,
        blank=blank,
        text_columns=choice,
        seconds=time.perf_counter() - started,
    )


def _chunks(
    reader: TableReader, text_columns: Sequence[str]
) -> Generator[tuple[list[tuple[str, ...]], list[str], int], None, None]:
    columns = [column_position(name, reader.columns) for name in text_columns]
    for chunk in reader.chunks(_CHUNK_ROWS):
        texts = [join_texts(row[column] for column in columns) for row in chunk.rows]
        yield list(chunk.rows), texts, reader.position


def _translated(
    translator: Translator, beam: int, journal: Journal, texts: Sequence[str]
) -> dict[str, str]:
    """The translation of each text of a chunk, from the journal or the model."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for text in texts:
        digest.update(blake2b(text.encode("utf-8", "surrogatepass")).digest())
    different = list(dict.fromkeys(texts))
    frame: _Frame | None = journal.take(len(texts), digest.digest())
    if frame is None:
        written = [one.text for one in translator.translate(different, beam=beam)]
        frame = _Frame(len(texts), digest.digest(), written)
        journal.append(frame)
    return dict(zip(different, frame.translations, strict=True))
