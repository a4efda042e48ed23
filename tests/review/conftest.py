"""Fixtures for reviews: stores in SQLite and in PostgreSQL, with a server of our own."""

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

import pytest
from sqlalchemy import func, insert, select

from bertcnn.review.schema import test_row
from bertcnn.review.store import open_review

USER, PASSWORD = "bertcnn", "a/b c@d%"
_INSTALLED = (  # newest last; not on PATH under Debian, Red Hat and Homebrew
    *Path("/usr/lib/postgresql").glob("*/bin"),
    *Path("/usr").glob("pgsql-*/bin"),
    *Path("/opt/homebrew/opt").glob("postgresql@*/bin"),
)
_NONE = "no PostgreSQL: install its server (Debian: apt install postgresql)"
_NO_POOLER = "no PgBouncer: install it (Debian: apt install pgbouncer)"
# the server and its files go when the parent dies and closes the server's standard input
_WITH_PARENT = (
    'folder=$1; signal=$2; shift 2; "$@" & read -r _; kill "-$signal" $!; wait $!; rm -rf "$folder"'
)
_QUICK = {  # data lost in a crash does not matter here
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "listen_addresses": "",
}
_STARTS_WITHIN = 60.0  # seconds
POOL = 2  # connections per database, few enough that clients share them
_POOLING = f"""
[databases]
* = host=%(server)s
[pgbouncer]
unix_socket_dir = %(folder)s
listen_addr =
listen_port = 6432
auth_type = scram-sha-256
auth_file = %(folder)s/users
admin_users = {USER}
pool_mode = transaction
default_pool_size = {POOL}
"""


class Server:
    """A running PostgreSQL, or a pooler in front of one, reached by a socket in its folder."""

    def __init__(self, folder: Path, port: int = 5432) -> None:
        self.folder, self.port = folder, port
        self._number = count()

    def url(self, database: str, *, user: str = USER, password: str = PASSWORD) -> str:
        host = quote(str(self.folder), safe="")
        place = f"{database}?host={host}&port={self.port}"
        return f"postgresql://{user}:{quote(password, safe='')}@/{place}"

    def same(self, url: str) -> str:
        """The address on this server of a database with this address elsewhere."""
        return self.url(url.partition("@/")[2].partition("?")[0])

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement outside a transaction."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def new_database(self, options: str = "") -> str:
        """The address of a new, empty database."""
        name = f"review{next(self._number)}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database, even if clients are connected to it."""
        name = url.partition("@/")[2].partition("?")[0]
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server for these tests."""
    psycopg = pytest.importorskip("psycopg", reason="no psycopg: it is in the extra sql")
    programs = _programs()
    if programs is None or os.name == "nt":
        pytest.skip(_NONE)
    owner = _owner()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    secret = folder / "password"
    secret.write_text(PASSWORD, encoding="utf-8")
    if owner:
        for path in (folder, secret):
            shutil.chown(path, *owner.values())
    made = subprocess.run(
        [
            *(programs / "initdb", "-D", folder / "data", "-U", USER, "--pwfile", secret),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        **owner,
    )
    assert made.returncode == 0, made.stderr
    options = [f"--{name}={value}" for name, value in _QUICK.items()]
    command = [programs / "postgres", "-D", folder / "data", "-k", folder, *options]
    with _running(Server(folder), command, "INT", psycopg.OperationalError) as server:
        yield server


@pytest.fixture(scope="session")
def pooler(postgres):
    """A PgBouncer in front of the server: each transaction may get another connection."""
    import psycopg

    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip(_NO_POOLER)
    folder = Path(tempfile.mkdtemp(prefix="pooler-", dir="/tmp"))
    (folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n', encoding="utf-8")
    settings = _POOLING % {"server": postgres.folder, "folder": folder}
    (folder / "settings").write_text(settings, encoding="utf-8")
    if owner := _owner():
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, *owner.values())
    pooler = Server(folder, port=6432)
    command = [program, folder / "settings"]
    with _running(pooler, command, "TERM", psycopg.OperationalError):
        yield pooler


@contextmanager
def _running(
    server: "Server", command: list, signal: str, refused: type[Exception]
) -> Iterator["Server"]:
    """A context in which a server runs."""
    with (server.folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["sh", "-c", _WITH_PARENT, "sh", server.folder, signal, *command],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            **_owner(),
        )
    try:
        _await_answer(server, process, refused)
        yield server
    finally:
        process.stdin.close()
        process.wait()
        shutil.rmtree(server.folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder of `initdb` and `postgres`: on PATH, else of the newest version."""
    found = shutil.which("initdb")
    folders = sorted(_INSTALLED, key=lambda path: [int(x) for x in re.findall(r"\d+", str(path))])
    folders += [Path(found).parent] if found else []
    return next((path for path in reversed(folders) if (path / "postgres").exists()), None)


def _owner() -> dict[str, str]:
    """The user that the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return {}
    import grp
    import pwd

    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = known.get("postgres") or known["nobody"]
    return {"user": user.pw_name, "group": grp.getgrgid(user.pw_gid).gr_name}


def _await_answer(server: Server, process: subprocess.Popen, refused: type[Exception]) -> None:
    until = monotonic() + _STARTS_WITHIN
    while True:
        try:
            server.execute("SELECT 1")
        except refused:
            if process.poll() is not None or monotonic() > until:
                raise AssertionError((server.folder / "log").read_text()) from None
            sleep(0.05)
        else:
            return


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """The place for a new store: a file, or the address of an empty database or its pooler."""
    if request.param == "sqlite":
        yield tmp_path / "review.db"
        return
    database = request.getfixturevalue("database")
    if request.param == "pgbouncer":
        database = request.getfixturevalue("pooler").same(database)
    yield database


@pytest.fixture
def open_again(place):
    """Opens the store at `place`, as a new process would."""
    opened = []

    def open_one(**options):
        opened.append(open_review(place, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def store(open_again):
    """A new, empty store, in SQLite and in PostgreSQL."""
    return open_again()


@pytest.fixture
def database(postgres):
    """The address of an empty database."""
    url = postgres.new_database()
    yield url
    postgres.drop(url)


@pytest.fixture
def impatient(monkeypatch):
    """Limit all waiting to a moment."""
    monkeypatch.setattr("bertcnn.review.databases.PATIENCE", 0.2)


# === For tests of the store itself ===


def new_row(name="a", at=1.0):
    return insert(test_row).values(text_hash=name, label="billing", added_at=at)


def rows(store, table=test_row):
    with store.reading() as connection:
        return connection.scalar(select(func.count()).select_from(table))


def make_version(place, version):
    """Change the version number in a store."""
    execute(place, f"UPDATE setting SET value = '{version}' WHERE name = 'version'")


def execute(place, statement):
    """Run a statement without our library."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as connection, connection:
            return connection.execute(statement).fetchall()
    import psycopg

    with psycopg.connect(place) as connection:
        done = connection.execute(statement)
        return done.fetchall() if done.description else []


@contextmanager
def refused(kind, *words):
    """A context that must raise a one-line error with these words."""
    with pytest.raises(kind) as caught:
        yield caught
    message = str(caught.value)
    assert type(caught.value) is kind
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message
    assert "What to do: " in message
