"""What is derived from events: people's current decisions, and the state of each ticket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, select, update

from bertcnn.data import LEVELS, names_in
from bertcnn.review.rows import upsert
from bertcnn.review.schema import (
    decision,
    draw,
    event,
    model,
    prediction,
    queue,
    settlement,
    ticket,
)

DECIDED = ("decided", "audited_wrong")  # states with one undisputed decision
DECISIONS_MADE = ("label", "none")  # kinds of events; a skip decides nothing
_RUN = 500  # tickets


@dataclass(frozen=True)
class Standing:
    """A ticket after its events.

    Attributes:
        people: the last standing decision or skip of each person.
        settled: the settlement of a disagreement.
        back: whether somebody has brought the ticket back to the queue.
        assigned_to: a person, or None.
        later_at: when it was put off, or None.
    """

    people: dict[str, Row[Any]]
    settled: Row[Any] | None
    back: bool
    assigned_to: str | None
    later_at: float | None

    @property
    def deciders(self) -> set[str]:
        """People who have decided."""
        return {actor for actor, row in self.people.items() if row.kind in DECISIONS_MADE}


def read_standing(connection: Connection, identity: int) -> Standing:
    """The decisions on a ticket after all of its events and undos."""
    query = select(event).where(event.c.ticket == identity).order_by(event.c.id)
    events = connection.execute(query).all()
    undone = {row.undoes for row in events if row.kind == "undo"}
    standing = [row for row in events if row.kind != "undo" and row.key not in undone]
    back = max((row.id for row in standing if row.kind == "back"), default=0)
    people: dict[str, Row[Any]] = {}
    settled, assigned_to, later_at = None, None, None
    for row in standing:
        if row.kind == "assign":
            assigned_to = row.assignee
        elif row.kind in ("later", "now"):
            later_at = row.decided_at if row.kind == "later" else None
        elif row.kind == "settle" and row.id > back:
            settled, later_at = row, None
        elif row.kind in (*DECISIONS_MADE, "skip") and row.id > back:
            people[row.actor] = row
            later_at = later_at if row.kind == "skip" else None
    return Standing(people, settled, bool(back), assigned_to, later_at)


def keep_standing(connection: Connection, identity: int, standing: Standing) -> None:
    """Write what stands on a ticket, without its place in the queue."""
    arrived_at = connection.scalar(select(ticket.c.arrived_at).where(ticket.c.id == identity))
    for table in (decision, settlement):
        connection.execute(delete(table).where(table.c.ticket == identity))
    rows = [
        {
            "ticket": identity,
            "actor": row.actor,
            "key": row.key,
            "kind": row.kind,
            "label": row.label,
            "blind": row.blind,
            "shown_at": row.shown_at,
            "decided_at": row.decided_at,
            "event": row.id,
            "arrived_at": arrived_at,
        }
        for row in standing.people.values()
    ]
    upsert(connection, decision, *rows)
    if (settled := standing.settled) is not None:
        upsert(
            connection,
            settlement,
            {
                "ticket": identity,
                "actor": settled.actor,
                "key": settled.key,
                "label": settled.label,
                "settled_at": settled.decided_at,
            },
        )
    changed = {"assigned_to": standing.assigned_to, "later_at": standing.later_at}
    connection.execute(update(ticket).where(ticket.c.id == identity).values(**changed))


def refresh(connection: Connection, tickets: Sequence[int]) -> None:
    """Bring the states of tickets, and the answers that lists show, up to date."""
    for first in range(0, len(tickets), _RUN):
        _refresh(connection, tickets[first : first + _RUN])


def _refresh(connection: Connection, tickets: Sequence[int]) -> None:
    answers = _answers(connection, tickets)
    given, audited = _given(connection, tickets), _audited(connection, tickets)
    waiting = {
        row.ticket: row
        for row in connection.execute(
            select(queue.c.ticket, queue.c.blind).where(queue.c.ticket.in_(tickets))
        )
    }
    changed = []
    shown = ticket.c.state, ticket.c.label, ticket.c.confidence, ticket.c.reason
    for row in connection.execute(
        select(ticket.c.id, ticket.c.erased_at, *shown).where(ticket.c.id.in_(tickets))
    ):
        now = _shown(row, answers.get(row.id), given[row.id], waiting.get(row.id), audited[row.id])
        if now != tuple(row[2:]):
            names = ("new_state", "new_label", "new_confidence", "new_reason")
            changed.append({"changed": row.id, **dict(zip(names, now, strict=True))})
    if changed:
        connection.execute(
            update(ticket)
            .where(ticket.c.id == bindparam("changed"))
            .values({column: bindparam(f"new_{column.name}") for column in shown}),
            changed,
        )


def _shown(
    row: Row[Any],
    answer: Row[Any] | None,
    given: set[str],
    waits: Row[Any] | None,
    audited: Sequence[Row[Any]],
) -> tuple[str, str | None, float | None, str | None]:
    """State, label, confidence and reason of a ticket; `given` are people's labels and skips."""
    labels = given - {_SKIP}
    state, label = "automatic", answer.label if answer else None
    if len(labels) > 1:
        state, label = "disagreement", None
    elif labels:
        [decided] = labels
        wrong = any(not is_right(decided, one.label, one.separator) for one in audited)
        state, label = "audited_wrong" if wrong else "decided", decided or None
    elif row.erased_at is not None:
        state = "erased"
    elif waits is not None:
        state = "skipped" if given else "waiting"
        if waits.blind:
            return state, None, None, None
    if answer is None:
        return state, label, None, None
    return state, label, answer.confidence, answer.decision


