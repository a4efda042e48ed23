"""Kills programs that make or upgrade a store at their n-th step, and starts several at once.

    python dying.py PLACE SCENARIO...

A program of its own, since it forks. Writes one JSON object: of each scenario, what was wrong after
each death.
"""

import itertools
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection, event, insert
from sqlalchemy.engine import Engine

from bertcnn.review import databases
from bertcnn.review.schema import VERSION, tables, ticket
from bertcnn.review.store import open_review

ROWS = 400
INSTRUCTIONS = 3000  # of SQLite, between two steps at which it may be killed
TOGETHER = 4  # processes
LARGE = 8_000  # rows, so that the commit takes a while
MOMENTS = 5  # at which a commit is killed


# === Versions ===


def first_step(connection: Connection) -> None:
    """A column, filled."""
    connection.exec_driver_sql("ALTER TABLE ticket ADD COLUMN urgency TEXT")
    connection.exec_driver_sql("UPDATE ticket SET urgency = 'low'")


def second_step(connection: Connection) -> None:
    """A table moved into another."""
    connection.exec_driver_sql("CREATE TABLE note (ticket INTEGER, words TEXT)")
    connection.exec_driver_sql("INSERT INTO note SELECT id, text FROM ticket")
    connection.exec_driver_sql("UPDATE ticket SET text = ''")


STEPS = {1: first_step, 2: second_step}
WORDS = "count(*), count(DISTINCT text), sum(length(text))"
FOUND = {  # what a version has, of `ROWS` tickets
    1: f"SELECT {WORDS} FROM ticket",
    2: f"SELECT {WORDS} FROM ticket WHERE urgency = 'low'",
    3: "SELECT count(*), count(DISTINCT words), sum(length(words)) FROM note JOIN ticket"
    " ON ticket.id = note.ticket WHERE text = '' AND urgency = 'low'",
}


def fill(place: str, rows: int = ROWS) -> None:
    """A store of version 1 with tickets."""
    store = open_review(place, version=1)
    others = {"source": "s", "columns": {}, "text_hash": "0", "received_at": 1.0}
    with store.writing() as connection:
        connection.execute(
            insert(ticket),
            [{"external_id": str(n), "text": f"router {n:08}", **others} for n in range(rows)],
        )
    store.close()


def upgrade(place: str) -> None:
    """What a program of version 3 does first."""
    open_review(place, version=3, migrations=STEPS).close()


def ask(place: str, statement: str) -> tuple:
    """A row, read without our library."""
    if "://" in place:
        import psycopg

        with psycopg.connect(place) as connection:
            return connection.execute(statement).fetchone()
    connection = sqlite3.connect(place)
    try:
        return connection.execute(statement).fetchone()
    finally:
        connection.close()


def version_of(place: str) -> int:
    return int(ask(place, "SELECT value FROM setting WHERE name = 'version'")[0])


def wrong_with(place: str, version: int, rows: int = ROWS) -> str | None:
    """What keeps a store from being of this version, with every ticket."""
    if "://" not in place and ask(place, "PRAGMA integrity_check") != ("ok",):
        return f"{place} is damaged"
    if version_of(place) != version:
        return f"{place} has version {version_of(place)} in place of {version}"
    if ask(place, FOUND[version]) != (rows, rows, rows * len("router 00000000")):
        return f"{place} of version {version} has {ask(place, FOUND[version])}"
    return None


def wrong_with_copies(place: str, below: int, rows: int = ROWS) -> str | None:
    """What keeps the copies from being there, each of its version, with every ticket."""
    if "://" in place:
        return None
    for version in STEPS:
        copy = f"{place}.version-{version}"
        if Path(copy).exists():
            wrong = wrong_with(copy, version, rows)
            if wrong:
                return wrong
        elif version < below:
            return f"{copy} is missing"
    return None


# === Death ===


