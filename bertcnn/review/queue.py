"""The review queue: leases, so that two people never get the same ticket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, select, update
from sqlalchemy.orm import aliased

from bertcnn.errors import SettingsError, one_line
from bertcnn.review.people import Person
from bertcnn.review.rows import upsert
from bertcnn.review.schema import decision, lease, note, prediction, queue, ticket, upload
from bertcnn.review.schema import person as person_table
from bertcnn.review.states import refresh
from bertcnn.review.statistics import uniform_number
from bertcnn.review.store import ReviewStore, now, read_setting
from bertcnn.review.tickets import no_ticket

QueueView = Literal["mixed", "reviews", "audits", "skipped", "skipped_by_all", "later", "mine"]
BATCH = 20  # tickets that a person holds at a time
FEW = 5  # the same where few wait
PLENTY = 200  # waiting tickets, from which on people hold a whole batch
MOST = 1000  # most tickets leased at a time
LEASE = 120.0  # seconds without a sign of life until others get a ticket
SKIPPED_FOR = 3600.0  # seconds until the person who skipped a ticket gets it again
AT_WORK = 7 * 86_400.0  # seconds since a person was last seen at the desk
_LOOKED_AT = 10  # waiting tickets considered for each place in a batch
_MOST_OF_A_LABEL = 1 / 3  # of a batch


@dataclass(frozen=True)
class Note:
    """A note on a ticket; `key` is for undoing it, and `at` seconds since 1970, UTC."""

    key: str
    actor: str
    text: str
    at: float


@dataclass(frozen=True)
class OwnDecision:
    """A person's decision on a ticket; see `NewDecision`."""

    key: str
    kind: str
    label: str | None
    decided_at: float


@dataclass(frozen=True)
class LeasedTicket:
    """A ticket leased to a person, with the model's answer.

    Attributes:
        id: number in the store.
        external_id: id in its source.
        source: the system of that id; empty for the default one.
        received_at: seconds since 1970, UTC; None if unknown.
        model: id of the model whose answer is reviewed.
        blind: whether the model's answer is hidden; the fields below are then empty.
        choices: the likeliest labels, the first of them first; of a hidden answer, by name.
        confidence: calibrated probability of the label.
        decision: such as "review:ambiguous".
        probable: the most probable labels with their probabilities.
        because: characters [start, end) of the phrases that moved the answer.
        reason: of the decision, as text.
        received_text: the time as the file has it; empty if unknown.
        notes: people's notes, oldest first.
        assigned_to: a person, or None.
        later: whether somebody has put it off.
        held_by: another person who has it open; empty for nobody.
        own: the person's decision on an opened ticket; None for none.
    """

    id: int
    external_id: str
    source: str
    text: str
    columns: dict[str, str]
    received_at: float | None
    model: str
    blind: bool
    label: str | None = None
    confidence: float | None = None
    decision: str = ""
    probable: tuple[tuple[str, float], ...] = ()
    because: tuple[tuple[int, int], ...] = ()
    reason: str = ""
    received_text: str = ""
    notes: tuple[Note, ...] = ()
    assigned_to: str | None = None
    later: bool = False
    held_by: str = ""
    choices: tuple[str, ...] = ()
    own: OwnDecision | None = None


def claim(
    store: ReviewStore,
    person: Person,
    *,
    most: int | None = None,
    view: QueueView = "mixed",
    tab: str = "",
    keep: Sequence[int] = (),
    seconds: float = LEASE,
) -> list[LeasedTicket]:
    """Lease the next tickets to a person, starting with those they already hold.

    Tickets come by hour of arrival; within an hour, tickets that the model doubts and that resemble
    many others come first, and audits in a random order. While others remain, a batch has one of
    each near-duplicate and at most a third of one label. Tickets that the person decided, or has
    skipped within an hour, are left out, and so are tickets put off or assigned to others.

    Args:
        store: an open store.
        person: at least a reviewer.
        most: tickets to hold; by default 20, or 5 while fewer than 200 wait.
        view: "mixed" takes audits by the setting `audit_share`, as long as there are both kinds;
            "reviews" and "audits" only these; "skipped" what anybody skipped, at any time;
            "skipped_by_all" what everybody at work skipped; "later" what was put off; "mine" what
            is assigned to the person. Tickets held in other views are released.
        tab: of the browser; each tab gets other tickets.
        keep: tickets from `open_ticket` that stay leased, whatever the view; not in the result.
        seconds: until others may get the tickets, unless `renew` is called.

    Raises:
        RoleError: the person is a viewer.
        SettingsError: `most` is not from 1 to 1,000, or there is no such view.
    """
    person.needs("reviewer", "decide on tickets")
    _check(most, view)
    moment = now()
    with store.writing() as connection:
        claimed = _greet(connection, person.name, moment)
        open_to = _open_to(connection, person.name, view, moment)
        held = _held(connection, person.name, tab, open_to, keep)
        limit = most or _limit(connection)
        chosen = _next(connection, open_to, view, limit - len(held), claimed)
        tickets, until = [*held, *chosen][: most or None], moment + seconds
        rows = [
            {"ticket": one, "actor": person.name, "tab": tab, "until": until} for one in tickets
        ]
        upsert(connection, lease, *rows)
        kept = _leases_of(person.name, tab) & lease.c.ticket.in_(keep)
        connection.execute(update(lease).where(kept).values(until=until))
        _count_claimed(connection, person.name, len(chosen))
        _double(store, connection, chosen, moment)
        return read_leased(connection, tickets)


