"""Tickets: added with the model's answers, queued for review, and erased."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Row, delete, func, or_, select, update

from bertcnn.errors import StoreError, one_line
from bertcnn.inference import Predictor
from bertcnn.progress import Progress, Silent
from bertcnn.review.column_filters import forget_values, keep_values
from bertcnn.review.people import Person
from bertcnn.review.rows import insert_new, upsert
from bertcnn.review.schema import (
    arrived_at,
    draw,
    lease,
    mention,
    model,
    note,
    prediction,
    queue,
    ticket,
)
from bertcnn.review.search import forget_words, note_forgetting
from bertcnn.review.states import refresh
from bertcnn.review.statistics import is_audited, review_order, uniform_number
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.uploads import note_upload
from bertcnn.settings import DECISIONS
from bertcnn.text import clean_text

AUDITED = 0.03  # share of automatic answers
BESIDE = 0.0  # the time of an answer that only serves to compare models
_UNAIDED = 0.1  # share of reviewed tickets shown without a suggestion
_SURE = (0.95, 0.99)  # confidence bounds of the audit strata
_PROBABLE = 5  # labels kept of each answer,
_CHOICES = 20  # and of one that a person reviews, who chooses among them
_HOUR = 3600.0
_LONGEST = 200  # characters of an id or a source
_RUN = 512  # tickets per model call
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"#[0-9]{1,18}")  # of a ticket in the store
_MOST_SLASHES, _MOST_NAMED = 20, 10


@dataclass(frozen=True)
class NewTicket:
    """An incoming ticket.

    Attributes:
        external_id: id in its source. The same id and text are added once; the same id with another
            text is a new version, and both stay.
        columns: further data by column name.
        received_at: seconds since 1970, UTC; None if unknown.
    """

    external_id: str
    text: str
    columns: Mapping[str, str] = field(default_factory=dict)
    received_at: float | None = None


@dataclass(frozen=True)
class Added:
    """The result of `add_tickets`; each ticket counts once in the first four.

    Attributes:
        added: new tickets.
        known: tickets already in the store.
        repeated: tickets skipped because an earlier one in the call has their id and text.
        without_id: tickets skipped because of a blank id.
        changed: new tickets whose id is known with another text.
        for_people: new tickets that wait for a person.
        audits: automatic answers among them, drawn as audits.
        unread_times: cells with times that were not understood.
        unread_time: the first of them.
        unreadable: rows of the file that could not be read.
        labelled: labels of the file that were recorded as decisions.
        unknown_labels: labels of the file that are not in use, and were left out.
    """

    added: int = 0
    known: int = 0
    repeated: int = 0
    without_id: int = 0
    changed: int = 0
    for_people: int = 0
    audits: int = 0
    unread_times: int = 0
    unread_time: str = ""
    unreadable: int = 0
    labelled: int = 0
    unknown_labels: int = 0

    def __add__(self, other: Added) -> Added:
        left, right = asdict(self), asdict(other)
        return Added(**{name: number + right[name] for name, number in left.items()})


def add_tickets(
    store: ReviewStore,
    predictor: Predictor,
    tickets: Sequence[NewTicket],
    *,
    source: str = "",
    audited: float = AUDITED,
    upload: int | None = None,
) -> Added:
    """Add tickets with the model's answers, and queue those that need review.

    An automatic answer is drawn as an audit with probability `audited` (above 0, at most 1), by a
    keyed hash of the ticket, so nobody can predict or repeat the draw. Known tickets stay
    unchanged. `source` names the system of the ids, if several systems are used; `upload` is the
    number of the file that they come from.

    Raises:
        StoreError: the share is 0, or the model was not added.
    """
    if not 0 < audited <= 1:
        raise StoreError(
            f"an audit share of {audited:g}",
            expected="above 0 and at most 1; without audits nobody knows how right the model is",
            fix=f"give for example {AUDITED:g}",
        )
    source, identity = source_name(source), predictor.bundle.bundle_id
    kept = [one for one in (storable(store, one) for one in tickets) if one.external_id]
    distinct: dict[tuple[str, str], NewTicket] = {}
    for one in kept:
        distinct.setdefault((one.external_id, text_hash(store, one.text)), one)
    with store.reading() as connection:
        if connection.scalar(select(model.c.id).where(model.c.id == identity)) is None:
            raise StoreError(
                f"the model {identity[:12]} is not in the store {store.name}",
                expected="a model added before its answers",
                fix="add it with `bertcnn models add`",
            )
        rows = connection.execute(
            select(ticket.c.id, ticket.c.external_id, ticket.c.text_hash, arrived_at).where(
                ticket.c.source == source,
                ticket.c.external_id.in_([one.external_id for one in kept]),
            )
        )
        stored = {(row.external_id, row.text_hash): row for row in rows}
    if upload is not None and stored:
        seen = [stored[key] for key in distinct if key in stored]
        with store.writing() as connection:
            note_upload(connection, upload, [(row.id, row.arrived_at) for row in seen])
    fresh = [one for key, one in distinct.items() if key not in stored]
    total = Added(
        known=len(distinct) - len(fresh),
        repeated=len(kept) - len(distinct),
        without_id=len(tickets) - len(kept),
    )
    for first in range(0, len(fresh), _RUN):
        part = fresh[first : first + _RUN]
        answers = _answers(predictor, [one.text for one in part])
        with store.writing() as connection:
            numbers = insert_tickets(store, connection, part, source, answers, upload)
            total += _keep_new(store, connection, part, numbers, answers, identity, audited)
    return total


def answer_beside(store: ReviewStore, predictor: Predictor, tickets: Sequence[int]) -> None:
    """Add a model's shadow answers: time `BESIDE`, hidden, without audits, queue or embeddings."""
    identity = predictor.bundle.bundle_id
    for first in range(0, len(tickets), _RUN):
        with store.reading() as connection:
            rows = connection.execute(
                select(ticket.c.id, ticket.c.text)
                .where(ticket.c.id.in_(tickets[first : first + _RUN]), ticket.c.erased_at.is_(None))
                .order_by(ticket.c.id)
            ).all()
        if not rows:
            continue
        answers = _answers(predictor, [row.text for row in rows])
        common = {"model": identity, "predicted_at": BESIDE, "because": [], "embedding": None}
        with store.writing() as connection:
            connection.execute(
                insert_new(connection, prediction),
                [
                    {"ticket": row.id, **answer.stored(), **common}
                    for row, answer in zip(rows, answers, strict=True)
                ],
            )