def die_at(step: int) -> None:
    """Count statements, commits, runs of instructions and changes of files; end at this one."""
    left = step

    def count(*_: object) -> int:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def heard(name: str, given: tuple) -> None:
        if name in ("os.rename", "os.chmod", "os.remove", "open") and "review" in str(given[0]):
            count()

    connect = sqlite3.connect

    def watched(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_progress_handler(count, INSTRUCTIONS)
        return connection

    sqlite3.connect = watched
    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
    sys.addaudithook(heard)


def fork(work: Callable[[], object]) -> int:
    """The number of a process that does this."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def deaths(work: Callable[[], object], stride: int) -> Iterator[int]:
    """Do it again and again, killed so many steps later each time, until it gets through."""
    for step in itertools.count(1, stride):
        ended = status(fork(lambda step=step: (die_at(step), work())))
        if ended == 0:
            return
        if ended != -signal.SIGKILL:
            raise RuntimeError(f"step {step} ended with {ended}")
        yield step


def together(work: Callable[[], object]) -> list[int]:
    """How several processes ended that did this at the same moment."""
    start, started = os.pipe()

    def wait_and_work() -> None:
        os.close(started)
        os.read(start, 1)
        work()

    children = [fork(wait_and_work) for _ in range(TOGETHER)]
    os.close(started)
    return [status(child) for child in children]


# === Scenarios ===


def clear(place: str) -> None:
    """Nothing is at the place."""
    if "://" in place:
        import psycopg

        with psycopg.connect(place) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return
    for path in Path(place).parent.glob(f"{Path(place).name}*"):
        path.unlink()


def make(place: str) -> list[str | None]:
    """A store whose making is killed can be made."""
    outcomes = []
    clear(place)
    for _ in deaths(lambda: open_review(place), 8 if "://" in place else 3):
        open_review(place).close()
        for table in tables.tables:
            ask(place, f"SELECT count(*) FROM {table}")
        outcomes.append(None if version_of(place) == VERSION else "no version")
        clear(place)
    return outcomes


def migrate(place: str) -> list[str | None]:
    """An upgrade that is killed keeps every ticket, and the next start finishes it."""
    outcomes = []

    def prepare() -> None:
        clear(place)
        if "://" in place:
            fill(place)
        else:
            shutil.copy(f"template-{Path(place).name}", place)

    if "://" not in place:
        os.chdir(Path(place).parent)
        fill(f"template-{Path(place).name}")
    prepare()
    # a server undoes what its client leaves half done
    for _ in deaths(lambda: upgrade(place), 4 if "://" in place else 1):
        version = version_of(place)
        wrong = wrong_with(place, version) or wrong_with_copies(place, version)
        upgrade(place)
        wrong = wrong or wrong_with(place, 3) or wrong_with_copies(place, 3)
        left = [path.name for path in Path(place).parent.glob("*unfinished*")]
        outcomes.append(wrong or (f"{left} are left" if left else None))
        prepare()
    return outcomes


def commit(place: str) -> list[str | None]:
    """An upgrade that is killed at some moment of a long commit keeps every ticket."""
    outcomes = []
    fill(place, LARGE)
    template = Path(place).read_bytes()
    begun = time.monotonic()
    upgrade(place)
    takes = time.monotonic() - begun
    for moment in range(MOMENTS):
        clear(place)
        Path(place).write_bytes(template)
        child = fork(lambda: upgrade(place))
        time.sleep(takes * (moment + 0.5) / MOMENTS)
        os.kill(child, signal.SIGKILL)
        status(child)
        upgrade(place)
        outcomes.append(wrong_with(place, 3, LARGE) or wrong_with_copies(place, 3, LARGE))
    return outcomes


def make_together(place: str) -> list[str | None]:
    """Several processes that make a store at the same moment share one."""
    clear(place)
    ended = together(lambda: fill_one(place))
    rows = ask(place, "SELECT count(*) FROM ticket")[0]
    return [None if (set(ended), rows) == ({0}, TOGETHER) else f"{ended}, {rows} rows"]


def fill_one(place: str) -> None:
    """A ticket of this process."""
    others = {"source": "s", "columns": {}, "text_hash": "0", "received_at": 1.0, "text": ""}
    with open_review(place).writing() as connection:
        connection.execute(insert(ticket).values(external_id=str(os.getpid()), **others))


def make_together_with_wal(place: str) -> list[str | None]:
    """The same, with the journal that SQLite has from a later version on."""
    databases._WAL_FROM = (3, 0, 0)
    return make_together(place)


def migrate_together(place: str) -> list[str | None]:
    """Several processes that upgrade a store at the same moment do it once."""
    clear(place)
    fill(place)
    ended = together(lambda: upgrade(place))
    wrong = wrong_with(place, 3) or wrong_with_copies(place, 3)
    return [wrong if set(ended) == {0} else str(ended)]


if __name__ == "__main__":
    json.dump({name: globals()[name](sys.argv[1]) for name in sys.argv[2:]}, sys.stdout)