def open_ticket(
    store: ReviewStore, person: Person, identity: int, *, tab: str = ""
) -> LeasedTicket:
    """Any ticket for the desk, leased if it waits and nobody else holds it (`held_by`).

    The answer is hidden if the ticket waits as a blind one, or if the person decided it blind: so
    that a changed decision is blind, too.

    Raises:
        RoleError: the person is a viewer.
        StoreError: there is no such ticket.
    """
    person.needs("reviewer", "decide on tickets")
    moment = now()
    with store.writing() as connection:
        holder = connection.scalar(
            select(lease.c.actor).where(lease.c.ticket == identity, lease.c.until > moment)
        )
        waits = select(queue.c.ticket).where(queue.c.ticket == identity)
        if holder in (None, person.name) and connection.scalar(waits) is not None:
            row = {"ticket": identity, "actor": person.name, "tab": tab, "until": moment + LEASE}
            upsert(connection, lease, row)
        found = read_leased(connection, [identity], person.name)
        if not found:
            raise no_ticket(identity)
        others = "" if holder in (None, person.name) else str(holder)
        return replace(found[0], held_by=others)


def renew(
    store: ReviewStore,
    person: Person,
    tickets: Sequence[int],
    *,
    tab: str = "",
) -> list[int]:
    """Extend leases of a tab; returns the tickets that it still holds."""
    moment = now()
    with store.writing() as connection:
        own_leases = _leases_of(person.name, tab) & lease.c.ticket.in_(tickets)
        connection.execute(
            update(lease).where(own_leases & (lease.c.until > moment)).values(until=moment + LEASE)
        )
        held = select(lease.c.ticket).where(own_leases & (lease.c.until > moment))
        return list(connection.scalars(held.order_by(lease.c.ticket)))


def waiting_tickets(store: ReviewStore) -> dict[str, int]:
    """The number of waiting `audits` and `reviews` that nobody has decided."""
    with store.reading() as connection:
        rows = connection.execute(
            select(queue.c.audit, func.count().label("number"))
            .where(~queue.c.second)
            .group_by(queue.c.audit)
        )
        numbers = {bool(row.audit): int(row.number) for row in rows}
    return {"audits": numbers.get(True, 0), "reviews": numbers.get(False, 0)}


def people_at_work(connection: Connection, moment: float) -> list[str]:
    """People seen at the desk within a week."""
    seen = select(person_table.c.name).where(person_table.c.seen_at > moment - AT_WORK)
    return list(connection.scalars(seen.order_by(person_table.c.name)))


def _check(most: int | None, view: str) -> None:
    if most is not None and not 1 <= most <= MOST:
        raise SettingsError(
            f"{most} tickets at a time", expected=f"1 to {MOST}", fix=f"take for example {BATCH}"
        )
    if view not in get_args(QueueView):
        raise SettingsError(
            f"the view {one_line(view)}",
            expected=f"one of {', '.join(get_args(QueueView))}",
            fix="give one of these",
        )


def _greet(connection: Connection, name: str, moment: float) -> int:
    """Note that a person is at the desk; returns the number of tickets claimed so far."""
    row = {"name": name, "seen_at": moment, "claimed": 0}
    known = select(person_table.c.claimed).where(person_table.c.name == name)
    claimed = connection.scalar(known)
    if claimed is None:
        upsert(connection, person_table, row)
        return 0
    seen = update(person_table).where(person_table.c.name == name)
    connection.execute(seen.values(seen_at=moment))
    return int(claimed)


def _count_claimed(connection: Connection, name: str, number: int) -> None:
    more = update(person_table).where(person_table.c.name == name)
    connection.execute(more.values(claimed=person_table.c.claimed + number))


