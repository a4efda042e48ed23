"""`score_table`: scores the texts of a query into a table of the same database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Unpack

from bertcnn.bundle import local_folder
from bertcnn.data import prefetch
from bertcnn.errors import ColumnError, one_line
from bertcnn.inference import Predictor, loaded
from bertcnn.progress import Silent
from bertcnn.scoring.answering import Answering
from bertcnn.scoring.columns import OutputColumns
from bertcnn.scoring.journal import DIGEST_BYTES, InputState, Journal
from bertcnn.scoring.options import ScoringKeywords, ScoringOptions
from bertcnn.scoring.run import begin_journal, resumed
from bertcnn.scoring.score import (
    ScoringReport,
    Totals,
    journal_header,
    scored,
    trained_text_columns,
)
from bertcnn.storage import cache_folder, output_error
from bertcnn.tables import Chunk, ColumnChoice, column_position, guess_text_columns, join_texts
from bertcnn.tables.sql import Column, Database, Spool, TableName, Target, database_at
from bertcnn.wording import count

_SAMPLE_ROWS = 1000  # rows sampled to guess the text column


def score_table(
    model: str | Path | Predictor,
    address: str,
    options: ScoringOptions | None = None,
    *,
    query: str,
    into: str,
    id: str = "id",
    **changes: Unpack[ScoringKeywords],
) -> ScoringReport:
    """Classify every row of a query, in constant memory, and store the answers in a table.

    The table has the id column as its key, then the columns of `score_csv`, with null for empty
    cells; it is created if missing. All answers appear in one transaction. Rows with the same ids
    are replaced, others stay, so the call can be repeated.

    The query runs once, in a read-only transaction, and its rows are stored in a temporary file.
    The database is not used again until all texts are answered. Answers are cached until they are
    in the table: after a kill or Ctrl-C the same call runs the query again and resumes, if the
    texts and their order are the same.

    Args:
        model: a saved model's folder or URL, or a loaded one.
        address: `postgresql://USER@HOST/DATABASE`, as for libpq, or `sqlite:///FILE`.
        options: as for `score_csv`, without those of files and clusters.
        query: one SELECT that returns ids and texts.
        into: the table as an SQL name: `answers`, `triage.answers`, `"Answers"`.
        id: the query's column with a unique id.
        changes: single options by name.

    Raises:
        SettingsError: an option that only a file or a cluster has.
        DatabaseError: the address, query or table is invalid, or the database failed.
        ColumnError: the id column or the text columns are missing, or have no texts.
        OutputError: another run on this machine fills the table, or a disk is full.
        BundleError: the folder is not a model.
        MissingPackageError: the PostgreSQL driver is not installed.
        ScoringInterrupted: Ctrl-C, after some answers were saved.

    Example:
        score_table(
            "models/triage",
            "postgresql://triage@db.example.org/desk",
            query="select id, body from tickets where closed_at is null",
            into="answers",
        )
    """
    options = replace(options or ScoringOptions(), **changes)
    options.refuse("raw", "overwrite", "allow_rejects", "cluster", source="a database")
    job = _Job(database_at(address), query, TableName.of(into), id, options)
    if not isinstance(model, Predictor):
        model = local_folder(model, progress=options.progress)
    name = f"the table {job.into}"
    with Journal(job.journal_place(), restart=options.restart, name=name) as journal:
        return resumed(
            journal,
            lambda: _run(model, job, journal),
            options.progress,
            "the texts of the query have",
        )


@dataclass(frozen=True)
class _Job:
    """The arguments of `score_table`."""

    database: Database
    query: str
    into: TableName
    id: str
    options: ScoringOptions

    def journal_place(self) -> Path:
        """Path of the journal, one per table.

        Raises:
            OutputError: the cache is not writable.
        """
        folder = cache_folder() / "databases"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(folder, error) from None
        return folder / _digest(self.database.name, self.into.sql)

    def state(self) -> InputState:
        """The query as input state; its rows are compared text by text."""
        return InputState(0, 0, _digest(self.query, self.id))


@dataclass(frozen=True)
class _Columns:
    """The query's columns in use."""

    id: str
    id_type: str
    text: ColumnChoice

    @property
    def columns(self) -> tuple[str, ...]:
        """The query's columns that are copied to the table."""
        return (self.id,)

    header = columns


