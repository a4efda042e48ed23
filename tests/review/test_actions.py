"""Actions on several tickets, their undos, settling, and the people of a store."""

from pathlib import Path

import pytest
from sqlalchemy import func, select

from bertcnn.errors import RoleError, StoreError
from bertcnn.review.actions import (
    MOST_TOGETHER,
    assign_many,
    bring_back_many,
    decide_many,
    later_many,
    mentioned,
    note_many,
    settle,
    undo_action,
)
from bertcnn.review.corrected_rows import corrections
from bertcnn.review.decisions import NewDecision, disagreements, record
from bertcnn.review.people import Person
from bertcnn.review.queue import claim, open_ticket, waiting_tickets
from bertcnn.review.schema import event, mention, note, queue, ticket
from bertcnn.review.store import now
from bertcnn.review.teamwork import agreement_report, people_today, seen_people
from bertcnn.review.ticket_list import TicketView, list_tickets
from bertcnn.review.tickets import erase_ticket
from tests.review.desk import ADMIN, ANN, BOB, decide, filled, ids, release


@pytest.fixture
def desk(store, encoder_folder):
    """A store with waiting tickets that are for one person each."""
    filled(store, encoder_folder, 40)
    store.set_setting("double_share", 0.0, ADMIN)
    return store


def waiting(store, number):
    with store.reading() as connection:
        query = select(queue.c.ticket).order_by(queue.c.ticket).limit(number)
        return connection.scalars(query).all()


def states(store, tickets):
    with store.reading() as connection:
        query = select(ticket.c.id, ticket.c.state).where(ticket.c.id.in_(tickets))
        by_number = dict(connection.execute(query).all())
    return [by_number[one] for one in tickets]


def listed(store, **fields):
    return {one.id for one in list_tickets(store, TicketView(**fields), 100).tickets}


def count_of(store, table):
    with store.reading() as connection:
        return connection.scalar(select(func.count()).select_from(table))


def test_several_tickets_are_decided_and_undone_as_one(desk):
    some = waiting(desk, 5)
    before = states(desk, some)
    done = decide_many(desk, ANN, some, "billing")
    assert (done.tickets, done.refused) == (tuple(some), {})
    assert not set(waiting(desk, 100)) & set(some)
    with pytest.raises(StoreError, match="no action of 'bob' to undo"):
        undo_action(desk, BOB, done.batch)
    assert undo_action(desk, ANN, done.batch).tickets == tuple(some)
    assert states(desk, some) == before
    with pytest.raises(StoreError, match="no action of 'ann' to undo"):
        undo_action(desk, ANN, done.batch)
    decide_many(desk, ANN, some, None)
    assert {one.label for one in corrections(desk)} == {""}


def test_a_ticket_that_somebody_else_has_open_is_refused(desk):
    held = ids(claim(desk, BOB, most=1))
    free = [one for one in waiting(desk, 9) if one not in held]
    done = decide_many(desk, ANN, [*held, free[0], 9999], "billing")
    assert done.tickets == (free[0],)
    assert "'bob' has ticket #" in done.refused[held[0]]
    assert "no ticket #9999" in done.refused[9999]
    assert record(desk, BOB, [NewDecision("k", held[0], "label", "billing")]).stored == ("k",)
    assert disagreements(desk) == []


def test_invalid_actions_are_refused(desk):
    viewer, many = Person("eve", "viewer"), range(1, MOST_TOGETHER + 2)
    for tickets in ([], many):
        with pytest.raises(StoreError, match="tickets at once"):
            later_many(desk, ANN, tickets)
    with pytest.raises(StoreError, match="the label 'x'"):
        decide_many(desk, ANN, [1], "x")
    with pytest.raises(StoreError, match="a note of 0 characters"):
        note_many(desk, ANN, [1], " ")
    for action in (later_many, bring_back_many):
        with pytest.raises(RoleError):
            action(desk, viewer, [1])


def test_an_assigned_ticket_goes_to_that_person_only(desk):
    one, other = waiting(desk, 2)
    done = assign_many(desk, ANN, [one, other], " BOB ")
    assert listed(desk, assigned_to="bob") == {one, other}
    assert not {one, other} & set(ids(claim(desk, ANN, most=100)))
    release(desk, ANN)
    assert set(ids(claim(desk, BOB, most=100, view="mine"))) == {one, other}
    release(desk, BOB)
    assign_many(desk, ANN, [one], None)
    assert one in ids(claim(desk, ANN, most=100))
    undo_action(desk, ANN, done.batch)
    assert listed(desk, assigned_to="bob") == set()


def test_a_postponed_ticket_waits_in_its_own_view(desk):
    one, other = waiting(desk, 2)
    later_many(desk, ANN, [one, other])
    assert listed(desk, later=True) == {one, other}
    assert not {one, other} & set(ids(claim(desk, BOB, most=100)))
    assert set(ids(claim(desk, BOB, most=100, view="later"))) == {one, other}
    assert open_ticket(desk, BOB, one).later
    decide(desk, BOB, one, "billing")
    later_many(desk, ANN, [other], later=False)
    assert listed(desk, later=True) == set()
    assert other in ids(claim(desk, BOB, most=100))


