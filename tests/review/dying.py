"""Kills programs that create a store at their n-th step, and starts several at once.

    python dying.py PLACE SCENARIO...

A program of its own, since it forks. Prints one JSON object: for each scenario, the errors after
each death.
"""

import itertools
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import event, insert
from sqlalchemy.engine import Engine

from bertcnn.review import databases
from bertcnn.review.schema import VERSION, tables, ticket
from bertcnn.review.store import open_review

INSTRUCTIONS = 3000  # SQLite instructions between two possible deaths
TOGETHER = 4  # processes


def ask(place: str, statement: str) -> tuple:
    """Read a row without our library."""
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


# === Death ===


def die_at(step: int) -> None:
    """Count statements, commits, instruction batches and file changes; die at the `step`-th."""
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
    """Fork a process that runs `work`; returns its number."""
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
    """Repeat the work, killed `stride` steps later each time, until it finishes."""
    for step in itertools.count(1, stride):
        ended = status(fork(lambda step=step: (die_at(step), work())))
        if ended == 0:
            return
        if ended != -signal.SIGKILL:
            raise RuntimeError(f"step {step} ended with {ended}")
        yield step


def together(work: Callable[[], object]) -> list[int]:
    """The exit statuses of several processes that do the work at the same moment."""
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
    """Empty the place."""
    if "://" in place:
        import psycopg

        with psycopg.connect(place) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return
    for path in Path(place).parent.glob(f"{Path(place).name}*"):
        path.unlink()


def make(place: str) -> list[str | None]:
    """A store can be created after a killed creation."""
    outcomes = []
    clear(place)
    for _ in deaths(lambda: open_review(place), 8 if "://" in place else 3):
        open_review(place).close()
        for table in tables.tables:
            ask(place, f"SELECT count(*) FROM {table}")
        outcomes.append(None if version_of(place) == VERSION else "no version")
        clear(place)
    return outcomes


def make_together(place: str) -> list[str | None]:
    """Processes that create a store at the same moment share one."""
    clear(place)
    ended = together(lambda: fill_one(place))
    rows = ask(place, "SELECT count(*) FROM ticket")[0]
    return [None if (set(ended), rows) == ({0}, TOGETHER) else f"{ended}, {rows} rows"]


def fill_one(place: str) -> None:
    """Add a ticket for this process."""
    others = {"source": "s", "columns": {}, "text_hash": "0", "received_at": 1.0, "text": ""}
    with open_review(place).writing() as connection:
        connection.execute(insert(ticket).values(external_id=str(os.getpid()), **others))


def make_together_with_wal(place: str) -> list[str | None]:
    """The same, with the journal mode of later SQLite versions."""
    databases._WAL_FROM = (3, 0, 0)
    return make_together(place)


if __name__ == "__main__":
    json.dump({name: globals()[name](sys.argv[1]) for name in sys.argv[2:]}, sys.stdout)