def answer_waiting(
    store: ReviewStore,
    predictor: Predictor,
    *,
    audited: float = AUDITED,
    progress: Progress | None = None,
) -> Added:
    """Answer waiting tickets that have another model's answer, as if they were new.

    Audits stay unchanged, because they are about the other model. Tickets that the model, usually
    the serving one, answers automatically leave the queue.

    Returns:
        The number of answered (`added`) and still waiting tickets.
    """
    progress, identity = progress or Silent(), predictor.bundle.bundle_id
    outdated = (queue.c.model != identity) & ~queue.c.audit
    with store.reading() as connection:
        number = connection.scalar(select(func.count()).select_from(queue).where(outdated))
    progress.stage("answering", int(number or 0), "tickets")
    total, last = Added(), 0
    while True:
        with store.reading() as connection:
            rows = connection.execute(
                select(ticket.c.id, ticket.c.text, arrived_at.label("arrived_at"))
                .join(queue, queue.c.ticket == ticket.c.id)
                .where(outdated, ticket.c.id > last)
                .order_by(ticket.c.id)
                .limit(_RUN)
            ).all()
        if not rows:
            return total
        last = rows[-1].id
        answers = _answers(predictor, [row.text for row in rows])
        with store.writing() as connection:
            taken = delete(queue).where(outdated, queue.c.ticket.in_([row.id for row in rows]))
            waited = set(connection.scalars(taken.returning(queue.c.ticket)))
            again = [
                (row.id, row.text, row.arrived_at, answer)
                for row, answer in zip(rows, answers, strict=True)
                if row.id in waited  # else it was decided meanwhile
            ]
            waiting, audits = _keep_answers(store, connection, again, identity, audited)
            refresh(connection, [row.id for row in rows])
        total += Added(len(again), for_people=waiting, audits=audits)
        progress.advance(len(rows))


