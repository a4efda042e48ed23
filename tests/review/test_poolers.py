"""A review store behind PgBouncer, where programs share connections."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bertcnn.errors import StoreError
from bertcnn.review.audits import audit_report
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from tests.review.conftest import execute, new_row, refused, rows
from tests.review.desk import decide, filled, ids

pytestmark = pytest.mark.parametrize("place", ["pgbouncer"], indirect=True)


def test_two_clients_work_at_once(store, open_again, encoder_folder):
    filled(store, encoder_folder, 40, audited=1.0)

    def work(name):
        mine, person, found = open_again(), Person(name, "reviewer"), []
        for _ in range(6):
            for ticket in ids(claim(mine, person, most=3)):
                decide(mine, person, ticket, "billing")
                found.append(ticket)
            audit_report(mine)
        return found

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(work, ["ann", "bob"])
    assert len(first) == len(second) == 18
    assert set(first).isdisjoint(second)


def test_shared_connections_keep_no_settings(store, place):
    for number in range(20):
        with store.writing() as connection:
            connection.execute(new_row(str(number)))
        assert rows(store) == number + 1
    shown = [
        execute(place, f"SHOW {name}")[0][0]
        for name in ("lock_timeout", "idle_in_transaction_session_timeout")
        for _ in range(4)
    ]
    assert set(shown) == {"0"}
    assert execute(place, "SELECT statement FROM pg_prepared_statements") == []


def test_a_timeout_of_the_server_is_a_passing_error(store, place):
    with refused(StoreError, "is busy", "statement timeout") as caught, store.writing() as changes:
        changes.exec_driver_sql("SET LOCAL statement_timeout = '50ms'")
        changes.exec_driver_sql("SELECT pg_sleep(1)")
    assert caught.value.passes
