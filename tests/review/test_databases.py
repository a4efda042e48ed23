"""SQLite and PostgreSQL: refused places with their messages, and connections."""

import gc
import os
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from bertcnn.errors import OutputError, StoreError
from bertcnn.review.databases import _WAL_FROM
from bertcnn.review.schema import VERSION, setting
from bertcnn.review.store import open_review
from tests.review.conftest import execute, make_version, new_row, refused, rows

NAMES = ("a b.db", "a#b.db", "a?mode=ro.db", "50%.db", "Größe 票.db", "it's.db", 'a"b.db', "a;b")
NAMES += (":memory:", "file:review.db?mode=memory", "file:review.db", "~/review.db")
NOBODY = 65534
_WAL = sqlite3.sqlite_version_info >= _WAL_FROM


# === Files ===


@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_have_any_name_whatever_it_means_to_sqlite(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    store = open_review(name)
    monkeypatch.chdir("/")
    with store.writing() as connection:
        connection.execute(new_row())
    file = tmp_path / name.removeprefix("~/")
    assert rows(open_review(str(file), create=False)) == 1
    assert [path for path in tmp_path.iterdir() if "-journal" not in path.name] == [file]


def test_a_missing_store_is_only_made_on_request(tmp_path):
    with refused(StoreError, f"no review store at {tmp_path / 'review.db'}"):
        open_review(tmp_path / "review.db", create=False)
    (tmp_path / "empty.db").touch()
    with refused(StoreError, "empty.db is not a review store"):
        open_review(tmp_path / "empty.db", create=False)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]
    assert (tmp_path / "empty.db").stat().st_size == 0
    open_review(tmp_path / "empty.db")


def test_a_place_for_no_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for place, message in (
        (tmp_path, "is a folder, or in none"),
        (tmp_path / "none" / "review.db", "is a folder, or in none"),
        (tmp_path / "file" / "review.db", "is a folder, or in none"),
        (tmp_path / ("a" * 300), "too long (300 bytes)"),
        (os.devnull, "is a pipe or a device"),
    ):
        with refused(OutputError, message):
            open_review(place)


def test_a_file_of_something_else_is_refused_and_stays(tmp_path):
    (tmp_path / "junk.db").write_bytes(b"text,label\n" * 500)
    with refused(StoreError, "junk.db is not a review store", "file is not a database"):
        open_review(tmp_path / "junk.db")
    assert (tmp_path / "junk.db").read_bytes() == b"text,label\n" * 500


@pytest.mark.parametrize("table", ["song", "setting"])
def test_a_database_of_something_else_is_refused_and_stays(place, table):
    if isinstance(place, Path):
        execute(place, "PRAGMA journal_mode = WAL")
    execute(place, f"CREATE TABLE {table} (id INTEGER)")
    before = place.read_bytes() if isinstance(place, Path) else b""
    for create in (True, False):
        with refused(StoreError):
            open_review(place, create=create)
    assert (place.read_bytes() if isinstance(place, Path) else b"") == before
    execute(place, f"INSERT INTO {table} VALUES (1)")


def test_a_damaged_file_is_named_damaged(tmp_path):
    place = tmp_path / "review.db"
    store = open_review(place)
    with place.open("rb+") as file:
        file.seek(4096)
        file.write(b"\xff" * (place.stat().st_size - 4096))
    with refused(StoreError, "review.db is not a review store, or is damaged", "malformed"):
        open_review(place)
    with refused(StoreError, "malformed"):
        rows(store)


def test_a_full_disk_is_named_and_leaves_the_store_as_it_was(tmp_path, largest_file):
    store = open_review(tmp_path / "review.db")
    with (
        refused(OutputError, "review.db cannot be read or written", "room on the disk"),
        largest_file(8192),
        store.writing() as connection,
    ):
        for number in range(3000):
            connection.execute(new_row(str(number)))
    assert rows(store) == 0