def erase_ticket(store: ReviewStore, identity: int, person: Person) -> None:
    """Erase a ticket's text, columns and notes permanently, also from the search; decisions stay.

    Copies of the file, such as those made before an upgrade, are not touched.

    Raises:
        RoleError: the person is not an admin.
        StoreError: there is no such ticket.
    """
    person.needs("admin", "erase a ticket")
    with store.writing() as connection:
        row = row_of(connection, identity)
        forget_values(connection, identity, row.arrived_at, row.columns)
        here = ticket.c.id == identity
        connection.execute(update(ticket).where(here).values(text="", columns={}, erased_at=now()))
        for table in (queue, lease, mention, note):
            connection.execute(delete(table).where(table.c.ticket == identity))
        connection.execute(
            update(prediction)
            .where(prediction.c.ticket == identity)
            .values(embedding=None, because=[])
        )
        refresh(connection, [identity])
        note_forgetting(connection)
    forget_words(store.writing)


def no_ticket(identity: int) -> StoreError:
    """The error for an unknown ticket."""
    return StoreError(
        f"no ticket {number_of(identity)}",
        expected="the number of a ticket in the store",
        fix="check it",
    )


def enqueue(
    store: ReviewStore, connection: Connection, identity: int, *, back: bool = False
) -> None:
    """Put a ticket into the queue unless it is there, as if it were new.

    Automatic answers that are no audits stay out, and leave it, unless somebody brings them `back`.
    """
    row = connection.execute(
        select(
            ticket.c.text,
            arrived_at,
            ticket.c.erased_at,
            prediction.c.label,
            prediction.c.decision,
            prediction.c.probable,
            prediction.c.model,
        )
        .join(prediction, prediction.c.ticket == ticket.c.id)
        .where(ticket.c.id == identity, prediction.c.predicted_at > BESIDE)
        .order_by(prediction.c.predicted_at.desc())
        .limit(1)
    ).first()
    if row is None or row.erased_at is not None:
        return
    *shown, model_id = row
    drawn = select(draw.c.drawn).where(draw.c.ticket == identity, draw.c.model == model_id)
    automatic = row.decision == DECISIONS[0] and not connection.scalar(drawn)
    if automatic and not back:
        connection.execute(delete(queue).where(queue.c.ticket == identity))
        return
    waiting = _waiting(store, identity, model_id, _Waiting(*shown))
    if automatic:
        waiting |= {"audit": False, "blind": False}
    connection.execute(insert_new(connection, queue), waiting)


# === Answers ===


@dataclass(frozen=True)
class Answer:
    """A model's answer to a ticket, by the columns of `prediction`."""

    label: str | None
    confidence: float | None
    decision: str
    probable: list[tuple[str, float]]
    because: list[tuple[int, int]]
    reason: str
    embedding: bytes | None

    def stored(self) -> dict[str, Any]:
        """The values by column."""
        return dict(self.__dict__)


def _answers(predictor: Predictor, texts: Sequence[str]) -> list[Answer]:
    """The model's answers, with embeddings for tickets in review."""
    encoded = predictor.encode(texts)
    output = predictor.run(encoded)
    shown = predictor.predictions(texts, predictor.answer_from(texts, encoded, output))
    means = output.requested_evidence.means  # [rows, D]
    norms = np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    vectors = (means / norms).astype(np.float16)
    leaves = set(predictor.labels)
    answers = []
    for one, vector in zip(shown, vectors, strict=True):
        ranked = sorted(
            ((name, share) for name, share in one.probabilities.items() if name in leaves),
            key=lambda item: -item[1],
        )
        answers.append(
            Answer(
                one.label,
                one.confidence,
                one.decision,
                ranked[:_CHOICES],
                [(phrase.start, phrase.end) for phrase in one.because],
                one.reason,
                vector.tobytes(),
            )
        )
    return answers


