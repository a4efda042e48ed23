"""How a service's engine uses the cores: CPU quotas, streams, and warmed-up shapes.

    python -m benchmarks.cores MODEL texts.csv [--seconds 5]

Each figure comes from its own process. The quota of half a core uses a control group, so this needs
Linux, and root or a writable control group.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.inputs import read_input
from bertcnn.inference import CORES, usable_cores
from bertcnn.serving.models import load_model

_VERSION_1, _VERSION_2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
_GROUP = "bertcnn-benchmark"
_WAITING = 8  # texts


def half_a_core() -> Path:
    """Create a control group with a quota of half a core."""
    first = (_VERSION_1 / "cpu.shares").exists()
    group = (_VERSION_1 if first else _VERSION_2) / _GROUP
    group.mkdir(exist_ok=True)
    if first:
        (group / "cpu.cfs_quota_us").write_text("50000")  # of 100,000
    else:
        (group / "cpu.max").write_text("50000 100000")
    return group / "cgroup.procs"


def answer(model: Path, source: Path, seconds: float, threads: int, *, warm: bool) -> None:
    """Print the throughput with this many threads, one text a call, and the slowest calls."""
    served = load_model("model", str(model), warm=warm)
    texts = read_input(source, served.predictor.bundle.config).texts
    until = time.perf_counter() + seconds

    def ask(thread: int) -> list[float]:
        times, place = [], thread
        while (began := time.perf_counter()) < until:
            served.answer([texts[place % len(texts)]], [None])
            times.append(time.perf_counter() - began)
            place += threads
        return times

    processor = time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        times = np.array([one for part in pool.map(ask, range(threads)) for one in part])
    busy = (time.process_time() - processor) / seconds
    print(
        f"{usable_cores()} streams: {len(times) / seconds:.0f} texts/s, {busy:.2f} cores busy,"
        f" p50 {1000 * np.median(times):.1f} ms, p99 {1000 * np.percentile(times, 99):.1f} ms,"
        f" longest {1000 * times.max():.0f} ms"
    )


def main() -> None:
    """Print the three figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)  # for a single run
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads:
        if options.group:
            options.group.write_text(str(os.getpid()))
        given = options.model, options.source, options.seconds, options.threads
        answer(*given, warm=not options.cold)
        return

    def run(name: str, threads: int, *further: str, cores: str = "") -> None:
        command = [sys.executable, "-m", "benchmarks.cores", *sys.argv[1:], *further]
        print(f"{name}: ", end="", flush=True)
        subprocess.run(
            [*command, "--threads", str(threads)], check=True, env={**os.environ, CORES: cores}
        )

    group = half_a_core()
    run("half a core, as it is found", 1, "--group", str(group))
    run("half a core, taken for two", 1, "--group", str(group), cores="2")
    group.parent.rmdir()
    run(f"{_WAITING} texts wait, one stream", _WAITING, cores="1")
    run(f"{_WAITING} texts wait, a stream for each core", _WAITING)
    first = "--seconds", "2"
    run("first answers, all shapes new", 1, *first, "--cold")
    run("first answers, all shapes warm", 1, *first)


if __name__ == "__main__":
    main()
