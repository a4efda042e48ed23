"""Tickets and decisions from files."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bertcnn.errors import LabelError, TableError, one_line
from bertcnn.inference.predictor import Predictor, load
from bertcnn.progress import Progress, Silent
from bertcnn.review.decisions import NewDecision, Recorded, record
from bertcnn.review.labels import labels_in_use
from bertcnn.review.models import require_serving_model
from bertcnn.review.people import Person
from bertcnn.review.shadow import answer_in_shadow
from bertcnn.review.store import ReviewStore
from bertcnn.review.ticket_times import TicketTimes
from bertcnn.review.tickets import AUDITED, Added, NewTicket, add_tickets, find_ticket, text_hash
from bertcnn.tables.columns import ColumnChoice, guess_text_columns, join_texts
from bertcnn.tables.tables import Chunk, open_table, read_table, rejects_of
from bertcnn.tables.times import DateOrder
from bertcnn.wording import count

_AT_ONCE = 512  # rows
_NONE = "none"  # the cell of a ticket that belongs to no label


def serving_predictor(store: ReviewStore) -> Predictor:
    """The model that serves, loaded.

    Raises:
        StoreError: no model was added yet.
        BundleError: it is not where it was.
    """
    return load(require_serving_model(store).folder)


def add_file(  # noqa: PLR0913 - options that callers name
    store: ReviewStore,
    path: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    identity: str | None = None,
    source: str | None = None,
    dates: DateOrder | None = None,
    audited: float = AUDITED,
    predictor: Predictor | None = None,
    progress: Progress | None = None,
) -> Added:
    """Add a file's tickets with the serving model's answers, in constant memory.

    For two weeks after a promotion, the model that served before answers them too; see
    `answer_in_shadow`. Adding the same file again, for example after an interruption, adds what is
    missing.

    Args:
        store: an open store.
        path: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        text: the text column or columns; by default those of the model's training file.
        identity: the column of the tickets' ids; guessed by default. Without one, equal texts are
            numbered in the order of the file.
        source: where the tickets come from; by default the file's name.
        dates: order of day and month in times such as 01/02/2025; by default that of the column.
        audited: share of automatic answers drawn to be checked.
        predictor: the serving model, if it is loaded already.
        progress: progress callback.

    Raises:
        StoreError: no model serves, or the audit share is 0.
        TableError: the file cannot be read.
        ColumnError: it has no such columns.
    """
    progress, path = progress or Silent(), Path(path)
    predictor = predictor or serving_predictor(store)
    times, total = TicketTimes(dates), Added()
    for tickets in ticket_chunks(
        store,
        path,
        text=text,
        identity=identity,
        trained_on=predictor.bundle.config.text_columns,
        times=times,
        progress=progress,
    ):
        total += add_tickets(store, predictor, tickets, source=source or path.name, audited=audited)
        progress.advance(len(tickets))
    answer_in_shadow(store, progress=progress)
    return replace(total, unread_times=times.unread, unread_time=times.example)


def ticket_chunks(
    store: ReviewStore,
    path: Path,
    *,
    text: str | Sequence[str] | None = None,
    identity: str | None = None,
    trained_on: tuple[str, ...] = (),
    times: TicketTimes,
    progress: Progress,
) -> Iterator[list[NewTicket]]:
    """A file's tickets, some hundreds at a time; see `add_file`."""
    seen = Counter[str]()
    with open_table(path, rejects=rejects_of(path)) as reader:
        first = reader.peek()
        choice = guess_text_columns(first, text=text, trained_on=trained_on)
        reader.require(choice.text)
        chosen = identity or choice.id
        if chosen is not None:
            first.column(chosen)  # refuses an unknown name
        progress.note(f"text: {choice.reasons['text']}")
        progress.note(
            "ids: by the text and its order, since no column seems to hold an id"
            if chosen is None
            else f"ids: {choice.reasons.get('id', repr(chosen))}"
        )
        if choice.time is not None:
            with open_table(path) as whole:
                for chunk in whole.chunks(_AT_ONCE):
                    times.update(chunk.column(choice.time))
        progress.note(times.settle(choice.time))
        progress.stage("reading", 0, "tickets")
        for chunk in reader.chunks(_AT_ONCE):
            yield list(_tickets(store, chunk, choice, chosen, seen, times))
    if times.unread:
        progress.note(times.remark())


def label_file(
    store: ReviewStore,
    path: str | os.PathLike[str],
    person: Person,
    *,
    ticket: str = "ticket",
    label: str = "label",
) -> Recorded:
    """Record decisions that a file has, all of them or none.

    Args:
        store: an open store.
        path: with a column of ticket numbers or external ids, and one of labels; "none" or an empty
            cell is for tickets that belong to no label.
        person: whose decisions they are.
        ticket: name of the first column.
        label: name of the second.

    Raises:
        LabelError: a label is not in use.
        StoreError: a ticket is not in the store.
        TableError: the file cannot be read.
        ColumnError: it lacks one of the columns.
    """
    table = read_table(Path(path))
    used = labels_in_use(store)
    cells = table.column(label)
    unknown = Counter(
        cell for cell in cells if cell.strip() and cell != _NONE and not used.has(cell)
    )
    if unknown:
        (name, often), *others = unknown.most_common()
        raise LabelError(
            f"{count(unknown.total(), 'row')} of {path} with labels that are not in use, such as"
            f" {one_line(name)} ({often:,} times)"
            + (f" and {count(len(others), 'other')}" if others else ""),
            expected=f"one of {', '.join(used.names[:12])}" if used.names else "labels in use",
            fix="correct them, or add the labels: bertcnn review labels --add NAME",
        )
    decisions = []
    for cell, name in zip(table.column(ticket), cells, strict=True):
        none = not name.strip() or name == _NONE
        decisions.append(
            NewDecision(
                uuid.uuid4().hex,
                find_ticket(store, cell),
                "none" if none else "label",
                None if none else name,
            )
        )
    if not decisions:
        raise TableError(f"{path} has no rows", expected="decisions", fix="check the file")
    return record(store, person, decisions)


def _tickets(
    store: ReviewStore,
    chunk: Chunk,
    choice: ColumnChoice,
    identity: str | None,
    seen: Counter[str],
    times: TicketTimes,
) -> Iterator[NewTicket]:
    """The rows of a chunk."""
    columns = {name: chunk.column(name) for name in chunk.columns}
    others = [name for name in chunk.columns if name not in choice.text and name != identity]
    for row in range(len(chunk)):
        text = join_texts(columns[name][row] for name in choice.text)
        if identity is None:
            key = text_hash(store, text)
            external = f"{key}-{seen[key]}"
            seen[key] += 1
        else:
            external = columns[identity][row]
        yield NewTicket(
            external,
            text,
            {name: columns[name][row] for name in others},
            None if choice.time is None else times.seconds(columns[choice.time][row]),
        )
