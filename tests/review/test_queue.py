"""Leases and the order of the queue."""

import threading
from collections import Counter

import pytest
from sqlalchemy import select, update

from bertcnn.errors import RoleError, SettingsError, StoreError
from bertcnn.review.decisions import NewDecision, last_decisions, record
from bertcnn.review.people import Person
from bertcnn.review.queue import (
    BATCH,
    FEW,
    LEASE,
    PLENTY,
    SKIPPED_FOR,
    claim,
    open_ticket,
    renew,
    waiting_tickets,
)
from bertcnn.review.schema import queue
from tests.review.desk import ADMIN, ANN, BOB, decide, filled, ids, pass_time, release


def places(store):
    with store.reading() as connection:
        return {row.ticket: row for row in connection.execute(select(queue))}


def test_reviews_come_by_hour_and_then_the_least_certain_first(store, encoder_folder):
    filled(store, encoder_folder, 40, hour=1200.0)
    known = places(store)
    leased = claim(store, ANN, most=40, view="reviews")
    order = [(known[one.id].place, known[one.id].certainty) for one in leased]
    assert order == sorted(order)
    assert len({place for place, _ in order}) > 3


def test_one_ticket_in_five_is_an_audit_unless_the_setting_says_otherwise(store, encoder_folder):
    filled(store, encoder_folder, 60)
    known = places(store)

    def audits(most, **options):
        leased = claim(store, ANN, most=most, **options)
        release(store, ANN)
        return [bool(known[one.id].audit) for one in leased]

    kinds = audits(10)
    assert kinds == [False, False, False, False, True] * 2
    assert [kinds for _ in range(5) for kinds in audits(1)] == kinds[:5]  # counted on
    assert set(audits(5, view="audits")) == {True}
    assert set(audits(5, view="reviews")) == {False}
    store.set_setting("audit_share", 0.5, ADMIN)
    assert sum(audits(4)) == 2
    rest = audits(1000)
    assert len(rest) == len(known)


def test_a_few_waiting_tickets_are_left_to_others(store, encoder_folder):
    filled(store, encoder_folder, 60, audited=1.0)
    assert len(claim(store, ANN)) == len(claim(store, BOB)) == FEW
    release(store, ANN)
    filled(store, encoder_folder, 60 + PLENTY, audited=1.0)
    assert len(claim(store, ANN)) == BATCH


def test_two_tabs_of_a_person_get_other_tickets(store, encoder_folder):
    filled(store, encoder_folder, 60, audited=1.0)
    first, second = (ids(claim(store, ANN, tab=tab)) for tab in ("a", "b"))
    assert not set(first) & set(second)
    assert ids(claim(store, ANN, tab="a")) == first
    assert renew(store, ANN, first, tab="b") == []
    assert renew(store, ANN, first, tab="a") == sorted(first)


def test_a_skipped_ticket_comes_back_after_an_hour_or_in_its_view(store, encoder_folder):
    filled(store, encoder_folder, 60)
    first, second = ids(claim(store, ANN, most=2))
    for one in (first, second):
        record(store, ANN, [NewDecision(f"skip-{one}", one, "skip")])
    assert not {first, second} & set(ids(claim(store, ANN, most=100)))
    release(store, ANN)
    assert set(ids(claim(store, BOB, most=100))) >= {first, second}
    release(store, BOB)
    assert ids(claim(store, ANN, most=100, view="skipped")) == [first, second]
    record(store, ANN, [NewDecision("again", first, "skip")])
    assert ids(claim(store, ANN, most=100, view="skipped")) == [second, first]
    release(store, ANN)
    pass_time(store, SKIPPED_FOR + 1)
    assert set(ids(claim(store, ANN, most=100))) >= {first, second}


def test_an_opened_ticket_stays_leased_as_long_as_it_is_kept(store, encoder_folder):
    filled(store, encoder_folder, 40)
    [first, *_] = ids(claim(store, ANN, most=1))
    record(store, ANN, [NewDecision("skip", first, "skip")])
    open_ticket(store, ANN, first)
    for _ in range(2):  # each claim renews the lease
        pass_time(store, LEASE - 5)
        assert first not in ids(claim(store, ANN, most=1, keep=[first]))
    assert first not in ids(claim(store, BOB, most=39))
    release(store, BOB)
    claim(store, ANN, most=1)  # it is shown no more
    assert first in ids(claim(store, BOB, most=39))


def test_a_ticket_that_everybody_skipped_is_in_a_view_of_the_lead(store, encoder_folder):
    filled(store, encoder_folder, 60)
    for person in (ANN, BOB):
        claim(store, person, most=1)
        release(store, person)
    one, other = ids(claim(store, ANN, most=2))
    for person, skipped in ((ANN, (one, other)), (BOB, (one,))):
        keys = [NewDecision(f"{person.name}-{at}", at, "skip") for at in skipped]
        record(store, person, keys)
    assert ids(claim(store, BOB, most=100, view="skipped_by_all")) == [one]


