"""People's decisions as rows for training and for comparing models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Integer, Select, case, func, select
from sqlalchemy.orm import aliased

from bertcnn.review.rows import insert_new
from bertcnn.review.schema import decision, draw, settlement, test_row, ticket, upload
from bertcnn.review.states import DECIDED
from bertcnn.review.statistics import uniform_number
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import number_of
from bertcnn.tables import TableWriter, free_names

HELD_OUT = 0.2  # share of the groups of equal texts that are held out from training
_PAGE = 1000
_KEY = ("ticket", "number", "source")  # columns that identify a decision's ticket
_COLUMNS = (*_KEY, "file", "text", "label", "decided_by", "decided_at", "blind", "audit")


@dataclass(frozen=True)
class Correction:
    """A ticket with an undisputed decision.

    Attributes:
        ticket: number in the store.
        external_id: id in its source.
        file: name of the file that it came from; empty if a program added it.
        text_hash: equal for texts that differ only in case and spaces.
        label: the decision; "" for none of the labels.
        actor: the last person who decided.
        decided_at: seconds since 1970, UTC.
        blind: whether every decision was made without the model's answer.
        drawn: whether it was drawn as an audit.
        probability: of that draw; 1 for a ticket of a kind that is always reviewed.
    """

    ticket: int
    external_id: str
    source: str
    file: str
    columns: dict[str, str]
    text: str
    text_hash: str
    label: str
    actor: str
    decided_at: float
    blind: bool
    drawn: bool
    probability: float


def corrections(store: ReviewStore, *, held_out: bool | None = None) -> Iterator[Correction]:
    """Decided tickets in the order of their numbers, in constant memory.

    Disputed tickets that nobody has settled, erased and skipped ones are left out. `held_out`
    selects tickets that are or are not held out from training; see `hold_out_rows`.
    """
    statement = _decided(held_out)
    reached = 0
    while True:
        with store.reading() as connection:
            rows = connection.execute(statement.where(ticket.c.id > reached)).all()
        for row in rows:
            drawn = row.probability is not None
            yield Correction(
                row.id,
                row.external_id,
                row.source,
                row.file or "",
                dict(row.columns),
                row.text,
                row.text_hash,
                row.label or "",
                row.actor,
                row.decided_at,
                bool(row.blind),
                drawn,
                float(row.probability) if drawn else 1.0,
            )
        if len(rows) < _PAGE:
            return
        reached = rows[-1].id


def _decided(held_out: bool | None) -> Select[Any]:
    """The first page of decided tickets, each with who decided last and how it was drawn."""
    made = (
        select(
            decision.c.ticket,
            func.max(decision.c.event).label("last"),
            func.min(decision.c.blind.cast(Integer)).label("blind"),
        )
        .where(decision.c.kind != "skip")
        .group_by(decision.c.ticket)
        .subquery()
    )
    last = aliased(decision)
    lottery = (
        select(draw.c.ticket, func.min(draw.c.probability).label("probability"))
        .where(draw.c.drawn)
        .group_by(draw.c.ticket)
        .subquery()
    )
    settled = settlement.c.ticket.is_not(None)
    statement = (
        select(
            ticket,
            func.coalesce(settlement.c.actor, last.c.actor).label("actor"),
            func.coalesce(settlement.c.settled_at, last.c.decided_at).label("decided_at"),
            case((settled, 0), else_=made.c.blind).label("blind"),
            lottery.c.probability,
            upload.c.name.label("file"),
        )
        .outerjoin(made, made.c.ticket == ticket.c.id)
        .outerjoin(last, (last.c.ticket == ticket.c.id) & (last.c.event == made.c.last))
        .outerjoin(settlement, settlement.c.ticket == ticket.c.id)
        .outerjoin(upload, upload.c.id == ticket.c.upload)
        .outerjoin(lottery, lottery.c.ticket == ticket.c.id)
        .outerjoin(test_row, test_row.c.text_hash == ticket.c.text_hash)
        .where(ticket.c.state.in_(DECIDED), ticket.c.erased_at.is_(None))
        .order_by(ticket.c.id)
        .limit(_PAGE)
    )
    if held_out is not None:
        condition = (
            test_row.c.text_hash.is_not(None) if held_out else test_row.c.text_hash.is_(None)
        )
        statement = statement.where(condition)
    return statement


def hold_out_rows(store: ReviewStore) -> int:
    """Hold out a fifth of the decided texts and all audits from every training.

    A keyed hash of the text chooses the fifth, so equal texts stay together and the choice is
    permanent. Returns the number of held-out texts.
    """
    moment, fresh = now(), []
    for one in corrections(store, held_out=False):
        if one.drawn or uniform_number(store.secret, f"test/{one.text_hash}") < HELD_OUT:
            fresh.append({"text_hash": one.text_hash, "label": one.label, "added_at": moment})
    with store.writing() as connection:
        for first in range(0, len(fresh), _PAGE):
            connection.execute(insert_new(connection, test_row), fresh[first : first + _PAGE])
        return int(connection.scalar(select(func.count()).select_from(test_row)) or 0)


def held_out_hashes(store: ReviewStore) -> frozenset[str]:
    """Hashes of the held-out texts."""
    with store.reading() as connection:
        return frozenset(connection.scalars(select(test_row.c.text_hash)))


def export_corrections(
    store: ReviewStore,
    target: str | os.PathLike[str],
    *,
    raw: bool = False,
    overwrite: bool = False,
) -> int:
    """Write all decided tickets to a file for `label_file`; returns their number.

    Each has its own id, its number in the store, the name of its file, and its original columns. If
    a column's name is already taken, ours gets the prefix `bertcnn_`. The extension selects the
    format, as in `score_csv`. With `raw`, cells that a spreadsheet would run as a formula are not
    escaped.

    Raises:
        OutputError: the file exists, unless `overwrite` is set, or cannot be written.
    """
    names = [*dict.fromkeys(name for one in corrections(store) for name in one.columns)]
    header = (*free_names(_COLUMNS, names), *names)
    with TableWriter(Path(target), header, raw=raw, overwrite=overwrite) as writer:
        for one in corrections(store):
            moment = datetime.fromtimestamp(one.decided_at, UTC).isoformat(timespec="seconds")
            flags = ["yes" if flag else "no" for flag in (one.blind, one.drawn)]
            key = [one.external_id, number_of(one.ticket), one.source]
            ours = [*key, one.file, one.text, one.label, one.actor, moment, *flags]
            writer.write([ours + [one.columns.get(name, "") for name in names]])
        return writer.rows_written