def test_a_note_names_people_and_is_erased_with_its_ticket(desk):
    claim(desk, Person("bob@example.org", "reviewer"), most=1)
    one, other = waiting(desk, 30)[-2:]
    done = note_many(desk, ANN, [one, other], "zyxwvut for @Bob, please")
    assert listed(desk, mentions="bob@example.org") == {one, other}
    [row] = list_tickets(desk, TicketView(number=f"#{one}")).tickets
    [written] = open_ticket(desk, BOB, one).notes
    assert (row.notes, written.actor, written.text) == (1, "ann", "zyxwvut for @Bob, please")
    with desk.reading() as connection:
        for name in ("key", "label", "assignee", "batch", "kind"):
            values = connection.scalars(select(event.c[name]))
            assert not [value for value in values if "zyxwvut" in str(value)]
    erase_ticket(desk, one, ADMIN)
    assert count_of(desk, note) == count_of(desk, mention) == 1
    undo_action(desk, ANN, done.batch)
    assert count_of(desk, note) == count_of(desk, mention) == 0
    assert listed(desk, mentions="bob@example.org") == set()
    if "://" not in desk.name:
        assert b"zyxwvut" not in Path(desk.name).read_bytes()


def test_mentions_are_names_addresses_and_their_beginnings():
    known = ["ann", "ann lee", "bob@example.org", "bob@example.com"]
    for text, people in (
        ("@Ann!", {"ann"}),
        ("see @ANN  Lee.", {"ann", "ann lee"}),
        ("@bob", {"bob@example.org", "bob@example.com"}),
        ("@bob@example.org, now", {"bob@example.org"}),
        ("@eve.", {"eve"}),
        ("ann@example.org", set()),
        ("nobody", set()),
    ):
        assert mentioned(text, known) == people, text


def test_a_disagreement_is_settled_and_undone(desk):
    one = waiting(desk, 1)[0]
    decide(desk, ANN, one, "billing")
    decide(desk, BOB, one, None)
    [found] = disagreements(desk)
    assert (found.labels, bool(found.text)) == ({"ann": "billing", "bob": ""}, True)
    with pytest.raises(RoleError):
        settle(desk, one, "billing", ANN)
    with pytest.raises(StoreError, match="nothing to settle"):
        settle(desk, waiting(desk, 1)[0], "billing", ADMIN)
    done = settle(desk, one, "hardware", ADMIN)
    assert disagreements(desk) == []
    [row] = corrections(desk)
    assert (row.ticket, row.label, row.actor, row.blind) == (one, "hardware", "root", False)
    assert settle(desk, one, None, ADMIN).tickets == (one,)
    assert [row.label for row in corrections(desk)] == [""]
    undo_action(desk, ADMIN, done.batch)
    assert [row.label for row in corrections(desk)] == [""]


def test_a_reopened_ticket_waits_as_if_nobody_had_decided(desk):
    total = sum(waiting_tickets(desk).values())
    decided, skipped = waiting(desk, 2)
    decide(desk, ANN, decided, "billing")
    record(desk, ANN, [NewDecision("s", skipped, "skip")])
    [automatic, *_] = listed(desk, state="automatic")
    refused = bring_back_many(desk, BOB, [decided, skipped]).refused
    assert list(refused) == [decided]
    assert "expected the role admin" in refused[decided]
    done = bring_back_many(desk, ADMIN, [decided, automatic])
    assert states(desk, [decided, skipped, automatic]) == ["waiting"] * 3
    assert sum(waiting_tickets(desk).values()) == total + 1
    assert list(corrections(desk)) == []
    assert set(ids(claim(desk, ANN, most=100))) >= {decided, skipped, automatic}
    undo_action(desk, ADMIN, done.batch)
    assert states(desk, [decided, automatic]) == ["decided", "automatic"]
    assert sum(waiting_tickets(desk).values()) == total - 1


def test_todays_work_and_the_agreement_of_people_are_measured(desk):
    desk.set_setting("double_share", 1.0, ADMIN)
    assert agreement_report(desk).all.value is None
    for person in (ANN, BOB):
        claim(desk, person, most=1)
        release(desk, person)
    assert seen_people(desk) == ["ann", "bob"]
    both = ids(claim(desk, ANN, most=6))
    moment = now()
    for number, one in enumerate(both):
        label = ("billing", "hardware")[number % 2]
        decide(desk, ANN, one, label, shown_at=moment - 10 - number, decided_at=moment)
    release(desk, ANN)
    claim(desk, BOB, most=100)
    for number, one in enumerate(both):
        decide(desk, BOB, one, ("billing", "hardware")[number % 2 or number == 0])
    for person, seconds in zip(people_today(desk), (12.5, None), strict=True):
        assert (person.decisions, person.median_seconds) == (6, seconds)
    found = agreement_report(desk)
    assert found.all.tickets == 6
    assert found.pairs["ann", "bob"].value == pytest.approx(2 / 3)
    assert 0 < found.all.value < 1
