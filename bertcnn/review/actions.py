"""Actions on one or several tickets from a list; each can be undone as a whole."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from bertcnn.errors import BertCNNError, StoreError, one_line
from bertcnn.review.decisions import add_event, derive
from bertcnn.review.labels import read_labels
from bertcnn.review.people import Person, name_key
from bertcnn.review.schema import event, lease, mention, note, queue
from bertcnn.review.schema import person as person_table
from bertcnn.review.states import read_standing
from bertcnn.review.store import ReviewStore, now
from bertcnn.review.tickets import number_of, row_of

MOST_TOGETHER = 1000  # tickets of one action
_LONGEST_NOTE = 10_000  # characters
_RUN = 100  # tickets in a transaction
_Act = Callable[[Connection, int, str], None]  # on a ticket, with the key of the batch
_MENTION = re.compile(r"(?<![\w.@])@([\w+-]+(?:[.@][\w+-]+)*)")


@dataclass(frozen=True)
class Done:
    """The result of an action.

    Attributes:
        batch: for `undo_action`.
        tickets: those that were changed.
        refused: the reasons why others were not, by ticket.
    """

    batch: str
    tickets: tuple[int, ...]
    refused: dict[int, str]


def decide_many(
    store: ReviewStore, person: Person, tickets: Sequence[int], label: str | None
) -> Done:
    """Give tickets a label, None for none of the labels; those that others have open are refused.

    Raises:
        RoleError: the person is a viewer.
        StoreError: the label is not in use, or there are no tickets or too many.
    """
    person.needs("reviewer", "decide on tickets")
    with store.reading() as connection:
        given = None if label is None else read_labels(connection).checked(label)

    def decide(connection: Connection, identity: int, batch: str) -> None:
        _take(connection, identity, person)
        blind = connection.scalar(select(queue.c.blind).where(queue.c.ticket == identity))
        add_event(
            connection,
            person.name,
            identity,
            "none" if given is None else "label",
            key=_key(),
            batch=batch,
            label=given,
            blind=bool(blind),
        )

    return _each(store, tickets, decide)


def settle(store: ReviewStore, identity: int, label: str | None, person: Person) -> Done:
    """Settle a disagreement with a label, None for none of the labels.

    People's decisions stay; the settlement counts in their place.

    Raises:
        RoleError: the person is not an admin.
        StoreError: the label is not in use, or people do not disagree on the ticket.
    """
    person.needs("admin", "settle a disagreement")
    with store.reading() as connection:
        given = None if label is None else read_labels(connection).checked(label)
        row = row_of(connection, identity)
        if row.state != "disagreement" and read_standing(connection, identity).settled is None:
            raise StoreError(
                f"nothing to settle on ticket {one_line(row.external_id)}",
                expected="a ticket that people decided differently",
                fix="decide it instead",
            )

    return _each(store, [identity], _adding(person, "settle", label=given))


def assign_many(store: ReviewStore, person: Person, tickets: Sequence[int], to: str | None) -> Done:
    """Assign tickets to a person, None for nobody: others do not get them from the queue.

    Raises:
        RoleError: the person is a viewer.
        SettingsError: the name is not valid.
        StoreError: there are no tickets or too many.
    """
    person.needs("reviewer", "assign tickets")
    assignee = None if to is None else Person(to, "reviewer").name
    return _each(store, tickets, _adding(person, "assign", assignee=assignee))


def later_many(
    store: ReviewStore, person: Person, tickets: Sequence[int], *, later: bool = True
) -> Done:
    """Put tickets off until somebody decides them, or take that back.

    Raises:
        RoleError: the person is a viewer.
        StoreError: there are no tickets or too many.
    """
    person.needs("reviewer", "put tickets off")
    return _each(store, tickets, _adding(person, "later" if later else "now"))


def note_many(store: ReviewStore, person: Person, tickets: Sequence[int], text: str) -> Done:
    """Add a note to tickets; @NAME in it shows them in that person's view.

    A name is a person's name, or the part of their address before the @. An undone note is erased.

    Raises:
        RoleError: the person is a viewer.
        StoreError: the note is blank or too long, or there are no tickets or too many.
    """
    person.needs("reviewer", "write notes")
    text = text.replace("\0", "").strip()
    if not 1 <= len(text) <= _LONGEST_NOTE:
        raise StoreError(
            f"a note of {len(text):,} characters",
            expected=f"1 to {_LONGEST_NOTE:,}",
            fix="write a shorter note",
        )

    def write(connection: Connection, identity: int, batch: str) -> None:
        key = _key()
        add_event(connection, person.name, identity, "note", key=key, batch=batch)
        row = {"key": key, "ticket": identity, "actor": person.name, "text": text, "at": now()}
        connection.execute(insert(note).values(row))
        known = connection.scalars(select(person_table.c.name)).all()
        people = [
            {"person": name, "note": key, "ticket": identity} for name in mentioned(text, known)
        ]
        if people:
            connection.execute(insert(mention), people)

    return _each(store, tickets, write)


def bring_back_many(store: ReviewStore, person: Person, tickets: Sequence[int]) -> Done:
    """Let tickets wait in the queue again, as if nobody had decided or skipped them.

    Automatic answers can be brought back, too; they are no audits then.

    Raises:
        RoleError: the person is a viewer. Tickets that others decided need an admin, or are
            refused.
        StoreError: there are no tickets or too many.
    """
    person.needs("reviewer", "bring tickets back")

    def back(connection: Connection, identity: int, batch: str) -> None:
        standing = read_standing(connection, identity)
        if standing.settled is not None or standing.deciders - {person.name}:
            person.needs("admin", "bring back tickets that others decided")
        if row_of(connection, identity).erased_at is not None:
            raise StoreError(
                f"ticket {number_of(identity)}, which was erased",
                expected="one with a text",
                fix="leave it out",
            )
        _adding(person, "back")(connection, identity, batch)

    return _each(store, tickets, back)


def undo_action(store: ReviewStore, person: Person, batch: str) -> Done:
    """Undo an action of the same person on all of its tickets.

    Raises:
        StoreError: there is no such action of this person, or it was undone.
    """
    with store.reading() as connection:
        undone = event.alias()
        rows = connection.execute(
            select(event.c.ticket, event.c.key, event.c.kind)
            .outerjoin(
                undone, (undone.c.ticket == event.c.ticket) & (undone.c.undoes == event.c.key)
            )
            .where(
                event.c.batch == batch,
                event.c.actor == person.name,
                event.c.kind != "undo",
                undone.c.id.is_(None),
            )
            .order_by(event.c.id)
        ).all()
    if not rows:
        raise StoreError(
            f"no action of {one_line(person.name)} to undo with the key {one_line(batch)}",
            expected="an action of the same person that was not undone",
            fix="undo your own actions only",
        )
    kinds = {row.ticket: (row.key, row.kind) for row in rows}

    def undo(connection: Connection, identity: int, batch: str) -> None:
        key, kind = kinds[identity]
        _adding(person, "undo", undoes=key)(connection, identity, batch)
        if kind == "note":
            connection.execute(delete(mention).where(mention.c.note == key))
            connection.execute(delete(note).where(note.c.key == key))

    return _each(store, list(kinds), undo)


def mentioned(text: str, known: Collection[str]) -> set[str]:
    """The people that a note mentions.

    Example:
        >>> sorted(mentioned("@Ann and @bob, see @ann lee", ["ann lee", "bob@example.org"]))
        ['ann', 'ann lee', 'bob@example.org']
    """
    words = f"{name_key(text)} "
    people = {name for name in known if " " in name and f"@{name}" in words}
    for given in _MENTION.findall(text):
        name = name_key(given)
        same = {one for one in known if one == name or one.partition("@")[0] == name}
        people |= same or {name}
    return people


def _take(connection: Connection, identity: int, person: Person) -> None:
    """End the person's lease; StoreError if somebody else has the ticket open."""
    holder = connection.scalar(
        select(lease.c.actor).where(lease.c.ticket == identity, lease.c.until > now())
    )
    if holder not in (None, person.name):
        raise StoreError(
            f"{one_line(holder)} has ticket {number_of(identity)} open",
            expected="a ticket that nobody else has open",
            fix="try again in some minutes",
        )
    connection.execute(delete(lease).where(lease.c.ticket == identity))


