"""Ray Data and Dask when processes are killed: missing and duplicate rows.

    pip install distributed
    python -m benchmarks.ray_peers [--kills 100] [--rows 150000] [--seed 0] [--minutes 8]

Complements `benchmarks.ray_scoring kills`, with the same stub engine, nodes and kinds of kills.
Each peer's program follows its own guide: read a CSV file, add the answers, write a folder of CSV
files. If the program is killed or fails, it is run again into the same folder, as a scheduler does.
Then the rows of that folder are counted. Linux only.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.ray_scoring import actors, lose_node, nodes, parent
from benchmarks.stub_engine import stub_predictor
from bertcnn.inference import Predictor

_SECONDS_A_ROW = 0.0001
_PARTS = 50  # partitions of the input
_WORKS_AFTER = 8.0  # seconds until a program answers rows
_COLUMNS = ["id", "text", "label"]
_MOST_RUNS = 30  # runs of a program for one folder


# === Their programs ===


class Answerer:
    """A model, loaded once in each worker."""

    def __init__(self) -> None:
        self._predictor: Predictor | None = None

    def __call__(self, batch: Any) -> Any:
        """The batch, a DataFrame, with a column of answers."""
        if self._predictor is None:
            self._predictor = stub_predictor(_SECONDS_A_ROW)
        answers = self._predictor.classify(batch["text"].tolist())
        return batch.assign(label=[answer.label for answer in answers])


def with_ray_data(source: Path, target: Path, address: str) -> None:
    """One actor a node; the tasks that read and write use the rest of the node."""
    import ray

    ray.init(address, log_to_driver=False)
    rest = {"num_cpus": 0.25}
    rows = ray.data.read_csv(str(source), override_num_blocks=_PARTS, ray_remote_args=rest)
    answered = rows.map_batches(
        Answerer,
        batch_format="pandas",
        compute=ray.data.ActorPoolStrategy(size=2),
        num_cpus=0.5,
    )
    answered.write_csv(str(target), ray_remote_args=rest)


def with_dask(source: Path, target: Path, _: str) -> None:
    """Two worker processes started by this process."""
    import dask.dataframe
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        size = source.stat().st_size // _PARTS
        rows = dask.dataframe.read_csv(str(source), dtype=str, blocksize=size)
        answered = rows.map_partitions(Answerer(), meta=dict.fromkeys(_COLUMNS, str))
        answered.to_csv(str(target / "part-*.csv"), index=False)


PROGRAMS: dict[str, Callable[[Path, Path, str], None]] = {
    "Ray Data": with_ray_data,
    "Dask": with_dask,
}


# === Kills ===


def workers(peer: str, program: int) -> list[int]:
    """Process ids of the workers that answer rows."""
    if peer == "Ray Data":
        return actors(b"ray::MapWorker")
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (place / "cmdline").read_bytes()
            if b"spawn_main" in line and parent(int(place.name)) == program:
                found.append(int(place.name))
    return found


def kill(
    peer: str, program: subprocess.Popen[bytes], raylets: Any, chance: random.Random
) -> str | None:
    """Kill one process; returns its kind."""
    kind = chance.choices(("worker", "node", "program"), (20, 1, 1))[0]
    found = workers(peer, program.pid)
    if kind == "program":
        program.kill()
    elif kind == "node" and peer == "Ray Data":
        lose_node(raylets, chance)
    elif found:
        kind = "worker"
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
    else:
        return None
    return kind


def finish(
    peer: str,
    source: Path,
    target: Path,
    raylets: Any,
    options: argparse.Namespace,
    kinds: Counter[str],
) -> tuple[int, int]:
    """Rerun a program until it reports success, and kill processes meanwhile.

    Returns:
        Number of runs, and how many of them failed by themselves.
    """
    chance, runs, failures = random.Random(options.seed + kinds.total()), 0, 0
    command = [sys.executable, "-m", "benchmarks.ray_peers", "--run", peer, str(source)]
    while runs < _MOST_RUNS:
        program = subprocess.Popen(
            [*command, str(target), raylets.address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        runs += 1
        time.sleep(chance.uniform(0.4, 1) * _WORKS_AFTER)
        while program.poll() is None:
            if kinds.total() < options.kills:
                kinds.update(filter(None, [kill(peer, program, raylets, chance)]))
            with suppress(subprocess.TimeoutExpired):
                program.wait(chance.expovariate(1 / options.every))
        complaint = program.communicate()[1].decode(errors="replace").strip().splitlines()
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)  # workers that the killed program left behind
        if program.returncode == 0:
            break
        if program.returncode != -signal.SIGKILL:
            failures += 1
            print(f"    gave up: {complaint[-1][:150] if complaint else ''}", flush=True)
    return runs, failures


def count(folder: Path, rows: int) -> tuple[int, int]:
    """Missing rows and duplicate rows in the files of a folder."""
    found: Counter[str] = Counter()
    for path in folder.glob("*.csv"):
        with path.open(newline="") as stream:
            found.update(row["id"] for row in csv.DictReader(stream) if row["label"])
    return rows - len(found), found.total() - len(found)


def main() -> None:
    """Kill, rerun and count for each peer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--kills", type=int, default=100, help="of each peer")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two, on average")
    parser.add_argument("--minutes", type=float, default=8, help="for each peer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer", choices=PROGRAMS)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if options.run:
        peer, source, target, address = options.run
        PROGRAMS[peer](Path(source), Path(target), address)
        return
    for peer in [options.peer] if options.peer else PROGRAMS:
        measure(peer, options)


def measure(peer: str, options: argparse.Namespace) -> None:
    """Print the counts for a peer's folders."""
    kinds: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as scratch, nodes(2) as raylets:
        source = Path(scratch) / "in.csv"
        texts = (
            f'{row},"router is {row if row % 2 else row % 500}"' for row in range(options.rows)
        )
        source.write_text("\n".join(["id,text", *texts, ""]))
        while kinds.total() < options.kills and time.monotonic() < until:
            target = Path(scratch) / f"out-{numbers['folders']}"
            target.mkdir()
            runs, failures = finish(peer, source, target, raylets, options, kinds)
            missing, doubled = count(target, options.rows)
            print(
                f"  {peer}: {runs} runs, {kinds.total()} kills so far,"
                f" {missing:,} rows missing, {doubled:,} there again",
                flush=True,
            )
            numbers.update(
                folders=1,
                wrong=int(missing + doubled > 0),
                missing=missing,
                doubled=doubled,
                failures=failures,
            )
    print(
        f"{peer}: {kinds.total()} kills ({dict(kinds)}), {numbers['folders']} folders of"
        f" {options.rows:,} rows, {numbers['wrong']} not right: {numbers['missing']:,} rows"
        f" missing, {numbers['doubled']:,} there again; {numbers['failures']} times it gave up"
    )


if __name__ == "__main__":
    main()
