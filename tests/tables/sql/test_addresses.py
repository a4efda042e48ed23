"""Database addresses, and the errors of unusable ones; never with a password."""

import sqlite3
from contextlib import closing
from urllib.parse import quote

import pytest

from bertcnn import score_table
from bertcnn.errors import DatabaseError, OutputError, SettingsError, one_line
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tables.sql.addresses import database_at, is_address
from bertcnn.tables.sql.identifiers import TableName
from bertcnn.tables.sql.targets import Target
from tests.listener import Listener, interrupt
from tests.review.conftest import PASSWORD, USER
from tests.tables.sql.conftest import LITE, refused
from tests.tables.sql.test_score_table import QUERY

SECRET = "hunter2"


def test_addresses_are_distinguished_from_paths():
    assert all(map(is_address, ("postgresql://host/db", "sqlite:///a.db", "s3://bucket/in.csv")))
    assert not any(map(is_address, ("in.csv", "C://in.csv", "folder/with://colons")))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"postgresql://me:{SECRET}@host:5432/db?sslmode=require", "postgresql://me@host:5432/db"),
        (f"postgres://me:{SECRET}@[::1]:5432,b/db", "postgresql://me@[::1]:5432,b/db"),
        (f"postgresql://@/db?host=%2Frun&password={SECRET}", "postgresql://@/db"),
        ("postgresql:///db", "postgresql:///db"),
    ],
)
def test_an_address_is_shown_without_its_password(address, shown):
    assert database_at(address).name == shown


@pytest.mark.parametrize(
    "address",
    [
        f"mysql://me:{SECRET}@host/db",
        f"postgresql+psycopg://me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}/@host/db",
        f"postgresql://me:{SECRET}#1@host/db",
        f"postgresql://me:{SECRET}?@host/db",
        f"postgresql://me:{SECRET}@1@host/db",
        f"postgresql://me:{SECRET}%zz@host/db",
        f"postgresql://me:{SECRET}@[host/db",
        f"postgresql://me:{SECRET}/db",
        "sqlite:///",
        "sqlite://desk.db",
    ],
)
def test_an_invalid_address_is_refused_without_showing_its_password(address):
    with pytest.raises(DatabaseError) as caught:
        database_at(address)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


def test_a_missing_file_is_not_made(tmp_path):
    with refused(DatabaseError, "there is no database", "no.db", "four slashes"):
        database_at(f"sqlite:///{tmp_path}/no.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_database_is_refused(tmp_path, predictor):
    (tmp_path / "in.csv").write_text("id,text\n1,router\n" * 100)
    with refused(DatabaseError, "the query cannot be run", "file is not a database"):
        score_table(predictor, f"sqlite:///{tmp_path}/in.csv", query=QUERY, into="answers")


def test_the_password_is_shown_nowhere(postgres, predictor, cache):
    address = postgres.new_database()
    told = Listener(interrupt, 1, stage="scoring")
    options = {"into": "answers", "progress": told}
    query = "select id, 'router ' || id as text from generate_series(1, 500) as id"
    assert quote(PASSWORD, safe="") in address
    with pytest.raises(ScoringInterrupted):
        score_table(predictor, address, query=query, **options)
    (journal,) = (cache / "databases").iterdir()
    kept = [*told.notes, journal.name, journal.read_bytes().decode("latin-1")]
    for query in ("select from", "select no from tickets"):
        with pytest.raises(DatabaseError) as caught:
            score_table(predictor, address, query=query, **options)
        kept.append(str(caught.value))
    assert not [one for one in kept if PASSWORD in one or quote(PASSWORD, safe="") in one]
    postgres.drop(address)


def test_the_password_may_come_from_where_libpq_finds_it(
    postgres, predictor, monkeypatch, tmp_path
):
    address = postgres.new_database().replace(f":{quote(PASSWORD, safe='')}@", "@")
    query = "select 1 as id, 'router' as text"
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with refused(DatabaseError, "cannot be reached", "no password supplied", "~/.pgpass") as _:
        score_table(predictor, address, query=query, into="answers")
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:{USER}:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert score_table(predictor, address, query=query, into="answers").rows == 1
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert score_table(predictor, address, query=query, into="answers").rows == 1


@pytest.mark.parametrize(
    ("change", "word", "passes"),
    [
        (lambda url: url.replace(quote(PASSWORD, safe=""), SECRET), "password auth", False),
        (lambda url: url.replace("review", "nowhere"), "does not exist", False),
        (lambda _: f"postgresql://me:{SECRET}@127.0.0.1:1/desk", "refused", True),
    ],
)
def test_a_database_that_cannot_be_reached_may_be_there_later(
    postgres, predictor, change, word, passes
):
    address = postgres.new_database()
    with pytest.raises(DatabaseError, match=word) as caught:
        score_table(predictor, change(address), query=QUERY, into="answers")
    assert caught.value.passes == passes
    assert SECRET not in str(caught.value)
    postgres.drop(address)


def test_a_lost_connection_and_a_locked_table_pass(tickets, predictor, monkeypatch):
    monkeypatch.setattr("bertcnn.tables.sql.spool._PATIENCE", 0.1)
    monkeypatch.setattr("bertcnn.tables.sql.postgresql._SETTINGS", ("SET lock_timeout = '100ms'",))
    score_table(predictor, tickets.address, query=QUERY, into="answers")
    with tickets.connect() as connection:
        connection.execute("BEGIN IMMEDIATE" if tickets.kind == LITE else "LOCK TABLE answers")
        with pytest.raises(DatabaseError, match=r"the table answers cannot be written") as caught:
            score_table(predictor, tickets.address, query=QUERY, into="answers")
        connection.rollback()
    assert caught.value.passes
    if tickets.kind == LITE:
        return

    def cut():
        tickets.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database()"
        )

    told = Listener(cut, 1, stage="writing")
    with pytest.raises(DatabaseError, match=r"run the same command again") as caught:
        score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    assert caught.value.passes
    assert score_table(predictor, tickets.address, query=QUERY, into="answers").rows == 434


