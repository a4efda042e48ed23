"""Scoring on Ray compared with one process: rows/s, kills, and the cost of a lost actor.

    python -m benchmarks.ray_scoring speed [--rows 100000] [--rounds 3] [--model FOLDER]
    python -m benchmarks.ray_scoring kills [--kills 200] [--seed 0] [--minutes 10] [--model FOLDER]
    python -m benchmarks.ray_scoring lost [--rounds 5] [--model FOLDER]

`speed` compares a local run with `--ray`, and a process of two threads with two nodes of one core
each, on the same rows, in alternating rounds; starting Ray and loading the model do not count.
`kills` kills actors, raylets and the scoring process by SIGKILL at random moments; every finished
file must have the sha256 of an uninterrupted local run. `lost` kills one of two actors in the
middle of a run.

Without --model the engine is a stub that sleeps for --seconds-a-row and computes answers by
arithmetic: everything except the network is real. Linux only.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster as Raylets

from benchmarks.kill_resume import write_input
from benchmarks.stub_engine import stub_predictor
from bertcnn.progress import Silent
from bertcnn.scoring import ScoringReport, score_csv
from bertcnn.scoring.cluster import Cluster
from bertcnn.scoring.ray_connection import LOCAL

_SECONDS_A_ROW = 0.0001
_FIRST_ANSWERS = 10_000  # size in bytes of a journal with some answers
_WORKS_AFTER = 8.0  # seconds until a run scores; earlier kills hit its start


# === A run in its own process ===


def run(options: argparse.Namespace) -> ScoringReport:
    """Score a file, on a cluster if an address is given."""
    given: dict[str, Any] = {"text": "text", "probabilities": True}
    if options.model is not None:
        cluster = options.address or None
        return score_csv(options.model, options.source, options.target, **given, cluster=cluster)
    model = stub_predictor(options.seconds_a_row)
    if not options.address:
        return score_csv(model, options.source, options.target, **given)
    load = partial(stub_predictor, options.seconds_a_row)
    with Cluster(options.address, load, model, Silent()) as cluster:
        return score_csv(model, options.source, options.target, **given, cluster=cluster)


def command(options: argparse.Namespace, source: Path, target: Path, address: str) -> list[str]:
    """The command line of a run."""
    model = [] if options.model is None else ["--model", str(options.model)]
    return [
        *(sys.executable, "-m", "benchmarks.ray_scoring", "run", str(source), str(target)),
        *("--address", address, "--seconds-a-row", str(options.seconds_a_row)),
        *model,
    ]


def rows_per_second(options: argparse.Namespace, source: Path, address: str, cores: int) -> float:
    """Rows/s of one run, read from its printed report."""
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            command(options, source, Path(scratch) / "out.csv", address),
            env={**os.environ, "BERTCNN_CORES": str(cores)},
            capture_output=True,
            text=True,
            check=True,
        )
    rows, seconds = done.stdout.split()
    return float(rows) / float(seconds)


# === Clusters ===


@contextmanager
def nodes(number: int) -> Iterator[Raylets]:
    """A cluster on loopback: a head without work, and nodes of one core each."""
    head = {"num_cpus": 0, "include_dashboard": False}
    raylets = Raylets(initialize_head=True, head_node_args=head)
    try:
        for _ in range(number):
            raylets.add_node(num_cpus=1)
        yield raylets
    finally:
        raylets.shutdown()


def actors(kind: bytes = b"ray::NodeScorer") -> list[int]:
    """Process ids of all actors of a kind, ours by default, on this process's nodes."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            named = (place / "cmdline").read_bytes().startswith(kind)
            if named and parent(parent(int(place.name))) == os.getpid():
                found.append(int(place.name))
    return found


def lose_node(raylets: Raylets, chance: random.Random) -> None:
    """Kill a random node and add another one."""
    raylets.remove_node(chance.choice([*raylets.worker_nodes]), allow_graceful=False)
    raylets.add_node(num_cpus=1)