_SKIP = "\0"  # never a label


def _answers(connection: Connection, tickets: Sequence[int]) -> dict[int, Row[Any]]:
    """The last answer to each ticket that was not only given to compare models."""
    rows = connection.execute(
        select(
            prediction.c.ticket, prediction.c.label, prediction.c.confidence, prediction.c.decision
        )
        .where(prediction.c.ticket.in_(tickets), prediction.c.predicted_at > 0)
        .order_by(prediction.c.predicted_at)
    )
    return {row.ticket: row for row in rows}


def _given(connection: Connection, tickets: Sequence[int]) -> defaultdict[int, set[str]]:
    """People's labels of each ticket, "" for none of them; a settlement stands for all."""
    given: defaultdict[int, set[str]] = defaultdict(set)
    for row in connection.execute(
        select(decision.c.ticket, decision.c.kind, decision.c.label).where(
            decision.c.ticket.in_(tickets)
        )
    ):
        given[row.ticket].add(_SKIP if row.kind == "skip" else row.label or "")
    for row in connection.execute(
        select(settlement.c.ticket, settlement.c.label).where(settlement.c.ticket.in_(tickets))
    ):
        given[row.ticket] = {row.label or ""}
    return given


def _audited(connection: Connection, tickets: Sequence[int]) -> defaultdict[int, list[Row[Any]]]:
    """The answers that were drawn as audits."""
    audited: defaultdict[int, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(
        select(draw.c.ticket, prediction.c.label, model.c.separator)
        .join(
            prediction,
            (prediction.c.ticket == draw.c.ticket) & (prediction.c.model == draw.c.model),
        )
        .join(model, model.c.id == draw.c.model)
        .where(draw.c.ticket.in_(tickets), draw.c.drawn)
    ):
        audited[row.ticket].append(row)
    return audited


def is_right(decided: str, answer: str | None, separator: str | None) -> bool:
    """Whether an answer is people's decision ("" for none of the labels) or a parent of it.

    `separator` stands between several labels; None for single labels.
    """
    predicted = answer or ""
    if separator:
        return set(names_in(decided, separator)) == set(names_in(predicted, separator))
    return bool(predicted) and (decided == predicted or decided.startswith(f"{predicted}{LEVELS}"))
