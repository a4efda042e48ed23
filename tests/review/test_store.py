"""The review store: transactions, one writer at a time, versions."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from bertcnn.errors import OutputError, RoleError, SettingsError, StoreError
from bertcnn.review.databases import _WAL_FROM
from bertcnn.review.people import Person
from bertcnn.review.schema import VERSION, event, model, model_event, test_row, ticket
from bertcnn.review.store import open_review
from tests.review.conftest import make_version, new_row, refused, rows


def add_ticket(connection, external_id="1"):
    columns = {"columns": {}, "received_at": 1.0, "text_hash": "0"}
    connection.execute(
        insert(ticket).values(source="s", external_id=external_id, text="a secret", **columns)
    )


def add_decision(connection, key="k"):
    times = {"decided_at": 1.0, "stored_at": 1.0}
    connection.execute(
        insert(event).values(key=key, ticket=1, actor="Ada", kind="skip", blind=False, **times)
    )


def add_model(connection):
    others = {"precision": 0.9, "added_at": 1.0}
    connection.execute(insert(model).values(id="m", folder="f", labels=[], **others))
    values = {"kind": "added", "actor": "Ada", "at": 1.0, "reason": "", "figures": {}}
    connection.execute(insert(model_event).values(model="m", **values))


def value_of(store, statement):
    with store.reading() as connection:
        return connection.scalar(text(statement))


def is_sqlite(store):
    with store.reading() as connection:
        return connection.dialect.name == "sqlite"


# === Transactions ===


def test_a_transaction_that_raises_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.writing() as connection:  # noqa: PT012
        connection.execute(new_row())
        raise ZeroDivisionError
    assert rows(store) == 0


def test_a_reader_sees_one_state(store, open_again):
    other = open_again()

    def write():
        with other.writing() as connection:
            connection.execute(new_row())

    count = select(func.count()).select_from(test_row)
    with store.reading() as connection:
        before = connection.scalar(count)
        writer = Thread(target=write)
        writer.start()
        writer.join(0.2)  # in SQLite the writer waits for the end of this block
        assert connection.scalar(count) == before == 0
    writer.join()
    assert rows(store) == 1


def test_a_reader_changes_nothing(store):
    words = "readonly" if is_sqlite(store) else "read-only"
    kind = OutputError if is_sqlite(store) else StoreError
    with refused(kind, words), store.reading() as connection:
        connection.execute(new_row())
    with store.writing() as connection:
        connection.execute(new_row())
    assert rows(store) == 1


@pytest.mark.parametrize("table", [event, model_event])
def test_rows_of_events_are_never_changed(store, table):
    with store.writing() as connection:
        add_ticket(connection)
        add_decision(connection)
        add_model(connection)
    statements = [update(table).values(actor="Eve"), delete(table)]
    if is_sqlite(store):
        statements.append(text(f"INSERT OR REPLACE INTO {table.name} SELECT * FROM {table.name}"))
        statements.append(text(f"UPDATE OR REPLACE {table.name} SET actor = 'Eve'"))
    else:
        above = "ticket" if table is event else "model"
        statements += [text(f"TRUNCATE {name}") for name in (table.name, f"{above} CASCADE")]
    for statement in statements:
        with (
            pytest.raises(DBAPIError, match=f"rows of {table.name} are never changed"),
            store.writing() as connection,
        ):
            connection.execute(statement)
    with store.reading() as connection:
        assert connection.scalars(select(table.c.actor)).all() == ["Ada"]


def test_a_database_error_shows_no_text_of_a_ticket(store):
    with store.writing() as connection:
        add_ticket(connection)
    with pytest.raises(IntegrityError) as caught, store.writing() as connection:
        add_ticket(connection)
    assert "secret" not in str(caught.value)


def test_threads_share_a_store_and_change_it_one_after_the_other(store):
    """Each thread reads a number and writes it back, one higher: no update is lost."""

    def count_up(number):
        with store.writing() as connection:
            before = connection.scalar(select(test_row.c.added_at))
            connection.execute(update(test_row).values(added_at=before + 1))
            connection.execute(new_row(str(number)).values(added_at=before + 1))
        return rows(store)

    with store.writing() as connection:
        connection.execute(new_row("counted", at=0.0))
    with ThreadPoolExecutor(16) as pool:
        seen = list(pool.map(count_up, range(48)))
    assert max(seen) == rows(store) == 49
    assert value_of(store, "SELECT added_at FROM test_row WHERE text_hash = 'counted'") == 48


def test_hashes_are_hmac_sha256(store):
    store.secret = b"Jefe"  # RFC 4231, test case 2
    assert store.hashed("what do ya want for nothing?") == "5bdcc146bf60754e6a042426089575c7"


def test_a_store_keeps_its_secret_and_no_other_has_it(store, open_again, tmp_path):
    assert store.hashed("\ud800 a") == open_again().hashed("\ud800 a")
    assert store.hashed("a") != open_review(tmp_path / "other.db").hashed("a")
    assert len(store.secret) == 32


def test_settings_are_kept_and_wrong_ones_refused(store, open_again):
    admin = Person("root")
    assert (store.setting("audit_share"), store.setting("own", "first")) == (0.2, "first")
    store.set_setting("audit_share", 0.5, admin)
    store.set_setting("time_zone", "Europe/Berlin", admin)
    store.set_setting("own", "second", admin)
    again = open_again()
    names = ("audit_share", "time_zone", "own")
    assert [again.setting(name, "first") for name in names] == [0.5, "Europe/Berlin", "second"]
    for name, value, expected in (
        ("time_zone", "Berlin", "a zone such as Europe/Berlin"),
        ("double_share", 1.5, "a value such as 0.05"),
        ("audit_share", "much", "a value such as 0.2"),
    ):
        with refused(SettingsError, name, expected):
            store.set_setting(name, value, admin)
    with refused(RoleError, "admin"):
        store.set_setting("audit_share", 0.1, Person("eve", "viewer"))


# === Busy ===


@pytest.mark.usefixtures("impatient")
def test_a_store_in_which_somebody_writes_for_too_long_is_busy(open_again):
    store, other = open_again(), open_again()
    with store.writing() as connection:
        connection.execute(new_row("a"))
        with refused(StoreError, store.name, "is busy", "for 0.2 s"), other.writing():
            pass
    with other.writing() as connection:
        connection.execute(new_row("b"))
    assert rows(store) == 2


@pytest.mark.skipif(sqlite3.sqlite_version_info >= _WAL_FROM, reason="readers hold up nobody")
@pytest.mark.usefixtures("impatient")
def test_a_writer_that_cannot_commit_for_a_reader_leaves_nothing(tmp_path):
    store = open_review(tmp_path / "review.db")
    with store.reading() as reader:
        reader.scalar(select(func.count()).select_from(test_row))
        with refused(StoreError, "busy", "database is locked"), store.writing() as connection:
            connection.execute(new_row())
    assert rows(store) == 0
    with store.writing() as connection:
        connection.execute(new_row())
    assert rows(store) == 1


@pytest.mark.usefixtures("impatient")
def test_more_readers_than_connections_wait_and_get_an_error(database):
    store, held = open_review(database), []
    with refused(StoreError, "busy", "all connections are in use"):
        for _ in range(30):
            held.append(store.reading())
            held[-1].__enter__()
    for one in held[:-1]:
        one.__exit__(None, None, None)
    assert rows(store) == 0
    store.close()


# === Versions ===


@pytest.mark.parametrize(("version", "fix"), [(VERSION + 1, "newer"), (VERSION - 1, "new store")])
def test_a_store_of_another_version_is_refused(store, place, open_again, version, fix):
    make_version(place, version)
    with refused(StoreError, store.name, f"version {version}", f"version {VERSION},", fix):
        open_again()
