"""Fixtures for databases: a desk's tickets in SQLite and in PostgreSQL."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pytest

from benchmarks.stub_engine import stub_predictor
from bertcnn.bundle.bundle import write_bundle
from tests.failpoints import tiny_bundle
from tests.review.conftest import pooler, postgres, refused  # noqa: F401 - for the tests

CHUNK_ROWS = 128
ROWS = 3 * CHUNK_ROWS + 50
LITE, POSTGRES = "sqlite", "postgresql"


@dataclass(frozen=True)
class Desk:
    """A database with a table `tickets`, accessed without our library.

    Attributes:
        address: of the database.
        kind: sqlite or postgresql.
    """

    address: str
    kind: str

    def execute(self, statement, rows=None):
        """Run a statement, once for each of the rows if there are any; returns its result."""
        with closing(self.connect()) as connection, connection:
            if rows is None:
                done = connection.execute(statement)
                return done.fetchall() if done.description else []
            if self.kind == POSTGRES:
                statement = statement.replace("?", "%s")
            connection.cursor().executemany(statement, rows)
        return []

    def connect(self):
        if self.kind == LITE:
            return sqlite3.connect(self.address.removeprefix("sqlite:///"))
        import psycopg

        return psycopg.connect(self.address)

    def tables(self):
        of_lite = "SELECT name FROM sqlite_master WHERE type = 'table'"
        query = of_lite if self.kind == LITE else "SELECT tablename FROM pg_tables"
        return {
            name
            for (name,) in self.execute(query)
            if not name.startswith(("pg_", "sql_", "sqlite_"))
        }


@pytest.fixture(params=[LITE, POSTGRES])
def desk(request, tmp_path):
    """An empty database."""
    if request.param == LITE:
        file = tmp_path / "desk.db"
        sqlite3.connect(file).close()
        file.touch()
        yield Desk(f"sqlite:///{file}", LITE)
        return
    server = request.getfixturevalue("postgres")
    address = server.new_database()
    yield Desk(address, POSTGRES)
    server.drop(address)


@pytest.fixture
def tickets(desk):
    """The database with 434 tickets: some blank, some equal, some with odd characters."""
    desk.execute("CREATE TABLE tickets (id integer PRIMARY KEY, text text, team text)")
    desk.execute("INSERT INTO tickets VALUES (?, ?, ?)", ticket_rows())
    return desk


def ticket_rows(rows=ROWS):
    odd = [
        "",
        "  ",
        'a "quoted" router, is',
        "line\none",
        "'; drop table tickets; --",
        "ÄÖ 東京 🙂",
    ]
    return [
        (
            row,
            odd[row % 97] if row % 97 < len(odd) else f"router is {row % 3 and row}",
            f"t{row % 5}",
        )
        for row in range(rows)
    ]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of its own for each test."""
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Reduce the sizes, so that few rows make several chunks and batches."""
    monkeypatch.setattr("bertcnn.scoring.score._CHUNK_ROWS", CHUNK_ROWS)
    monkeypatch.setattr("bertcnn.tables.sql.sqlite._BATCH_ROWS", 100)
    monkeypatch.setattr("bertcnn.tables.sql.postgresql._BATCH_ROWS", 100)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model with random weights and no name of a text column."""
    bundle, chance = tiny_bundle(), np.random.default_rng(0)
    tensors = {
        name: chance.normal(size=tensor.shape).astype(np.float32)
        for name, tensor in bundle.tensors.items()
    }
    config = bundle.config.model_copy(update={"text_columns": ()})
    folder = tmp_path_factory.mktemp("model") / "model"
    write_bundle(replace(bundle, config=config, tensors=tensors), folder)
    return folder


@pytest.fixture(scope="session")
def predictor():
    """A model that answers at once."""
    return stub_predictor()
