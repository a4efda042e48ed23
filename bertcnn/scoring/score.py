"""`score_csv`: scores a file of texts into a copy with predictions.

Rows are streamed in order, the output is written atomically, and each distinct text is scored once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

import numpy as np

from bertcnn.bundle import Bundle, local_folder
from bertcnn.data import prefetch
from bertcnn.errors import SettingsError, explain_missing_packages
from bertcnn.inference import Answers, Predictor, loaded
from bertcnn.progress import Progress
from bertcnn.scoring.answering import Answering, Question
from bertcnn.scoring.columns import OutputColumns
from bertcnn.scoring.journal import InputState, Journal, JournalHeader
from bertcnn.scoring.options import ScoringKeywords, ScoringOptions
from bertcnn.scoring.run import FileRun, begin_journal, resumed
from bertcnn.settings import DECISIONS
from bertcnn.tables import Chunk, ColumnChoice, column_position, join_texts

if TYPE_CHECKING:
    from bertcnn.scoring.cluster import Cluster

_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class ScoringReport:
    """The result of `score_csv`.

    Attributes:
        rows: rows written, one for each row read.
        blank: of these, rows with a blank text, which get no label.
        padded: of these, rows with missing cells at the end, blank in the output.
        rejected: unreadable rows.
        repeated_headers: of these, repeated header lines.
        rejects: the file with unreadable rows, if any.
        labels: rows of each label.
        decisions: rows of each decision.
        renamed: our columns whose name was taken: standard name -> name written.
        text_columns: the text columns, and why they were chosen.
        label_separator: between labels if a text may have several; otherwise None.
        seconds: from the first row read to the finished output, without loading the model.
    """

    rows: int
    blank: int
    rejected: int
    rejects: Path | None
    labels: dict[str, int] = field(default_factory=dict)
    decisions: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    text_columns: ColumnChoice = field(default_factory=lambda: ColumnChoice(()))
    padded: int = 0
    label_separator: str | None = None
    seconds: float = 0.0
    repeated_headers: int = 0


def score_csv(
    model: str | Path | Predictor,
    source: str | Path,
    target: str | Path,
    options: ScoringOptions | None = None,
    **changes: Unpack[ScoringKeywords],
) -> ScoringReport:
    """Classify every row of a file, in constant memory; resumes an interrupted run.

    The output has the input's columns and rows in order, then `predicted_label`, `confidence`,
    `decision` (`auto`, or `review:...` for a person), `because` (the phrases that moved the answer
    most), optionally `reason` (why the decision was made), and optionally a `p_<label>` per label.
    Names that the input already uses get the prefix `bertcnn_`. Unreadable rows go to
    `<target>.rejects.csv`; if they are the majority, there is no output unless `allow_rejects` is
    True. A file with only a header gives an output with only a header.

    Answers are kept in the hidden file `.<target>.journal` until the output is complete. After a
    crash, a kill, a full disk or Ctrl-C the same call reads the input again, reuses these answers,
    computes the others, and writes the same file as an uninterrupted run. If input, model or
    options have changed, it starts over and reports why.

    Args:
        model: a saved model's folder or URL, or a loaded one.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the output file; the extension sets its format.
        options: all options; by default `ScoringOptions()`.
        changes: single options by name, such as `probabilities=True`: see `ScoringOptions`.

    Raises:
        ClusterError: there is no such cluster, or its nodes would give different answers.
        MissingPackageError: Ray is not installed.
        TableError: the input or most of its rows are unreadable, or it changed while it was scored.
        ColumnError: the named columns, or the model's, are missing.
        OutputError: the output exists, is not writable, cannot hold the rows, or is in use.
        BundleError: the folder is not a model.
        ScoringInterrupted: Ctrl-C, after some answers were saved.

    Example:
        score_csv("models/triage", "inbox.csv", "scored.csv", probabilities=True)
    """
    options = replace(options or ScoringOptions(), **changes)
    if not isinstance(source, str | PathLike):
        raise SettingsError(
            f"a {type(source).__name__} as the file to score",
            expected="a path",
            fix="use score_frame(model, frame) for a table in memory",
        )
    run = FileRun(Path(source), Path(target), options)
    run.check()
    if not isinstance(model, Predictor):
        model = local_folder(model, progress=options.progress)
    with Journal(run.target, restart=options.restart) as journal:
        return resumed(journal, lambda: _run(model, run, options, journal), options.progress)


def _run(
    model: str | Path | Predictor, run: FileRun, options: ScoringOptions, journal: Journal
) -> ScoringReport:
    progress, state = options.progress, InputState.of(run.source)
    with (
        ExitStack() as stack,
        run.opened(journal, trained_text_columns(model)) as (reader, choice),
    ):
        predictor, cluster = stack.enter_context(computing(model, options))
        columns = OutputColumns(
            reader, predictor, probabilities=options.probabilities, reasons=options.reasons
        )
        for column, written in columns.renamed.items():
            progress.note(f"the input has a column {column!r} already: ours is called {written!r}")
        target = run.target.resolve().name
        header = journal_header(state, predictor, choice.text, options, target)
        begin_journal(journal, header, progress)
        started = time.perf_counter()
        totals = Totals(columns, predictor)
        # separator of labels, if a text may have several
        keeps_probabilities = options.probabilities or predictor.multi_label
        answering = Answering(predictor, journal, keeps_probabilities, cluster)

        def rows() -> Iterator[list[tuple[str, ...]]]:
            for question, answers in scored(reader, answering, choice.text, progress):
                totals.add(answers, question.places)
                ours = columns.cells(question.texts, answers)
                pairs = zip(question.rows, question.places, strict=True)
                yield [row + ours[index] for row, index in pairs]

        run.write(reader, columns.all, rows(), journal, state)
    return ScoringReport(
        **run.counts(reader),
        blank=totals.blank,
        labels=totals.labels,
        decisions=totals.decisions,
        renamed=columns.renamed,
        text_columns=choice,
        label_separator=predictor.bundle.config.label_separator,
        seconds=time.perf_counter() - started,
    )


@contextmanager
def computing(
    model: str | Path | Predictor, options: ScoringOptions
) -> Iterator[tuple[Predictor, Cluster | None]]:
    """Provide a model within a block, in this process or on a cluster; an open one stays open.

    Raises:
        SettingsError: a loaded model with a cluster; otherwise as `score_csv`.
    """
    cluster, engine, targets = options.cluster, options.engine, options.targets
    if cluster is None:
        yield loaded(model, engine=engine, auto_precision=targets), None
        return
    if not isinstance(cluster, str):
        yield cluster.predictor, cluster
        return
    if isinstance(model, Predictor):
        raise SettingsError(
            "a loaded model for a cluster",
            expected="the folder or URL of a saved one, which the nodes load",
            fix="save the model and give its folder",
        )
    with explain_missing_packages():
        from bertcnn.scoring.cluster import Cluster
    with Cluster.of_folder(
        model, cluster, engine=engine, auto_precision=targets, progress=options.progress
    ) as opened:
        yield opened.predictor, opened


class Totals:
    """Counts rows by label and by decision."""

    def __init__(self, columns: OutputColumns, predictor: Predictor) -> None:
        self._columns, self._names = columns, predictor.hierarchy.answers
        self._labels = np.zeros(len(predictor.hierarchy.names) + 1, np.int64)  # first: no label
        self._decisions = np.zeros(len(DECISIONS), np.int64)

    def add(self, answers: Answers, places: list[int]) -> None:
        """Count rows; `places` are the indices of their texts in the answers."""
        self._labels += self._columns.counts(answers, places)
        self._decisions += np.bincount(answers.decisions[places], minlength=len(DECISIONS))

    @property
    def blank(self) -> int:
        """Rows without a label."""
        return int(self._labels[0])

    @property
    def labels(self) -> dict[str, int]:
        """Rows of each label that occurs, most frequent first."""
        by_name: Counter[str] = Counter()
        # a parent may also be a label
        for name, rows in zip(self._names, self._labels[1:].tolist(), strict=True):
            by_name[name] += rows
        return {label: rows for label, rows in by_name.most_common() if rows}

    @property
    def decisions(self) -> dict[str, int]:
        """Rows of each decision that occurs."""
        return {
            name: rows
            for name, rows in zip(DECISIONS, self._decisions.tolist(), strict=True)
            if rows
        }


def trained_text_columns(model: str | Path | Predictor) -> tuple[str, ...]:
    """The text columns that the model was trained on; empty if unknown."""
    from bertcnn.bundle import read_config

    return (
        model.bundle.config if isinstance(model, Predictor) else read_config(Path(model))
    ).text_columns


def journal_header(
    state: InputState,
    predictor: Predictor,
    text_columns: tuple[str, ...],
    options: ScoringOptions,
    target: str,
) -> JournalHeader:
    """Everything that a run's answers depend on.

    The loaded model counts, even if its folder has changed.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        software = version("bertcnn")
    except PackageNotFoundError:  # a source tree that was not installed
        software = "unknown"
    return JournalHeader(
        input_bytes=state.input_bytes,
        input_modified_ns=state.input_modified_ns,
        input_digest=state.input_digest,
        model=predictor.bundle.bundle_id or _digest_of(predictor.bundle),
        engine=predictor.engine.name,
        software=software,
        text_columns=text_columns,
        auto_precision=str(predictor.decisions.auto_precision),
        probabilities=options.probabilities or predictor.multi_label,
        reasons=options.reasons,
        raw=options.raw,
        labels=len(predictor.hierarchy.names),
        chunk_rows=_CHUNK_ROWS,
        target=target,
    )


