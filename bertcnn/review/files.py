"""Tickets and decisions from files."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import select

from bertcnn.errors import LabelError, SettingsError, TableError, one_line
from bertcnn.inference import Predictor, load
from bertcnn.progress import Progress, Silent
from bertcnn.review.decisions import Kind, NewDecision, Recorded, record
from bertcnn.review.labels import labels_in_use
from bertcnn.review.models import require_serving_model
from bertcnn.review.people import Person
from bertcnn.review.schema import ticket
from bertcnn.review.shadow import answer_in_shadow
from bertcnn.review.states import DECIDED
from bertcnn.review.store import ReviewStore
from bertcnn.review.ticket_files import TicketFile
from bertcnn.review.tickets import (
    AUDITED,
    Added,
    NewTicket,
    add_tickets,
    find_numbered,
    find_ticket,
    source_name,
    storable,
    text_hash,
)
from bertcnn.review.uploads import add_upload
from bertcnn.tables import DateOrder, Table, column_position, find_name, latest_name, read_table
from bertcnn.text import clean_text
from bertcnn.wording import count


def serving_predictor(store: ReviewStore) -> Predictor:
    """Load the serving model; StoreError if there is none, BundleError if it is gone."""
    return load(require_serving_model(store).folder)


def add_file(  # noqa: PLR0913 - options that callers name
    store: ReviewStore,
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    identity: str | None = None,
    label: str | None = None,
    source: str = "",
    dates: DateOrder | None = None,
    audited: float = AUDITED,
    predictor: Predictor | None = None,
    person: Person | None = None,
    name: str | None = None,
    progress: Progress | None = None,
) -> Added:
    """Add a file's tickets with the serving model's answers, in constant memory.

    For two weeks after a promotion, the previous model answers them too; see `answer_in_shadow`.
    Adding the same file again, or another file of the same source, adds only missing tickets. Rows
    without an id or that cannot be read are listed in FILE.rejects.csv.

    Args:
        store: an open store.
        path: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        text: the text column or columns; by default those from the model's training file.
        identity: the column of the tickets' ids; guessed by default, see `TicketFile`.
        label: a column with labels that people gave, of new and known tickets. Each becomes a
            decision of `person`, unless people have decided the same; a blank cell gives none.
        source: name of the system of the ids; needed if several systems are used.
        dates: order of day and month in times such as 01/02/2025; by default from the column.
        audited: share of automatic answers drawn as audits.
        predictor: the serving model, if it is loaded already.
        person: adds the file; see `list_uploads`. Needed with `label`.
        name: of the file, by default the last part of its path.
        progress: progress callback.

    Raises:
        StoreError: no model serves, or the audit share is 0.
        TableError: the file cannot be read.
        ColumnError: it has no such columns.
        SettingsError: labels of nobody.
    """
    if label is not None and person is None:
        raise SettingsError(
            f"the labels in the column {one_line(label)}, of nobody",
            expected="a person whose decisions they become",
            fix="name a person as well",
        )
    progress = progress or Silent()
    predictor = predictor or serving_predictor(store)
    file = TicketFile(
        store,
        Path(path),
        text=text,
        identity=identity,
        dates=dates,
        trained_on=predictor.bundle.config.text_columns,
        progress=progress,
    )
    columns = file.columns()
    if label is not None:
        label = columns["columns"][column_position(label, columns["columns"])]
    progress.stage("reading", 0, "tickets")
    upload = add_upload(store, name or Path(path).name, person, **columns)
    total = Added()
    for tickets in file.chunks():
        total += add_tickets(
            store, predictor, tickets, source=source, audited=audited, upload=upload
        )
        if label is not None and person is not None:
            total += _record_labels(store, tickets, clean_text(label), source_name(source), person)
        progress.advance(len(tickets))
    answer_in_shadow(store, progress=progress)
    return total + Added(
        repeated=file.repeated,
        without_id=file.without_id,
        unreadable=file.unreadable,
        unread_times=file.times.unread,
        unread_time=file.times.example,
    )


def _record_labels(
    store: ReviewStore, tickets: Sequence[NewTicket], label: str, source: str, person: Person
) -> Added:
    """Record the labels of added tickets as decisions, where they differ from what stands."""
    given = {
        (one.external_id, text_hash(store, one.text)): one.columns.get(label, "").strip()
        for one in (storable(store, one) for one in tickets)
    }
    key = ticket.c.external_id, ticket.c.text_hash
    with store.reading() as connection:
        rows = connection.execute(
            select(ticket.c.id, ticket.c.state, ticket.c.label, *key).where(
                ticket.c.source == source, ticket.c.external_id.in_([name for name, _ in given])
            )
        ).all()
    used, new, unknown = labels_in_use(store), [], 0
    for row in rows:
        name = given.get((row.external_id, row.text_hash), "")
        stands = row.state in DECIDED and row.label == name
        if not name or stands or row.state == "erased":
            continue
        if used.has(name):
            new.append(NewDecision(uuid.uuid4().hex, row.id, "label", name))
        else:
            unknown += 1
    return Added(labelled=len(record(store, person, new).stored), unknown_labels=unknown)


def label_file(
    store: ReviewStore,
    path: str | os.PathLike[str],
    person: Person,
    *,
    ticket: str = "ticket",
    label: str = "label",
) -> Recorded:
    """Record all decisions of a file, such as one from `export_corrections`, or none on an error.

    The column `ticket` names tickets as for `find_ticket`; an empty `label` is for a ticket that
    belongs to no label. The columns number and source are used too if present, and must match the
    ticket.

    Raises:
        LabelError: a label is not in use.
        StoreError: a ticket is not in the store, or a row names two.
        TableError: the file cannot be read.
        ColumnError: it lacks one of the columns.
    """
    table = read_table(Path(path))
    used = labels_in_use(store)
    cells = table.column(latest_name(label, table.columns))
    unknown = Counter(cell for cell in cells if cell.strip() and not used.has(cell))
    if unknown:
        (name, often), *others = unknown.most_common()
        raise LabelError(
            f"{count(unknown.total(), 'row')} of {path} with labels that are not in use, such as"
            f" {one_line(name)} ({often:,} times)"
            + (f" and {count(len(others), 'other')}" if others else ""),
            expected=(f"one of {', '.join(used.names[:12])}" if used.names else "labels in use")
            + ", or an empty cell for none of them",
            fix="correct them, or add the labels: bertcnn review labels --add NAME",
        )
    decisions = []
    for identity, name in zip(_tickets(store, table, ticket), cells, strict=True):
        kind: Kind = "label" if name.strip() else "none"
        decisions.append(
            NewDecision(uuid.uuid4().hex, identity, kind, name if kind == "label" else None)
        )
    if not decisions:
        raise TableError(f"{path} has no rows", expected="decisions", fix="check the file")
    return record(store, person, decisions)


def _tickets(store: ReviewStore, table: Table, ticket: str) -> Iterator[int]:
    """The ticket of each row, by its id, and by number and source if given."""
    names = table.column(latest_name(ticket, table.columns))
    number, source = (
        find_name(latest_name(name, table.columns), table.columns) for name in ("number", "source")
    )
    sources = [None] * len(table) if source is None else table.column(source)
    numbers = [""] * len(table) if number is None else table.column(number)
    for name, number_cell, system in zip(names, numbers, sources, strict=True):
        if number_cell.strip():
            yield find_numbered(store, number_cell, name, system)
        else:
            yield find_ticket(store, name, source=system)