@pytest.fixture
def folder():
    """A folder that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextmanager
def somebody_else():
    """A context in which this process is not root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_file_without_the_right_to_write_can_be_read(folder):
    store = open_review(folder / "review.db")
    (folder / "review.db").chmod(0o444)
    with somebody_else():
        store = open_review(folder / "review.db", create=False)
        assert rows(store) == 0
        with refused(OutputError, "cannot be read or written"), store.writing() as connection:
            connection.execute(new_row())


@pytest.mark.skipif(_WAL, reason="a journal in WAL mode needs a file beside it to be read")
@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_folder_without_the_right_to_write_can_be_read(folder):
    open_review(folder / "review.db")
    (folder / "review.db").chmod(0o666)
    (folder / "review.db-journal").unlink(missing_ok=True)
    folder.chmod(0o555)
    with somebody_else():
        store = open_review(folder / "review.db")
        assert rows(store) == 0
        with refused(OutputError, "cannot be read or written"), store.writing() as connection:
            connection.execute(new_row())
        with refused(OutputError, "cannot be written (permission denied)"):
            open_review(folder / "new.db")
    folder.chmod(0o777)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_file_without_the_right_to_read_is_named(folder):
    open_review(folder / "review.db")
    (folder / "review.db").chmod(0o000)
    with somebody_else(), refused(OutputError, "cannot be read or written"):
        open_review(folder / "review.db")
    folder.chmod(0o000)
    with somebody_else(), refused(OutputError, "permission denied"):
        open_review(folder / "review.db")
    folder.chmod(0o777)


@pytest.mark.parametrize(
    "address",
    [
        "mysql://ada:hidden@host/database",
        "postgres://ada:hidden@host/database",
        "sqlite:///review.db",
        "postgresql://ada:hidden@host",
        "postgresql://ada:hidden@host:port/database",
        "postgresql://ada:hid@den@host/database",
        "://ada:hidden",
    ],
)
def test_an_address_of_something_else_is_refused_without_its_password(address):
    with pytest.raises(StoreError, match="postgresql://USER@HOST/DATABASE") as caught:
        open_review(address)
    assert repr(address.partition("://")[0] + "://") in str(caught.value)
    assert "hid" not in str(caught.value)
    assert "den" not in str(caught.value)


# === PostgreSQL ===


def test_no_password_is_shown(postgres, database):
    with closing(open_review(database)) as store:
        assert store.name.startswith("postgresql://bertcnn:***@/review")
    with pytest.raises(StoreError, match="ada@/none") as caught:
        open_review(f"postgresql://ada@/none?host={postgres.folder}&password=hidden")
    assert "hidden" not in str(caught.value)


def test_a_wrong_password_and_a_server_that_is_not_there_are_named(postgres):
    for url, message in (
        (postgres.url("postgres", password="hidden"), "password authentication failed"),
        (postgres.url("none"), 'database "none" does not exist'),
        ("postgresql://ada@/review?host=/nowhere", "No such file or directory"),
        ("postgresql://ada@127.0.0.1:1/review", "onnection refused"),
        (postgres.url("postgres") + "&colour=red", 'invalid connection option "colour"'),
    ):
        with refused(StoreError, "cannot be used", message):
            open_review(url)