def parent(process: int) -> int:
    """The id of a process's parent."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


# === Speed ===


def speed(options: argparse.Namespace) -> None:
    """Print rows/s of each setup and their ratios."""
    with tempfile.TemporaryDirectory() as scratch, nodes(2) as raylets:
        source = Path(scratch) / "in.csv"
        write_input(source, options.rows)
        found: dict[str, list[float]] = {"local": [], "--ray": [], "two nodes": []}
        for _ in range(options.rounds):
            for name, address in (("local", ""), ("--ray", LOCAL), ("two nodes", raylets.address)):
                found[name].append(rows_per_second(options, source, address, 2))
                print(f"  {name}: {found[name][-1]:,.0f} rows/s", flush=True)
    for name, values in found.items():
        shares = [value / local for value, local in zip(values, found["local"], strict=True)]
        print(
            f"{name}: {statistics.median(values):,.0f} rows/s"
            f" ({min(values):,.0f} to {max(values):,.0f}), {statistics.median(shares):.1%} of local"
        )


# === Kills ===


class Killer:
    """Kills random processes of a cluster.

    Args:
        raylets: the cluster.
        chance: random generator.

    Attributes:
        kills: count of each kind.
    """

    def __init__(self, raylets: Raylets, chance: random.Random) -> None:
        self._raylets, self._chance = raylets, chance
        self.kills: Counter[str] = Counter()

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill one process, in most cases an actor."""
        kind = self._chance.choices(("actor", "raylet", "driver"), (20, 1, 1))[0]
        if kind == "driver":
            driver.kill()
            driver.wait()
        elif kind == "raylet":
            lose_node(self._raylets, self._chance)
        elif found := actors():
            with suppress(ProcessLookupError):
                os.kill(self._chance.choice(found), signal.SIGKILL)
        else:
            return
        self.kills[kind] += 1


def kills(options: argparse.Namespace) -> None:
    """Kill and resume runs, compare the files, and print the verdict."""
    faults, files, until = [], 0, time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as scratch, nodes(2) as raylets:
        folder = Path(scratch)
        source, whole = folder / "in.csv", folder / "whole.csv"
        write_input(source, options.rows)
        subprocess.run(command(options, source, whole, ""), check=True, stdout=subprocess.DEVNULL)
        killer = Killer(raylets, random.Random(options.seed))
        while killer.kills.total() < options.kills and time.monotonic() < until:
            target = folder / f"broken-{files}.csv"
            runs = finish(options, source, target, raylets.address, killer)
            same = digest(target) == digest(whole)
            files += 1
            faults += [] if same else [target.name]
            print(
                f"  {target.name}: {runs} runs, {killer.kills.total()} kills so far,"
                f" {'identical' if same else 'DIFFERENT'}",
                flush=True,
            )
    kinds = ", ".join(f"{number} of {kind}s" for kind, number in killer.kills.items())
    print(f"{killer.kills.total()} kills ({kinds}), {files} files: {faults or 'all identical'}")
    sys.exit(bool(faults))


def finish(
    options: argparse.Namespace, source: Path, target: Path, address: str, killer: Killer
) -> int:
    """Run until the output exists, killing meanwhile; returns the number of runs."""
    chance, runs = random.Random(killer.kills.total()), 0
    while not target.exists():
        driver = subprocess.Popen(
            command(options, source, target, address),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        runs += 1
        time.sleep(chance.uniform(0.4, 1) * _WORKS_AFTER)
        while driver.poll() is None:
            if killer.kills.total() < options.kills:
                killer.kill(driver)
            time.sleep(chance.expovariate(1 / options.every))
        _, complaint = driver.communicate()
        if driver.returncode not in (0, -signal.SIGKILL):
            print(f"  ended with {driver.returncode}: {complaint.decode()[-300:]}", flush=True)
    return runs


def digest(path: Path) -> str:
    """The sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lost(options: argparse.Namespace) -> None:
    """Print how many seconds the death of one of two actors costs."""
    costs = []
    with tempfile.TemporaryDirectory() as scratch, nodes(2) as raylets:
        source = Path(scratch) / "in.csv"
        write_input(source, options.rows)
        for number in range(2 * options.rounds):
            target = Path(scratch) / f"{number}.csv"
            driver = subprocess.Popen(
                command(options, source, target, raylets.address), stdout=subprocess.PIPE, text=True
            )
            if number % 2:
                while not is_answered(target):
                    time.sleep(0.05)
                os.kill(actors()[0], signal.SIGKILL)
            costs.append(float(driver.communicate()[0].split()[1]))
    whole, broken = costs[::2], costs[1::2]
    print(
        f"whole {statistics.median(whole):.1f} s, with a lost actor"
        f" {statistics.median(broken):.1f} s ({min(broken):.1f} to {max(broken):.1f})"
    )


def is_answered(target: Path) -> bool:
    """Whether a run has answered its first rows."""
    journal = target.with_name(f".{target.name}.journal")
    return journal.exists() and journal.stat().st_size > _FIRST_ANSWERS


def main() -> None:
    """Run the chosen part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("speed", "kills", "lost", "run"))
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("target", type=Path, nargs="?")
    parser.add_argument("--address", default="")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds-a-row", type=float, default=_SECONDS_A_ROW)
    options = parser.parse_args()
    parts: dict[str, Any] = {"speed": speed, "kills": kills, "lost": lost}
    if options.part != "run":
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        parts[options.part](options)
        return
    report = run(options)
    print(report.rows, report.seconds)


if __name__ == "__main__":
    main()