def _keep_new(
    store: ReviewStore,
    connection: Connection,
    tickets: Sequence[NewTicket],
    numbers: Sequence[int | None],
    answers: Sequence[Answer],
    model_id: str,
    audited: float,
) -> Added:
    moment = now()
    fresh = [
        (number, one.text, moment if one.received_at is None else one.received_at, answer)
        for number, one, answer in zip(numbers, tickets, answers, strict=True)
        if number is not None  # else another process added it meanwhile
    ]
    waiting, audits = _keep_answers(store, connection, fresh, model_id, audited)
    return Added(
        added=len(fresh),
        known=len(tickets) - len(fresh),
        changed=_new_versions(connection, [number for number, *_ in fresh]),
        for_people=waiting,
        audits=audits,
    )


def _new_versions(connection: Connection, numbers: Sequence[int]) -> int:
    earlier = ticket.alias()
    number = connection.scalar(
        select(func.count(func.distinct(ticket.c.id)))
        .join(
            earlier,
            (earlier.c.external_id == ticket.c.external_id)
            & (earlier.c.source == ticket.c.source)
            & (earlier.c.id < ticket.c.id),
        )
        .where(ticket.c.id.in_(numbers))
    )
    return int(number or 0)


def insert_tickets(
    store: ReviewStore,
    connection: Connection,
    tickets: Sequence[NewTicket],
    source: str,
    answers: Sequence[Answer],
    upload: int | None = None,
) -> list[int | None]:
    """Insert tickets from `storable`; returns their numbers, None for known ones."""
    moment = now()
    rows: list[dict[str, Any]] = [
        {
            "source": source,
            "external_id": one.external_id,
            "text": one.text,
            "text_hash": text_hash(store, one.text),
            "columns": dict(one.columns),
            "received_at": one.received_at,
            "added_at": moment,
            "upload": upload,
            "state": "automatic" if answer.decision == DECISIONS[0] else "waiting",
            "label": answer.label,
            "confidence": answer.confidence,
            "reason": answer.decision,
        }
        for one, answer in zip(tickets, answers, strict=True)
    ]
    key = ticket.c.external_id, ticket.c.text_hash
    inserted = connection.execute(
        insert_new(connection, ticket).returning(ticket.c.id, arrived_at, *key), rows
    )
    found = {(row.external_id, row.text_hash): row for row in inserted}
    fresh = [
        (row.id, row.arrived_at, given["columns"])
        for given in rows
        if (row := found.get((given["external_id"], given["text_hash"]))) is not None
    ]
    keep_values(connection, fresh)
    if upload is not None:
        note_upload(connection, upload, [(identity, arrived) for identity, arrived, _ in fresh])
    numbers = {key: row.id for key, row in found.items()}
    return [numbers.get((row["external_id"], row["text_hash"])) for row in rows]