def _adding(person: Person, kind: str, **columns: Any) -> _Act:  # noqa: ANN401 - of the table
    """An action that adds an event."""

    def act(connection: Connection, identity: int, batch: str) -> None:
        add_event(connection, person.name, identity, kind, key=_key(), batch=batch, **columns)

    return act


def _each(store: ReviewStore, tickets: Sequence[int], act: _Act) -> Done:
    """Act on each ticket, in transactions of some of them, and derive what follows."""
    tickets = list(dict.fromkeys(tickets))
    if not 1 <= len(tickets) <= MOST_TOGETHER:
        raise StoreError(
            f"{len(tickets):,} tickets at once",
            expected=f"1 to {MOST_TOGETHER:,}",
            fix="choose some" if not tickets else "choose fewer",
        )
    batch, done, refused = _key(), list[int](), dict[int, str]()
    for run in _runs(tickets):
        with store.writing() as connection:
            for identity in run:
                try:
                    row_of(connection, identity)
                    act(connection, identity, batch)
                except BertCNNError as error:
                    refused[identity] = str(error)
                else:
                    derive(store, connection, identity)
                    done.append(identity)
    return Done(batch, tuple(done), refused)


def _runs(tickets: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(tickets), _RUN):
        yield tickets[first : first + _RUN]


def _key() -> str:
    return uuid.uuid4().hex