def _limit(connection: Connection) -> int:
    some = select(queue.c.ticket).limit(PLENTY).subquery()
    waiting = connection.scalar(select(func.count()).select_from(some))
    return BATCH if int(waiting or 0) >= PLENTY else FEW


def _leases_of(name: str, tab: str) -> ColumnElement[bool]:
    return (lease.c.actor == name) & lease.c.tab.in_((tab, ""))


def _open_to(connection: Connection, name: str, view: QueueView, moment: float) -> Select[Any]:
    """The waiting tickets of a view that a person may get, with the leases on them."""
    own = aliased(decision)
    statement = (
        select(queue.c.ticket, queue.c.audit, queue.c.label, queue.c.similar)
        .join(ticket, ticket.c.id == queue.c.ticket)
        .outerjoin(lease, (lease.c.ticket == queue.c.ticket) & (lease.c.until > moment))
        .outerjoin(own, (own.c.ticket == queue.c.ticket) & (own.c.actor == name))
        .order_by(queue.c.place, queue.c.certainty, queue.c.ticket)
    )
    undecided = own.c.actor.is_(None) | (own.c.kind == "skip")
    if view in ("skipped", "skipped_by_all"):
        some = ticket.c.state == "skipped"
        if view == "skipped_by_all":
            some = skipped_by_all(connection, moment)
        last_skip = func.coalesce(own.c.event, 0)  # what was skipped again comes last
        return statement.where(undecided, some).order_by(None).order_by(last_skip, queue.c.ticket)
    statement = statement.where(
        own.c.actor.is_(None)
        | ((own.c.kind == "skip") & (own.c.decided_at <= moment - SKIPPED_FOR))
    )
    if view == "mine":
        return statement.where(ticket.c.assigned_to == name)
    if view == "later":
        return statement.where(ticket.c.later_at.is_not(None))
    if view in ("audits", "reviews"):
        statement = statement.where(queue.c.audit == (view == "audits"))
    return statement.where(
        ticket.c.later_at.is_(None),
        ticket.c.assigned_to.is_(None) | (ticket.c.assigned_to == name),
    )


def skipped_by_all(connection: Connection, moment: float) -> ColumnElement[bool]:
    """The condition that everybody at work has skipped a ticket."""
    skips = aliased(decision)
    people = people_at_work(connection, moment)
    skipping = (
        select(func.count())
        .where(skips.c.ticket == ticket.c.id, skips.c.kind == "skip", skips.c.actor.in_(people))
        .scalar_subquery()
    )
    return (ticket.c.state == "skipped") & (skipping >= len(people))


def _held(
    connection: Connection, name: str, tab: str, open_to: Select[Any], keep: Sequence[int]
) -> list[int]:
    """The tickets that a tab holds; those of other views are released, but for `keep`."""
    rows = connection.execute(open_to.where(_leases_of(name, tab))).all()
    audits, reviews = ([row.ticket for row in rows if row.audit is kind] for kind in (True, False))
    held = _mixed(audits, reviews, len(rows), float(read_setting(connection, "audit_share")))
    others = lease.c.ticket.not_in([*held, *keep])
    connection.execute(delete(lease).where(_leases_of(name, tab), others))
    return held


def _next(
    connection: Connection, open_to: Select[Any], view: QueueView, number: int, claimed: int
) -> list[int]:
    """The next tickets that nobody holds."""
    if number <= 0:
        return []
    free = open_to.where(lease.c.actor.is_(None)).limit(_LOOKED_AT * number)
    if view == "reviews":
        return _choose(connection.execute(free).all(), number)
    if view != "mixed":
        return [row.ticket for row in connection.execute(free)][:number]
    audits = [row.ticket for row in connection.execute(free.where(queue.c.audit))]
    reviews = _choose(connection.execute(free.where(~queue.c.audit)).all(), number)
    share = float(read_setting(connection, "audit_share"))
    return _mixed(audits, reviews, number, share, claimed)


def _mixed(
    audits: Sequence[int], reviews: Sequence[int], number: int, share: float, before: int = 0
) -> list[int]:
    """Reviews with a share of audits between them, counted on from the tickets `before`."""
    mixed: list[int] = []
    audits, reviews = list(reversed(audits)), list(reversed(reviews))
    while len(mixed) < number and (audits or reviews):
        place = before + len(mixed)
        due = int((place + 1) * share) > int(place * share)
        mixed.append(audits.pop() if (due and audits) or not reviews else reviews.pop())
    return mixed


