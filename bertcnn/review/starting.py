"""Starts a review without labels or a model: clusters tickets into groups, candidate labels."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import func, select, update

from bertcnn.doctor import unit_embeddings
from bertcnn.encoders import fetch_encoder
from bertcnn.errors import StoreError, one_line
from bertcnn.progress import Progress, Silent
from bertcnn.review.labels import merge_labels, replace_labels
from bertcnn.review.models import NO_MODEL, serving_model
from bertcnn.review.people import Person
from bertcnn.review.rows import insert_new
from bertcnn.review.schema import model, prediction, queue, ticket
from bertcnn.review.states import refresh
from bertcnn.review.statistics import Topic, cold_start_order, suggest_labels, uniform_number
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.ticket_files import TicketFile
from bertcnn.review.tickets import (
    Answer,
    NewTicket,
    insert_tickets,
    near_duplicates,
    source_name,
    storable,
)
from bertcnn.review.uploads import add_upload
from bertcnn.settings import DECISIONS
from bertcnn.tables import DateOrder
from bertcnn.wording import count

FIRST_OF_GROUP = 10  # tickets that come first
MOST_TICKETS = 20_000  # limit for keeping embeddings and texts in memory
_FEWEST_TICKETS = 20
_EXAMPLES = 3
_EARLY, _LATE = 1, 2  # places in the queue
_REASON = "there is no model yet; this is the label of similar tickets"


@dataclass(frozen=True)
class TicketGroup:
    """Tickets about the same topic; `name` is the label, or else typical words."""

    name: str
    tickets: int
    examples: tuple[str, ...]


def start_review(  # noqa: PLR0913 - options that callers name
    store: ReviewStore,
    path: str | os.PathLike[str],
    person: Person,
    *,
    text: str | Sequence[str] | None = None,
    identity: str | None = None,
    dates: DateOrder | None = None,
    source: str = "",
    encoder: str | Path = "minilm-l6",
    name: str | None = None,
    progress: Progress | None = None,
) -> list[TicketGroup]:
    """Add a file of tickets in groups to a store without a model; see `ticket_groups`.

    All tickets wait for people, first the ten most typical ones of each group, alternating between
    groups. Files with more than 20,000 tickets are sampled at random. An interrupted call adds
    nothing. The mean token embeddings of `encoder`, a published one or a folder, are clustered. The
    other options are those of `add_file`.

    Raises:
        RoleError: the person is not an admin.
        StoreError: a model serves already, tickets were added already, or there are too few.
        TableError: the file cannot be read.
        ColumnError: it has no such columns.
        EncoderError: the encoder is unavailable.
    """
    person.needs("admin", "start a review")
    progress, path = progress or Silent(), Path(path)
    _check_empty(store)
    file = TicketFile(store, path, text=text, identity=identity, dates=dates, progress=progress)
    tickets, seen = _sample(store, file, progress)
    for remark in file.remarks():
        progress.note(remark)
    if seen > len(tickets):
        progress.note(f"{len(tickets):,} of {count(seen, 'ticket')}, chosen at random")
    if len(tickets) < _FEWEST_TICKETS:
        raise StoreError(
            f"{count(len(tickets), 'ticket')} in {path}",
            expected=f"at least {_FEWEST_TICKETS}, to find out what they are about",
            fix="give a file with more tickets",
        )
    texts = [one.text for one in tickets]
    embeddings = unit_embeddings(fetch_encoder(encoder, progress=progress), texts, progress)
    progress.stage("grouping", len(tickets), "tickets")
    topics = suggest_labels(embeddings, texts)
    progress.advance(len(tickets))
    upload = add_upload(store, name or path.name, person, **file.columns())
    _insert(store, tickets, embeddings, topics, source_name(source), upload)
    return ticket_groups(store)


def ticket_groups(store: ReviewStore) -> list[TicketGroup]:
    """The groups of `start_review`, the largest first; empty for other stores."""
    no_model = prediction.c.model == NO_MODEL
    with store.reading() as connection:
        sizes = connection.execute(
            select(prediction.c.label, func.count().label("number"))
            .where(no_model, prediction.c.label.is_not(None))
            .group_by(prediction.c.label)
            .order_by(func.count().desc(), prediction.c.label)
        ).all()
        return [
            TicketGroup(
                row.label,
                row.number,
                tuple(
                    connection.scalars(
                        select(ticket.c.text)
                        .join(prediction, prediction.c.ticket == ticket.c.id)
                        .where(
                            no_model, prediction.c.label == row.label, ticket.c.erased_at.is_(None)
                        )
                        .order_by(ticket.c.id)
                        .limit(_EXAMPLES)
                    )
                ),
            )
            for row in sizes
        ]


def name_groups(store: ReviewStore, person: Person, names: Mapping[str, str]) -> None:
    """Give groups of `start_review` their labels, by group name.

    The same label merges groups; "" means no suggestion.

    Raises:
        RoleError: the person is not an admin.
        StoreError: there is no such group, or a label is too long.
    """
    person.needs("admin", "name groups of tickets")
    group_names = {one.name for one in ticket_groups(store)}
    for name in names:
        if name not in group_names:
            raise StoreError(
                f"no group {one_line(name)}",
                expected=f"one of {', '.join(sorted(group_names)) or 'no groups'}",
                fix="see `bertcnn review groups`",
            )
    labels = {name: label.strip() for name, label in names.items()}
    with store.writing() as connection:
        replace_labels(connection, labels)
        for table in (prediction, queue):
            rows = connection.execute(
                select(table.c.ticket, table.c.label).where(
                    table.c.model == NO_MODEL, table.c.label.in_(labels)
                )
            ).all()
            # all at once: a group may get another group's old name
            by_label: dict[str, list[int]] = {}
            for row in rows:
                by_label.setdefault(labels[row.label], []).append(row.ticket)
            for label, numbers in by_label.items():
                connection.execute(
                    update(table)
                    .where(table.c.model == NO_MODEL, table.c.ticket.in_(numbers))
                    .values(label=label or None)
                )
                refresh(connection, numbers)


def _check_empty(store: ReviewStore) -> None:
    with store.reading() as connection:
        tickets = connection.scalar(select(func.count()).select_from(ticket))
    if serving_model(store) is not None or tickets:
        raise StoreError(
            f"{store.name} has a model or tickets already",
            expected="a new store",
            fix="add tickets with `bertcnn review add`, or start in another store",
        )


def _sample(
    store: ReviewStore, file: TicketFile, progress: Progress
) -> tuple[list[NewTicket], int]:
    """The file's tickets, at most 20,000 chosen by a keyed hash; and their total."""
    seen = blank = 0

    def with_a_text() -> Iterator[NewTicket]:
        nonlocal seen, blank
        for tickets in file.chunks():
            kept = [one for one in tickets if one.text.strip()]
            seen, blank = seen + len(kept), blank + len(tickets) - len(kept)
            progress.advance(len(tickets))
            yield from kept

    progress.stage("reading", 0, "tickets")
    chosen = heapq.nsmallest(
        MOST_TICKETS, with_a_text(), key=lambda one: store.hashed(f"start/{one.external_id}")
    )
    if blank:
        progress.note(f"{count(blank, 'ticket')} without a text left out")
    return [storable(store, one) for one in chosen], seen