def _run(model: str | Path | Predictor, job: _Job, journal: Journal) -> ScoringReport:
    database, options, progress = job.database, job.options, job.options.progress
    query_columns = _columns_of(job, trained_text_columns(model))
    predictor = loaded(model, engine=options.engine, auto_precision=options.targets)
    columns = OutputColumns(
        query_columns, predictor, probabilities=options.probabilities, reasons=options.reasons
    )
    for column, written in columns.renamed.items():
        progress.note(f"the ids are in a column {column!r}: ours is called {written!r}")
    target = Target(
        job.into,
        query_columns.id,
        query_columns.id_type,
        {name: name in columns.numbers for name in columns.ours},
    )
    with Spool(columns.ours, database.key_type(target)) as spool:
        database.write(target, spool, Silent(), rehearse=True)
        started = time.perf_counter()
        _read(job, query_columns, spool)
        database.write(target, spool, Silent(), rehearse=True)  # now with the ids
        header = journal_header(
            job.state(), predictor, query_columns.text.text, options, job.into.sql
        )
        begin_journal(journal, header, progress)
        totals = _answer(predictor, columns, target, spool, journal, job)
        database.write(target, spool, progress)
        journal.remove()
        return ScoringReport(
            rows=spool.rows,
            blank=totals.blank,
            rejected=0,
            rejects=None,
            labels=totals.labels,
            decisions=totals.decisions,
            renamed=columns.renamed,
            text_columns=query_columns.text,
            label_separator=predictor.bundle.config.label_separator,
            seconds=time.perf_counter() - started,
        )


def _columns_of(job: _Job, trained_on: Sequence[str]) -> _Columns:
    """The columns of the query that are used.

    Raises:
        ColumnError: a column is missing, is ambiguous, or has no texts.
    """
    columns = job.database.columns(job.query)
    column_names = tuple(column.name for column in columns)
    key, key_type, _ = columns[column_position(job.id, column_names)]
    rows: list[tuple[str, ...]] = []
    names = column_names
    if job.options.text is None and not trained_on:
        _check_different(column_names, column_names)
        names = tuple(column.name for column in columns if column.is_text)
        sample = job.database.rows(job.query, None, names, most=_SAMPLE_ROWS)
        rows = [row for batch in sample for row in batch]
    choice = guess_text_columns(
        Chunk(names, rows, list(range(1, len(rows) + 1))),
        text=job.options.text,
        trained_on=trained_on,
    )
    _check_different((key, *choice.text), column_names)
    _check_texts(choice.text, columns)
    job.options.progress.note(f"text: {choice.reasons['text']}")
    return _Columns(key, key_type, choice)


def _check_different(selected: Sequence[str], column_names: Sequence[str]) -> None:
    repeated = [name for name in selected if column_names.count(name) > 1]
    if repeated:
        raise ColumnError(
            f"the query has {column_names.count(repeated[0])} columns {one_line(repeated[0], 40)}",
            expected="columns with different names",
            fix="give one another name with AS",
        )


def _check_texts(text_columns: Sequence[str], columns: Sequence[Column]) -> None:
    for name, kind, is_text in columns:
        if name in text_columns and not is_text:
            raise ColumnError(
                f"the column {one_line(name, 40)} of the query is of the type {kind}",
                expected="texts",
                fix="name a column of texts with --text, or take the text out of it in the query:"
                " convert_from(column, 'UTF8') of bytes, column ->> 'body' of JSON",
            )


def _read(job: _Job, query_columns: _Columns, spool: Spool) -> None:
    progress = job.options.progress
    progress.stage("reading the query", 0)
    for batch in prefetch(job.database.rows(job.query, query_columns.id, query_columns.text.text)):
        spool.add([(key, join_texts(cells)) for key, *cells in batch])
        progress.advance(len(batch))
    spool.check_ids(query_columns.id)
    progress.note(f"the query gives {count(spool.rows, 'row')}")


def _answer(
    predictor: Predictor,
    columns: OutputColumns,
    target: Target,
    spool: Spool,
    journal: Journal,
    job: _Job,
) -> Totals:
    totals = Totals(columns, predictor)
    # separator of labels, if a text may have several
    keeps_probabilities = job.options.probabilities or predictor.multi_label
    numbers = list(target.columns.values())
    for question, answers in scored(
        spool,
        Answering(predictor, journal, keeps_probabilities),
        spool.columns,
        job.options.progress,
    ):
        totals.add(answers, question.places)
        ours = [_values(cells, numbers) for cells in columns.cells(question.texts, answers)]
        spool.put([ours[index] for index in question.places])
    return totals


def _values(cells: Sequence[str], numbers: Sequence[bool]) -> tuple[Any, ...]:
    """Convert a file's cells to database values: null if empty."""
    return tuple(
        (float(cell) if number else cell) if cell else None
        for cell, number in zip(cells, numbers, strict=True)
    )


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=DIGEST_BYTES).hexdigest()