def _double(
    store: ReviewStore, connection: Connection, tickets: Sequence[int], moment: float
) -> None:
    """Choose tickets for two people by a keyed hash; both get them without the model's answer."""
    share = float(read_setting(connection, "double_share"))
    if not share or len(people_at_work(connection, moment)) < 2:
        return
    chosen = [one for one in tickets if uniform_number(store.secret, f"double/{one}") < share]
    if chosen:
        here = queue.c.ticket.in_(chosen)
        connection.execute(update(queue).where(here).values(double=True, blind=True))
        refresh(connection, chosen)


def _choose(waiting: Sequence[Row[Any]], number: int) -> list[int]:
    """The first tickets, without near duplicates or too many of a label while others remain."""
    most = max(1, int(number * _MOST_OF_A_LABEL))
    similar: set[str] = set()
    labels: Counter[str | None] = Counter()
    chosen: set[int] = set()
    for one_of_each, capped in ((True, True), (True, False), (False, False)):
        for row in waiting:
            repeated = one_of_each and row.similar in similar
            crowded = capped and labels[row.label] >= most
            if len(chosen) < number and row.ticket not in chosen and not (repeated or crowded):
                chosen.add(row.ticket)
                similar.add(row.similar)
                labels[row.label] += 1
    return [row.ticket for row in waiting if row.ticket in chosen]


def read_leased(
    connection: Connection, tickets: Sequence[int], name: str | None = None
) -> list[LeasedTicket]:
    """The tickets, with the visible parts of the model's answers.

    What a ticket outside the queue shows depends on whether the person `name` decided it blind.
    """
    given = prediction.alias()
    last = (
        select(given.c.model)
        .where(given.c.ticket == ticket.c.id, given.c.predicted_at > 0)
        .order_by(given.c.predicted_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    of_model = prediction.c.model == func.coalesce(queue.c.model, last)
    of_person = (decision.c.ticket == ticket.c.id) & (decision.c.actor == name)
    statement = (
        select(
            ticket,
            upload.c.time_column,
            upload.c.text_columns,
            func.coalesce(queue.c.blind, decision.c.blind, False).label("blind"),
            prediction.c.model,
            prediction.c.label.label("answer"),
            prediction.c.confidence.label("answer_confidence"),
            prediction.c.decision,
            prediction.c.probable,
            prediction.c.because,
            prediction.c.reason.label("answer_reason"),
            decision.c.key.label("own_key"),
            decision.c.kind.label("own_kind"),
            decision.c.label.label("own_label"),
            decision.c.decided_at.label("own_at"),
        )
        .outerjoin(queue, queue.c.ticket == ticket.c.id)
        .outerjoin(prediction, (prediction.c.ticket == ticket.c.id) & of_model)
        .outerjoin(decision, of_person)
        .outerjoin(upload, upload.c.id == ticket.c.upload)
        .where(ticket.c.id.in_(tickets))
    )
    by_id = {row.id: row for row in connection.execute(statement)}
    notes: dict[int, list[Note]] = {identity: [] for identity in by_id}
    for row in connection.execute(
        select(note).where(note.c.ticket.in_(tickets)).order_by(note.c.at, note.c.key)
    ):
        notes[row.ticket].append(Note(row.key, row.actor, row.text, row.at))
    return [
        _leased(by_id[identity], tuple(notes[identity]))
        for identity in tickets
        if identity in by_id
    ]


def _leased(row: Row[Any], notes: tuple[Note, ...]) -> LeasedTicket:
    hidden = {*(row.text_columns or ()), row.time_column}
    probable = tuple((str(name), float(share)) for name, share in row.probable or ())
    choices = tuple(name for name, _ in probable)
    decided = row.own_kind in ("label", "none")
    shown = LeasedTicket(
        row.id,
        row.external_id,
        row.source,
        row.text,
        {name: cell for name, cell in row.columns.items() if name not in hidden},
        row.received_at,
        row.model or "",
        bool(row.blind),
        received_text=row.columns.get(row.time_column, ""),
        notes=notes,
        assigned_to=row.assigned_to,
        later=row.later_at is not None,
        choices=tuple(sorted(choices)),
        own=OwnDecision(row.own_key, row.own_kind, row.own_label, row.own_at) if decided else None,
    )
    if row.blind or row.model is None:
        return shown
    return replace(
        shown,
        label=row.answer,
        confidence=row.answer_confidence,
        decision=row.decision,
        probable=probable,
        choices=choices,
        because=tuple((int(start), int(end)) for start, end in row.because),
        reason=row.answer_reason,
    )
