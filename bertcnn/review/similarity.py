"""Similar waiting tickets, to be decided together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy import select

from bertcnn.review.people import Person
from bertcnn.review.schema import lease, prediction, queue, ticket
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import no_ticket

ALIKE = 0.8  # cosine
_PAGE = 4096


@dataclass(frozen=True)
class SimilarTicket:
    """A similar waiting ticket; `similarity` is the cosine of the embeddings, up to 1."""

    id: int
    text: str
    similarity: float


def similar(
    store: ReviewStore,
    identity: int,
    person: Person,
    *,
    most: int = 50,
    at_least: float = ALIKE,
) -> list[SimilarTicket]:
    """Similar waiting tickets that nobody else holds, the most similar first, without audits.

    Raises:
        StoreError: there is no such ticket, or it has no embedding.
    """
    with store.reading() as connection:
        row = connection.execute(
            select(prediction.c.model, prediction.c.embedding)
            .where(prediction.c.ticket == identity, prediction.c.embedding.is_not(None))
            .order_by(prediction.c.predicted_at.desc())
            .limit(1)
        ).first()
    if row is None:
        raise no_ticket(identity)
    embedding = np.frombuffer(row.embedding, np.float16).astype(np.float32)
    statement = (
        select(queue.c.ticket, prediction.c.embedding)
        .join(
            prediction,
            (prediction.c.ticket == queue.c.ticket) & (prediction.c.model == row.model),
        )
        .outerjoin(lease, (lease.c.ticket == queue.c.ticket) & (lease.c.until > now()))
        .where(
            ~queue.c.audit,
            queue.c.ticket != identity,
            prediction.c.embedding.is_not(None),
            lease.c.actor.is_(None) | (lease.c.actor == person.name),
        )
        .order_by(queue.c.ticket)
        .limit(_PAGE)
    )
    matches: list[tuple[float, int]] = []
    last = 0
    while True:
        with store.reading() as connection:
            rows = connection.execute(statement.where(queue.c.ticket > last)).all()
        if rows:
            joined = b"".join(one.embedding for one in rows)
            vectors = np.frombuffer(joined, np.float16).reshape(len(rows), -1)  # [rows, D]
            cosines = vectors.astype(np.float32) @ embedding
            alike = np.flatnonzero(cosines >= at_least)
            matches += [(float(cosines[index]), rows[index].ticket) for index in alike]
            matches = sorted(matches, key=lambda item: (-item[0], item[1]))[:most]
        if len(rows) < _PAGE:
            break
        last = rows[-1].ticket
    with store.reading() as connection:
        texts = {
            one.id: one.text
            for one in connection.execute(
                select(ticket.c.id, ticket.c.text).where(ticket.c.id.in_([at for _, at in matches]))
            )
        }
    return [SimilarTicket(at, texts[at], cosine) for cosine, at in matches if at in texts]