def test_two_runs_into_the_same_table_do_not_mix_their_answers(tickets, predictor):
    def again():
        score_table(predictor, tickets.address, query=QUERY, into="Answers")

    told = Listener(again, 1, stage="scoring")
    with refused(OutputError, "another run is writing the table answers"):
        score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)


def test_a_full_disk_of_temporary_files_passes(tickets, predictor, monkeypatch):
    from bertcnn.tables.sql.spool import Spool

    add = Spool.add

    def limited(spool, rows):
        spool.connection.execute("PRAGMA max_page_count = 3")
        add(spool, rows)

    monkeypatch.setattr(Spool, "add", limited)
    with pytest.raises(OutputError, match=r"cannot be kept on disk .*SQLITE_TMPDIR") as caught:
        score_table(predictor, tickets.address, query=QUERY, into="answers")
    assert caught.value.passes


def test_a_table_that_cannot_be_made_is_refused_before_any_scoring(tmp_path, predictor):
    file = tmp_path / "desk.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE tickets AS SELECT 1 AS id, 'router' AS text")
    told = Listener()
    with refused(DatabaseError, "the table sqlite_new cannot be written", "reserved"):
        score_table(predictor, f"sqlite:///{file}", query=QUERY, into="sqlite_new", progress=told)
    assert told.stages == []


@pytest.mark.parametrize(
    ("given", "table", "schema"),
    [
        ("answers", "answers", None),
        ("Triage.Answers", "answers", "triage"),
        ('"Answers"', "Answers", None),
        ('a."b.""c"', 'b."c'.replace('."', '."'), "a"),
        ('"a.b.c"', "a.b.c", None),
        ("my answers", "my answers", None),
    ],
)
def test_a_name_is_read_as_sql_reads_it(given, table, schema):
    assert TableName.of(given) == TableName(table, schema)


@pytest.mark.parametrize("given", ["desk.public.answers", 'a."b c".d', ".answers", "a..b", "a b.c"])
def test_dots_that_are_not_between_schema_and_table_are_refused(given):
    with refused(SettingsError, one_line(given), "SCHEMA.TABLE", "in quotes"):
        TableName.of(given)
    for blank in ("", "  ", "a\0b"):
        with refused(SettingsError, "as the name of a table"):
            TableName.of(blank)


def test_more_columns_than_a_table_can_have_are_refused():
    shares = {f"p_{number}": True for number in range(1600)}
    with refused(DatabaseError, "1,601 columns for the table 'answers'", "--probabilities"):
        Target(TableName("answers"), "id", "integer", shares)
