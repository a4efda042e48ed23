"""PgBouncer, where programs share connections: no session state outlives a transaction."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from bertcnn import score_table
from bertcnn.errors import DatabaseError
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.review.conftest import POOL, refused
from tests.tables.sql.conftest import POSTGRES, ROWS, Desk
from tests.tables.sql.test_score_table import QUERY, answers

pytestmark = pytest.mark.parametrize("desk", [POSTGRES], indirect=True)


@pytest.fixture
def pooled(tickets, pooler):
    """The tickets, at the pooler's address."""
    return Desk(pooler.same(tickets.address), POSTGRES)


@contextmanager
def another_program(desk):
    """A context in which another program writes; yields its rows and errors."""
    import psycopg

    desk.execute("CREATE TABLE log (line text)")
    done, errors, end = [], [], threading.Event()

    def write():
        with psycopg.connect(desk.address, autocommit=True, prepare_threshold=None) as connection:
            while not end.is_set() and not connection.closed:
                try:
                    connection.execute("INSERT INTO log VALUES ('a')")
                    done.append(1)
                except psycopg.Error as error:
                    errors.append(str(error))

    threads = [threading.Thread(target=write, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield done, errors
    finally:
        end.set()
        for thread in threads:
            thread.join(10)


def test_scoring_does_not_disturb_programs_that_share_its_connections(pooled, predictor):
    with another_program(pooled) as (done, errors):
        for _ in range(3):
            score_table(predictor, pooled.address, query=QUERY, into="answers")
    assert errors == []
    assert pooled.execute("SELECT count(*) FROM log") == [(len(done),)]
    assert len(done) > 0


def test_runs_at_once_share_connections_too(pooled, tickets, predictor):
    names = ["first", "second", "third"]

    def score(name):
        return score_table(predictor, pooled.address, query=QUERY, into=name).rows

    with ThreadPoolExecutor(len(names)) as threads:
        assert list(threads.map(score, names)) == [ROWS] * len(names)
    score_table(predictor, tickets.address, query=QUERY, into="alone")
    for name in names:
        assert answers(tickets, name) == answers(tickets, "alone")


def test_a_limit_of_time_of_the_server_ends_with_75(run, pooled, tickets, model):  # noqa: F811
    (name,) = tickets.execute("SELECT current_database()")[0]
    tickets.execute(f"ALTER DATABASE {name} SET statement_timeout = '300ms'")
    query = "select id, coalesce(pg_sleep(0.01)::text, '') || text as text from tickets"
    where = ("--query", query, "--into", "answers", "--text", "text")
    code, _, err = run("score", model, pooled.address, *where)
    assert code == 75
    assert "canceling statement due to statement timeout" in err.splitlines()[-1]


def test_a_pooler_that_has_no_connection_left_is_busy(pooled, predictor, pooler):
    holders = [pooled.connect() for _ in range(POOL)]
    try:
        for holder in holders:
            holder.execute("SELECT 1")
        pooler.execute("SET query_wait_timeout = 1", "pgbouncer")
        with refused(DatabaseError, "query_wait_timeout") as caught:
            score_table(predictor, pooled.address, query=QUERY, into="answers")
    finally:
        pooler.execute("SET query_wait_timeout = 120", "pgbouncer")
        for holder in holders:
            holder.close()
    assert caught.value.passes