def _insert(
    store: ReviewStore,
    tickets: Sequence[NewTicket],
    embeddings: np.ndarray,
    topics: Sequence[Topic],
    source: str,
    upload: int,
) -> None:
    """Insert all tickets in one transaction, the most typical of each group first."""
    groups = np.full(len(tickets), -1)
    for number, topic in enumerate(topics):
        groups[list(topic.rows)] = number
    early = cold_start_order(embeddings, groups, per_group=FIRST_OF_GROUP)
    turns = {int(row): turn / len(early) for turn, row in enumerate(early)}
    order = [row for topic in topics for row in topic.rows]
    vectors, moment = embeddings.astype(np.float16), now()
    answers = [
        Answer(
            topics[groups[row]].name, None, DECISIONS[1], [], [], _REASON, vectors[row].tobytes()
        )
        for row in order
    ]
    with store.writing() as connection:
        connection.execute(insert_new(connection, model), _stand_in(moment))
        merge_labels(connection, [topic.name for topic in topics])
        numbers = insert_tickets(
            store, connection, [tickets[row] for row in order], source, answers, upload
        )
        predictions, waiting = [], []
        for row, identity, answer in zip(order, numbers, answers, strict=True):
            of_ticket = {"ticket": identity, "model": NO_MODEL, "label": answer.label}
            predictions.append({**answer.stored(), **of_ticket, "predicted_at": moment})
            waiting.append(
                {
                    **of_ticket,
                    "audit": False,
                    "place": _EARLY if row in turns else _LATE,
                    "certainty": turns.get(
                        row, uniform_number(store.secret, tickets[row].external_id)
                    ),
                    "similar": near_duplicates(store, tickets[row].text),
                    "blind": False,
                }
            )
        connection.execute(insert_new(connection, prediction), predictions)
        connection.execute(insert_new(connection, queue), waiting)


def _stand_in(moment: float) -> dict[str, Any]:
    return {
        "id": NO_MODEL,
        "folder": "",
        "labels": [],
        "separator": None,
        "precision": 1.0,
        "added_at": moment,
    }