def _digest_of(bundle: Bundle) -> str:
    """The id of a model that was never saved."""
    digest = blake2b(
        repr(
            (bundle.config, bundle.labels, bundle.vocabulary, bundle.calibration, bundle.decisions)
        ).encode(),
        digest_size=32,
    )
    for name, tensor in sorted({**bundle.tensors, **bundle.scope.tensors()}.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()


class TextRows(Protocol):
    """Rows with texts, such as an open table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names."""

    @property
    def total_bytes(self) -> int:
        """The size of the input."""

    @property
    def position(self) -> int:
        """The bytes read so far."""

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """The rows in chunks of at most `rows`."""


def scored(
    reader: TextRows, answering: Answering, text_columns: tuple[str, ...], progress: Progress
) -> Iterable[tuple[Question, Answers]]:
    """Each chunk's rows with the answers to their texts.

    While one chunk is written, the next one is in the engine, and the one after that is read and
    tokenized. Rows with stored answers are a separate progress stage, so that they distort neither
    rows/s nor the remaining time.
    """
    column_indices = [column_position(name, reader.columns) for name in text_columns]

    def questions() -> Generator[Question, None, None]:
        for chunk in reader.chunks(_CHUNK_ROWS):
            yield answering.question(
                chunk.rows,
                [join_texts(row[index] for index in column_indices) for row in chunk.rows],
                reader.position,
            )

    on_record = answering.rows_on_record
    if on_record:
        progress.stage("reading what is answered", 0)
    else:
        progress.stage("scoring", reader.total_bytes, "bytes")
    read, rows, started = 0, 0, time.perf_counter()
    for question, output in answering.computed(prefetch(questions())):
        yield question, answering.answer(question, output)
        rows += len(question.rows)
        if rows > on_record:
            progress.advance(
                question.position - read,
                rows_per_second=(rows - on_record) / (time.perf_counter() - started),
            )
            read = question.position
        elif rows == on_record:
            read, started = question.position, time.perf_counter()
            progress.stage("scoring", reader.total_bytes - read, "bytes")