def _keep_answers(
    store: ReviewStore,
    connection: Connection,
    answered: Sequence[tuple[int, str, float, Answer]],
    model_id: str,
    audited: float,
) -> tuple[int, int]:
    """Store answers, draw audits, and queue tickets for review.

    `answered` has the number, text and time of each ticket, with the answer of the model
    `model_id`. Returns the number of queued tickets, and of audits among them.
    """
    predictions, draws, waiting, vectors, moment = [], [], [], [], now()
    for identity, text, arrived, answer in answered:
        drawn = False
        if answer.decision == DECISIONS[0]:
            drawn = is_audited(store.secret, f"audit/{identity}/{model_id}", audited)
            draws.append(
                {
                    "ticket": identity,
                    "model": model_id,
                    "stratum": stratum(str(answer.label), float(answer.confidence or 0)),
                    "probability": audited,
                    "drawn": drawn,
                }
            )
        stored = {"ticket": identity, "model": model_id, "predicted_at": moment, **answer.stored()}
        if drawn or answer.decision != DECISIONS[0]:
            item = _Waiting(text, arrived, None, answer.label, answer.decision, answer.probable)
            waiting.append(_waiting(store, identity, model_id, item))
            vectors.append(answer.embedding)
        else:
            stored |= {"embedding": None, "probable": answer.probable[:_PROBABLE]}
        predictions.append(stored)
    _most_useful_first(waiting, vectors)
    upsert(connection, prediction, *predictions)  # a shadow answer of the model may exist already
    for table, values in ((draw, draws), (queue, waiting)):
        if values:
            connection.execute(insert_new(connection, table), values)
    refresh(connection, [row["ticket"] for row in waiting if row["blind"]])
    return len(waiting), sum(bool(one["drawn"]) for one in draws)


@dataclass(frozen=True)
class _Waiting:
    text: str
    arrived_at: float
    erased_at: float | None
    label: str | None
    decision: str
    probable: Sequence[Sequence[Any]]


