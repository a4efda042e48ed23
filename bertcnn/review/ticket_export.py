"""The tickets of a view as a file, or a file as it was uploaded, with answers and decisions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select

from bertcnn.inference import because
from bertcnn.review.schema import decision, prediction, settlement, ticket, upload
from bertcnn.review.states import DECIDED
from bertcnn.review.store import ReviewStore
from bertcnn.review.ticket_list import TicketView, selected_numbers
from bertcnn.review.tickets import number_of
from bertcnn.review.uploads import Upload, find_upload
from bertcnn.tables import TableWriter, free_names

_PAGE = 500  # tickets, fewer than the variables of a statement
_KEY = ("ticket", "number", "source", "file", "text")
_ANSWER = ("predicted_label", "confidence", "decision", "because")  # as in a scored file
_PEOPLE = ("state", "label", "decided_by", "decided_at", "assigned_to")


def export_tickets(
    store: ReviewStore,
    target: str | os.PathLike[str],
    view: TicketView | None = None,
    *,
    raw: bool = False,
    overwrite: bool = False,
) -> int:
    """Write the tickets of a view, by default all, to a file; returns their number.

    A view of one upload gives the file back: its columns in their order, then the model's answers
    and people's decisions. Other views have the own id, the number in the store, the source, the
    file and the text first, and all other columns last. `label` is empty while nobody has decided,
    or for none of the labels. If a column's name is taken, ours gets the prefix `bertcnn_`. The
    extension selects the format. With `raw`, cells that a spreadsheet would run as a formula are
    not escaped.

    Raises:
        StoreError: there is no such upload.
        OutputError: the file exists, unless `overwrite` is set, or cannot be written.
    """
    view = view or TicketView()
    numbers = selected_numbers(store, view)
    with store.reading() as connection:
        file = None if view.upload is None else find_upload(connection, view.upload)
    given = file.columns if file else _column_names(store, numbers)
    key = () if file else _KEY
    ours = free_names((*key, *_ANSWER, *_PEOPLE), given)
    header = (*given, *ours) if file else (*ours, *given)
    with TableWriter(Path(target), header, raw=raw, overwrite=overwrite) as writer:
        if file:
            writer.write(
                [*(_cell(row, name, file) for name in given), *added]
                for row, added in _rows(store, numbers)
            )
        else:
            writer.write(
                [
                    *(row.external_id, number_of(row.id), row.source, row.file or "", row.text),
                    *added,
                    *(row.columns.get(name, "") for name in given),
                ]
                for row, added in _rows(store, numbers)
            )
        return writer.rows_written


def _cell(row: Row[Any], name: str, file: Upload) -> str:
    """The cell of a ticket in a column of its file."""
    if name in row.columns:
        return str(row.columns[name])
    if name == file.id_column:
        return str(row.external_id)
    return str(row.text) if name in file.text_columns else ""


def _column_names(store: ReviewStore, numbers: Sequence[int]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for first in range(0, len(numbers), _PAGE):
        with store.reading() as connection:
            some = ticket.c.id.in_(numbers[first : first + _PAGE])
            for columns in connection.scalars(select(ticket.c.columns).where(some)):
                names.update(dict.fromkeys(columns))
    return tuple(names)


def _rows(store: ReviewStore, numbers: Sequence[int]) -> Iterator[tuple[Row[Any], list[str]]]:
    """The tickets with the names of their files, and the cells of `_ANSWER` and `_PEOPLE`."""
    for first in range(0, len(numbers), _PAGE):
        page = numbers[first : first + _PAGE]
        with store.reading() as connection:
            answers, people = _answers(connection, page), _decided(connection, page)
            rows = connection.execute(
                select(ticket, upload.c.name.label("file"))
                .outerjoin(upload, upload.c.id == ticket.c.upload)
                .where(ticket.c.id.in_(page))
                .order_by(ticket.c.id)
            ).all()
        for row in rows:
            label = row.label or "" if row.state in DECIDED else ""
            by, moment = people.get(row.id, ("", ""))
            decided = [row.state, label, by, moment, row.assigned_to or ""]
            yield row, [*_answer(answers.get(row.id), row.text), *decided]


def _answer(row: Row[Any] | None, text: str) -> list[str]:
    if row is None:
        return [""] * len(_ANSWER)
    confidence = "" if row.confidence is None else f"{row.confidence:.6f}"
    return [row.label or "", confidence, row.decision, because(text, row.because)]


def _answers(connection: Connection, page: Sequence[int]) -> dict[int, Row[Any]]:
    """The last answer to each ticket."""
    rows = connection.execute(
        select(prediction)
        .where(prediction.c.ticket.in_(page), prediction.c.predicted_at > 0)
        .order_by(prediction.c.predicted_at)
    )
    return {row.ticket: row for row in rows}


def _decided(connection: Connection, page: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Who decided each ticket last, and when; a settlement is the last word."""
    decisions = connection.execute(
        select(decision.c.ticket, decision.c.actor, decision.c.decided_at)
        .where(decision.c.ticket.in_(page), decision.c.kind != "skip")
        .order_by(decision.c.event)
    ).all()
    settlements = connection.execute(
        select(settlement.c.ticket, settlement.c.actor, settlement.c.settled_at).where(
            settlement.c.ticket.in_(page)
        )
    ).all()
    return {
        number: (actor, datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds"))
        for number, actor, moment in (*decisions, *settlements)
    }