def test_some_tickets_go_to_two_people_who_do_not_see_the_answer(store, encoder_folder):
    filled(store, encoder_folder, 60, audited=1e-9)
    store.set_setting("double_share", 1.0, ADMIN)
    assert not all(one.blind for one in claim(store, ANN, most=20))  # alone at work
    release(store, ANN)
    claim(store, BOB, most=1)
    [one] = claim(store, ANN, most=1)
    assert (one.blind, one.label) == (True, None)
    waiting = waiting_tickets(store)["reviews"]
    decide(store, ANN, one.id, "billing")
    assert waiting_tickets(store)["reviews"] == waiting - 1
    assert one.id not in ids(claim(store, ANN, most=100))
    release(store, ANN)
    [again] = [leased for leased in claim(store, BOB, most=100) if leased.id == one.id]
    assert again.blind
    decide(store, BOB, one.id, "hardware")
    assert one.id not in places(store)
    record(store, BOB, [NewDecision("undo", one.id, "undo", undoes=f"bob-{one.id}-hardware")])
    assert places(store)[one.id].second


def test_any_ticket_can_be_opened_and_a_blind_decision_stays_blind(store, encoder_folder):
    filled(store, encoder_folder, 60, audited=1.0)
    [one] = claim(store, ANN, most=1, view="audits")
    assert open_ticket(store, BOB, one.id).held_by == "ann"
    assert open_ticket(store, ANN, one.id).held_by == ""
    decide(store, ANN, one.id, "billing", blind=True)
    assert open_ticket(store, ANN, one.id).blind
    assert open_ticket(store, BOB, one.id).label
    [last] = last_decisions(store, ANN)
    assert (last.ticket, last.kind, last.label) == (one.id, "label", "billing")
    with pytest.raises(StoreError, match="no ticket #9999"):
        open_ticket(store, ANN, 9999)


def test_two_people_never_get_the_same_ticket(store, encoder_folder, open_again):
    filled(store, encoder_folder, 60, audited=1.0)
    store.set_setting("double_share", 0.0, ADMIN)
    found = Counter()
    failures = []

    def work(name):
        mine = open_again()
        try:
            for _ in range(4):
                for one in claim(mine, Person(name, "reviewer"), most=3):
                    found[one.id] += 1
                    decide(mine, Person(name, "reviewer"), one.id, "billing")
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"p{number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert set(found.values()) == {1}
    assert len(found) >= 40


def test_leases_survive_a_reload_are_renewed_and_end(store, encoder_folder):
    filled(store, encoder_folder, 30)
    mine = ids(claim(store, ANN, most=5))
    assert ids(claim(store, ANN, most=5)) == mine
    pass_time(store, LEASE - 5)
    assert renew(store, ANN, mine) == sorted(mine)
    assert renew(store, BOB, mine) == []
    pass_time(store, LEASE - 5)
    assert not set(mine) & set(ids(claim(store, BOB, most=30)))
    release(store, BOB)
    pass_time(store, 6)
    assert renew(store, ANN, mine) == []
    assert set(mine) <= set(ids(claim(store, BOB, most=30)))


def test_near_duplicates_and_one_label_do_not_fill_a_batch(store, encoder_folder):
    filled(store, encoder_folder, 30, hour=1.0, audited=1e-9)
    with store.writing() as connection:
        first, second, *others = connection.scalars(
            select(queue.c.ticket).order_by(queue.c.place, queue.c.certainty, queue.c.ticket)
        )
        connection.execute(update(queue).values(label="billing"))
        some = queue.c.ticket.in_(others[-10:])
        connection.execute(update(queue).where(some).values(label="hardware"))
        pair = queue.c.ticket.in_([first, second])
        connection.execute(update(queue).where(pair).values(similar="same"))
        known = {row.ticket: row.label for row in connection.execute(select(queue))}
    leased = ids(claim(store, ANN, most=6))
    assert first in leased
    assert second not in leased
    assert len(leased) == 6
    assert sum(known[one] == "hardware" for one in leased) == 2
    rest = ids(claim(store, BOB, most=200))
    assert second in rest
    assert len(rest) == len(known) - 6


def test_the_answer_is_held_back_from_a_blind_ticket(store, encoder_folder):
    filled(store, encoder_folder, 60, audited=1.0)
    known = places(store)
    for one in claim(store, ANN, most=60):
        assert one.blind == known[one.id].blind
        assert one.blind or not known[one.id].audit
        if one.blind:
            assert (one.label, one.confidence, one.decision, one.probable) == (None, None, "", ())
            assert (one.because, one.reason) == ((), "")
        else:
            assert one.label
            assert one.probable[0][0] == one.label


def test_roles_and_numbers_limit_a_claim(store):
    for most in (0, -1, 1001):
        with pytest.raises(SettingsError, match="tickets at a time; expected 1 to 1000"):
            claim(store, ANN, most=most)
    with pytest.raises(RoleError, match="expected the role reviewer"):
        claim(store, Person("eve", "viewer"))
    with pytest.raises(SettingsError, match="the view 'all'; expected one of mixed, reviews"):
        claim(store, ANN, view="all")  # type: ignore[arg-type]