def _waiting(store: ReviewStore, identity: int, model_id: str, one: _Waiting) -> dict[str, Any]:
    audit = one.decision == DECISIONS[0]
    blind = audit or is_audited(store.secret, f"unaided/{identity}/{model_id}", _UNAIDED)
    shares = [float(share) for _, share in one.probable[:2]]
    margin = shares[0] - shares[1] if len(shares) == 2 else 1.0
    return {
        "ticket": identity,
        "model": model_id,
        "audit": audit,
        "place": int(one.arrived_at // _HOUR),
        # audits in a random order, so that those already decided are a random sample
        "certainty": uniform_number(store.secret, f"order/{identity}") if audit else margin,
        "label": one.label,
        "similar": near_duplicates(store, one.text),
        "blind": blind,
    }


def _most_useful_first(waiting: Sequence[dict[str, Any]], vectors: Sequence[bytes | None]) -> None:
    """Permute the rows' certainties so that the most useful tickets come first (`review_order`)."""
    with_vectors = [
        (row, vector)
        for row, vector in zip(waiting, vectors, strict=True)
        if not row["audit"] and vector is not None
    ]
    if len(with_vectors) < 2:
        return
    rows = [row for row, _ in with_vectors]
    certainties = np.array([row["certainty"] for row in rows])
    order = review_order(
        1 - certainties,
        np.frombuffer(b"".join(vector for _, vector in with_vectors), np.float16)
        .reshape(len(rows), -1)
        .astype(np.float32),
        size=len(rows),
    )
    for index, certainty in zip(order, np.sort(certainties), strict=True):
        rows[index]["certainty"] = float(certainty)


def stratum(label: str, confidence: float) -> str:
    """The audit stratum of an automatic answer."""
    return f"{label[:180]}/{sum(confidence >= edge for edge in _SURE)}"


def text_hash(store: ReviewStore, text: str) -> str:
    """A hash that ignores case and spaces."""
    return store.hashed(same_words(text))


def storable(store: ReviewStore, one: NewTicket) -> NewTicket:
    """A ticket without values that databases refuse: NUL, lone surrogates, long ids."""
    columns = {clean_text(name): clean_text(cell) for name, cell in one.columns.items()}
    return NewTicket(own_id(store, one.external_id), clean_text(one.text), columns, one.received_at)


def own_id(store: ReviewStore, given: str) -> str:
    """A ticket's id in its stored form; a very long one is hashed."""
    given = clean_text(given.strip())
    return given if len(given) <= _LONGEST else store.hashed(given)


def source_name(given: str) -> str:
    """The name of a system in its stored form."""
    return clean_text(given.strip())[:_LONGEST]


def near_duplicates(store: ReviewStore, text: str) -> str:
    """A hash that ignores case, spaces and numbers."""
    return store.hashed(_DIGITS.sub("0", same_words(text)))


def same_words(text: str) -> str:
    """A text in lower case with single spaces, for comparisons."""
    return " ".join(text.casefold().split())


# === Names ===


def number_of(identity: int) -> str:
    """A ticket's number in the store, as shown to people."""
    return f"#{identity}"


def name_of(external_id: str, identity: int, source: str) -> str:
    """A ticket's id and number, and its source if it has a name."""
    return f"{external_id} ({number_of(identity)}{', ' * bool(source)}{source})"


def find_ticket(store: ReviewStore, given: str, *, source: str | None = None) -> int:
    """Find a ticket by its own id, or by its number in the store.

    Args:
        store: an open store.
        given: the id; SOURCE/ID, or /ID for the default source; or the number, such as #12.
        source: if given, `given` is only read as an id of this system.

    Raises:
        StoreError: there is none, or there are several.
    """
    given = given.strip()
    meant = named(store, given) if source is None else _is_named(store, source, given)
    with store.reading() as connection:
        rows = connection.execute(
            select(ticket).where(meant).order_by(ticket.c.id).limit(_MOST_NAMED + 1)
        ).all()
    if not rows:
        bare = given.isdecimal() and source is None
        raise StoreError(
            f"no ticket {one_line(given)}{f' of the source {one_line(source)}' if source else ''}",
            expected="a ticket's own id, SOURCE/ID, or its number in the store, such as #12",
            fix=f"if the number in the store is meant, write '#{given}'" if bare else "check it",
        )
    if len(rows) > 1:
        several = ", ".join(
            f"{number_of(row.id)} (source {one_line(row.source)}, {one_line(row.text, 40)})"
            for row in rows[:_MOST_NAMED]
        )
        raise StoreError(
            f"{one_line(given)} stands for several tickets: {several}",
            expected="one ticket",
            fix=f"give its number, such as '{number_of(rows[0].id)}'",
        )
    return int(rows[0].id)


def named(store: ReviewStore, given: str) -> ColumnElement[bool]:
    """The condition that a ticket has this own id, SOURCE/ID, or number such as #12."""
    given = given.strip()
    if _NUMBER.fullmatch(given):
        return ticket.c.id == int(given[1:])
    slashes = [index for index, letter in enumerate(given) if letter == "/"][:_MOST_SLASHES]
    return or_(
        ticket.c.external_id == own_id(store, given),
        *(_is_named(store, given[:index], given[index + 1 :]) for index in slashes),
    )


def find_numbered(store: ReviewStore, number: str, given: str, source: str | None) -> int:
    """Find a ticket by number; StoreError unless it has this id and, if given, this source."""
    if not _NUMBER.fullmatch(number.strip()):
        raise StoreError(
            f"the number {one_line(number)} of the ticket {one_line(given)}",
            expected="a number in the store, such as #12",
            fix="correct it, or leave the cell empty",
        )
    identity = find_ticket(store, number)
    with store.reading() as connection:
        row = row_of(connection, identity)
    if row.external_id != own_id(store, given) or source_name(source or row.source) != row.source:
        raise StoreError(
            f"the ticket {one_line(given)} with the number {one_line(number)}, which is"
            f" {one_line(name_of(row.external_id, row.id, row.source))}",
            expected="one ticket in each row",
            fix="correct the id, or leave the number empty",
        )
    return identity


def _is_named(store: ReviewStore, source: str, ticket_id: str) -> ColumnElement[bool]:
    same_id = ticket.c.external_id == own_id(store, ticket_id)
    return same_id & (ticket.c.source == source_name(source))


def row_of(connection: Connection, identity: int) -> Row[Any]:
    """A ticket's row; StoreError if there is none."""
    row = connection.execute(select(ticket).where(ticket.c.id == identity)).first()
    if row is None:
        raise no_ticket(identity)
    return row