def test_a_database_that_cannot_hold_every_text_is_refused(postgres):
    url = postgres.new_database("ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with refused(StoreError, "a database in LATIN1", "ENCODING 'UTF8'"):
        open_review(url)
    postgres.drop(url)


def test_missing_rights_are_reported(database):
    execute(database, "CREATE ROLE ada LOGIN PASSWORD 'ada'")
    execute(database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # the default of PostgreSQL 15
    hers = f"postgresql://ada:ada@{database.partition('@')[2]}"
    with refused(StoreError, "cannot be used", "permission denied for schema public"):
        open_review(hers)
    open_review(database).close()
    execute(database, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO ada")
    with closing(open_review(hers)) as store:
        assert rows(store) == 0
        with refused(StoreError, "permission denied for table"), store.writing() as connection:
            connection.execute(new_row())
    execute(database, "DROP OWNED BY ada; DROP ROLE ada")


# === Connections ===


def test_sqlite_is_durable_checks_keys_and_overwrites_what_is_deleted(tmp_path):
    wanted = {
        "synchronous": 2,
        "foreign_keys": 1,
        "recursive_triggers": 1,
        "secure_delete": 1,
        "busy_timeout": 10_000,
    }
    store = open_review(tmp_path / "review.db")
    for access, query_only in ((store.reading, 1), (store.writing, 0)):
        with access() as connection:
            found = {name: connection.scalar(text(f"PRAGMA {name}")) for name in wanted}
            assert found == wanted
            assert connection.scalar(text("PRAGMA query_only")) == query_only
    with store.writing() as connection:
        mode = connection.scalar(text("PRAGMA journal_mode"))
        assert mode == ("wal" if _WAL else "truncate")


def test_postgresql_reads_one_state_and_ends_what_waits_too_long(database):
    store = open_review(database)
    names = ("transaction_isolation", "transaction_read_only", "lock_timeout")
    names = (*names, "idle_in_transaction_session_timeout", "client_encoding")
    found = []
    for access in (store.reading, store.writing, store.reading):  # on the same connection
        with access() as connection:
            found.append([connection.scalar(text(f"SHOW {name}")) for name in names])
    assert found[0] == found[2] == ["repeatable read", "on", "10s", "1min", "UTF8"]
    assert found[1] == ["read committed", "off", "10s", "1min", "UTF8"]
    store.close()


def has_connections(postgres, url, number):
    """Whether the server has `number` connections to a database; closing one takes a moment."""
    name = url.partition("@/")[2].partition("?")[0]
    query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    until = monotonic() + 10
    while execute(postgres.url("postgres"), query) != [(number,)]:
        if monotonic() > until:
            return False
        sleep(0.02)
    return True


def open_files(name):
    """The number of this process's handles on files with this name."""
    targets = []
    for handle in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            targets.append(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115
    return sum(name in target for target in targets)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux lists a process's files")
def test_no_handle_of_a_file_stays_open(tmp_path):
    store = open_review(tmp_path / "kept.db")
    for _ in range(2):
        with suppress(IntegrityError), store.writing() as connection:
            connection.execute(new_row())
    with store.reading() as connection:
        connection.execute(select(setting)).first()
        assert open_files("kept.db") > 0
    make_version(tmp_path / "kept.db", 0)
    with pytest.raises(StoreError):
        open_review(tmp_path / "kept.db")
    assert open_files("kept.db") == 0


def test_no_connection_stays_open(postgres, database):
    store = open_review(database)
    rows(store)
    assert has_connections(postgres, database, 1)
    store.close()
    assert has_connections(postgres, database, 0)
    make_version(database, 0)
    with pytest.raises(StoreError):
        open_review(database)
    make_version(database, VERSION)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows(open_review(database))  # nothing refers to it any more
        gc.collect()
    assert [str(one.message) for one in caught] == []  # psycopg warns about unclosed connections
    assert has_connections(postgres, database, 0)


def test_a_store_outlives_a_restart_of_its_server(postgres, database):
    store = open_review(database)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'review%'"
    assert rows(store) == 0
    postgres.execute(end)
    assert rows(store) == 0
    with refused(StoreError, "cannot be used", "that runs"), store.writing() as connection:
        connection.execute(new_row())
        postgres.execute(end)
        connection.execute(new_row("b"))
    assert rows(store) == 0
    store.close()


@pytest.mark.parametrize("first", ["bertcnn", "tensorflow"])
def test_a_store_is_opened_beside_tensorflow_or_says_what_to_do(first, tmp_path):
    program = (
        f"import {first}, tensorflow\nfrom bertcnn.errors import StoreError\n"
        "from bertcnn.review import open_review\n"
        f"try: open_review({str(tmp_path / 'review.db')!r})\n"
        "except StoreError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refused = "import bertcnn before tensorflow" in done.stdout
    assert refused == (first == "tensorflow")
