"""Leases and the order of the queue."""

import threading
from collections import Counter

import pytest
from sqlalchemy import select, update

from bertcnn.errors import RoleError, SettingsError
from bertcnn.review import queue as queue_module
from bertcnn.review.people import Person
from bertcnn.review.queue import claim, release, renew
from bertcnn.review.schema import queue
from tests.review.desk import ANN, BOB, decide, filled, ids


def places(store):
    with store.reading() as connection:
        return {row.ticket: row for row in connection.execute(select(queue))}


def test_audits_come_first_then_hours_then_the_least_certain(store, encoder_folder):
    filled(store, encoder_folder, 40, hour=1200.0)
    known = places(store)
    leased = claim(store, ANN, most=40)
    order = [
        (not known[one.id].audit, known[one.id].place, known[one.id].certainty) for one in leased
    ]
    assert order == sorted(order)
    assert len({place for _, place, _ in order}) > 3


def test_two_people_never_get_the_same_ticket(store, encoder_folder, open_again):
    filled(store, encoder_folder, 60, audited=1.0)
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


def test_a_reload_gives_the_same_tickets_and_a_lease_ends(store, encoder_folder, monkeypatch):
    filled(store, encoder_folder, 30)
    mine = ids(claim(store, ANN, most=5))
    assert ids(claim(store, ANN, most=5)) == mine
    assert not set(ids(claim(store, BOB, most=30))) & set(mine)
    later = queue_module.now() + queue_module.LEASE + 1
    monkeypatch.setattr(queue_module, "now", lambda: later)
    assert set(mine) <= set(ids(claim(store, BOB, most=30)))


def test_leases_are_renewed_and_given_back(store, encoder_folder, monkeypatch):
    filled(store, encoder_folder, 30)
    mine = ids(claim(store, ANN, most=5))
    start = queue_module.now()
    monkeypatch.setattr(queue_module, "now", lambda: start + queue_module.LEASE - 1)
    assert renew(store, ANN, mine) == sorted(mine)
    assert renew(store, BOB, mine) == []
    monkeypatch.setattr(queue_module, "now", lambda: start + queue_module.LEASE + 1)
    assert not set(mine) & set(ids(claim(store, BOB, most=30)))
    release(store, BOB)
    release(store, ANN, mine[:2])
    assert set(mine[:2]) == set(mine) & set(ids(claim(store, BOB, most=30)))


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


def test_who_may_claim_and_how_many(store):
    for most in (0, -1, 1001):
        with pytest.raises(SettingsError, match="tickets at a time; expected 1 to 1000"):
            claim(store, ANN, most=most)
    with pytest.raises(RoleError, match="expected the role reviewer"):
        claim(store, Person("eve", "viewer"))
