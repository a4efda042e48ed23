"""Scoring from query to table compared with file to file: rows/s, memory, and kills.

    python -m benchmarks.database_scoring ADDRESS [--rows 1000000] [--seconds-a-row 0] [--kills 50]

ADDRESS is an empty database: `postgresql://USER@HOST/DATABASE` or `sqlite:///FILE`, which is
created. The model is a stub that takes `--seconds-a-row`; everything around it is real. All texts
are different, so none is answered from the cache. Every run is its own process. With `--kills`,
runs die by SIGKILL at a random moment; every fourth run dies while it writes the answers. After
each kill the table must be unchanged or complete. At the end it must equal the table of an
uninterrupted run.

The script recreates the tables `bench_tickets`, `bench_answers` and `bench_whole`. Linux only.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.constant_memory import resident
from benchmarks.stub_engine import stub_predictor
from bertcnn.scoring import score_csv, score_table

_SECONDS_A_ROW = 0.0001  # for runs that are killed
_KILLED_ROWS = 40_000
_QUERY = "select id, text from bench_tickets order by id"
_FILE = "sqlite:///"
_WORDS = "the router is off since monday and the app is of no help"


class Stages:
    """Prints the name of each stage, for the process that will kill this one."""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:  # noqa: ARG002
        """Print the stage."""
        print(name, flush=True)

    def advance(self, done: int, **figures: float) -> None:
        """Ignore it."""

    def note(self, message: str) -> None:
        """Ignore it."""


# === The database ===


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A connection that commits at the end."""
    if address.startswith(_FILE):
        with closing(sqlite3.connect(address.removeprefix(_FILE))) as connection, connection:
            yield connection
        return
    import psycopg

    with psycopg.connect(address) as session:
        yield session


def make_tickets(address: str, rows: int) -> None:
    """Create the table of texts, of about 60 characters each."""
    with connected(address) as connection:
        for table in ("bench_tickets", "bench_answers", "bench_whole"):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute("CREATE TABLE bench_tickets (id integer PRIMARY KEY, text text)")
        if isinstance(connection, sqlite3.Connection):
            found = ((row, f"{_WORDS} {row}") for row in range(rows))
            connection.executemany("INSERT INTO bench_tickets VALUES (?, ?)", found)
        else:
            connection.execute(
                f"INSERT INTO bench_tickets SELECT row, '{_WORDS} ' || row"
                f" FROM generate_series(0, {rows - 1}) AS row"
            )


def content(address: str, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table, sorted by id; empty if there is no such table."""
    with connected(address) as connection:
        if isinstance(connection, sqlite3.Connection):
            there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,))
        else:
            there = connection.execute("SELECT 1 FROM pg_tables WHERE tablename = %s", (table,))
        if there.fetchone() is None:
            return []
        return list(connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall())


def leftovers(address: str) -> int:
    """Count staging tables that a run left behind."""
    if address.startswith(_FILE):  # SQLite stages rows in an unnamed temporary file
        return 0
    with connected(address) as connection:
        found = connection.execute("SELECT count(*) FROM pg_class WHERE relname LIKE '%staging%'")
        return int(found.fetchone()[0])


# === Runs ===


def run(place: str, target: str, seconds_a_row: float) -> dict[str, float]:
    """Score a file or a database in this process.

    Returns:
        `rows_per_second`, `processor` (microseconds of this process for a row) and `peak` (MB).
    """
    predictor, begun = stub_predictor(seconds_a_row), time.process_time()
    if "://" in place:
        report = score_table(predictor, place, query=_QUERY, into=target, progress=Stages())
    else:
        report = score_csv(predictor, place, target, progress=Stages())
    return {
        "rows_per_second": report.rows / report.seconds,
        "processor": (time.process_time() - begun) / report.rows * 1e6,
        "peak": resident("VmHWM") / 1e3,
    }


@contextmanager
def started(place: str, target: str, seconds_a_row: float) -> Iterator[subprocess.Popen[str]]:
    """Start such a run in its own process."""
    command = [sys.executable, "-m", "benchmarks.database_scoring", place, "--target", target]
    with subprocess.Popen(
        [*command, "--seconds-a-row", str(seconds_a_row)], stdout=subprocess.PIPE, text=True
    ) as running:
        yield running


def measured(place: str, target: str, seconds_a_row: float) -> dict[str, float]:
    """The figures of such a process."""
    with started(place, target, seconds_a_row) as running:
        out, _ = running.communicate()
    if running.returncode:
        raise SystemExit(f"a run ended with {running.returncode}")
    return dict(json.loads(out.splitlines()[-1]))


def compare(address: str, rows: int, seconds_a_row: float, rounds: int) -> None:
    """Print rows/s and peak memory of both, in alternating rounds."""
    make_tickets(address, rows)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "in.csv"
        with source.open("w") as stream:
            stream.write("id,text\n")
            stream.writelines(f"{row},{_WORDS} {row}\n" for row in range(rows))
        for number in range(rounds):
            file = measured(str(source), str(Path(scratch) / f"{number}.csv"), seconds_a_row)
            table = measured(address, "bench_answers", seconds_a_row)
            share = table["rows_per_second"] / file["rows_per_second"]
            engine = seconds_a_row * file["rows_per_second"]
            print(f"{rows:,} rows, the stub takes {engine:.0%} of the file's time")
            print(f"  file: {shown(file)}")
            print(
                f"  {'new table' if not number else 'replaced rows'}: {shown(table)}, {share:.1%}",
                flush=True,
            )


def shown(figures: dict[str, float]) -> str:
    """The figures of a run as text."""
    return (
        f"{figures['rows_per_second']:,.0f} rows/s, {figures['processor']:.1f} us of the processor"
        f" for a row, {figures['peak']:.1f} MB"
    )


# === Kills ===


def await_stage(stream: IO[str] | None, wanted: str) -> None:
    """Read a run's stages until it reaches this one or ends."""
    for line in stream or ():
        if line.startswith(wanted):
            return


def kill(address: str, chance: random.Random, seconds: float) -> bool:
    """Start a run and kill it at a random moment; returns whether it was still running."""
    with started(address, "bench_answers", _SECONDS_A_ROW) as running:
        if chance.random() < 0.25:
            await_stage(running.stdout, "writing")
            time.sleep(chance.uniform(0, 0.1 * seconds))
        else:
            time.sleep(chance.uniform(0, 0.9 * seconds))
        running.kill()
        running.communicate()
    if running.returncode not in (0, -9):
        raise SystemExit(f"a run ended with {running.returncode}")
    return running.returncode == -9


def die(address: str, kills: int, seed: int, rows: int = _KILLED_ROWS) -> list[str]:
    """Kill runs, complete every third one, and return what was wrong.

    After a completed run, the table is alternately dropped, or half of its rows are deleted.
    """
    make_tickets(address, rows)
    begun = time.monotonic()
    measured(address, "bench_whole", _SECONDS_A_ROW)
    seconds = time.monotonic() - begun
    whole = content(address, "bench_whole")
    chance, faults, killed, finished = random.Random(seed), list[str](), 0, 0
    while killed < kills:
        before = content(address, "bench_answers")
        killed += kill(address, chance, seconds)
        found = content(address, "bench_answers")
        if found not in (before, whole):
            faults.append(f"kill {killed}: {len(found)} rows of {len(whole)}")
        if killed % 3 == 0:
            measured(address, "bench_answers", _SECONDS_A_ROW)
            finished += 1
            if content(address, "bench_answers") != whole:
                faults.append(f"after kill {killed}: another table")
            if left := leftovers(address):
                faults.append(f"after kill {killed}: {left} tables left over")
            change = "DROP TABLE bench_answers" if finished % 2 else "DELETE FROM bench_answers"
            with connected(address) as connection:
                connection.execute(f"{change}{'' if finished % 2 else ' WHERE id % 2 = 0'}")
    measured(address, "bench_answers", _SECONDS_A_ROW)
    if content(address, "bench_answers") != whole:
        faults.append("at the end: another table")
    return faults


def main() -> None:
    """Measure speed and memory, run the kills, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds-a-row", type=float, default=0.0)
    parser.add_argument("--kills", type=int, default=0, help="instead of measuring")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", help=argparse.SUPPRESS)  # for a single run
    options = parser.parse_args()
    if options.target:
        print(json.dumps(run(options.address, options.target, options.seconds_a_row)))
    elif options.kills:
        faults = die(options.address, options.kills, options.seed)
        verdict = "; ".join(faults) or "no row doubled or missing, nothing left behind"
        print(f"{options.kills} kills: {verdict}")
        sys.exit(bool(faults))
    else:
        compare(options.address, options.rows, options.seconds_a_row, options.rounds)


if __name__ == "__main__":
    main()
