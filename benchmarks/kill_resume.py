"""Kills scoring at random moments; every finished file must be byte-identical.

    python -m benchmarks.kill_resume [--kills 50] [--rows 40000] [--seed 0]

The model is a stub, slow enough to be killed while it works; everything around it is real. Each run
is a separate process and dies by SIGKILL: most at a random moment, every fourth while it moves its
files into place. Prints a line for each finished file and a verdict.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_FORMATS = ("scored.csv", "scored.parquet", "scored.csv.gz", "scored.jsonl", "scored.xlsx")
_SECONDS_A_ROW = 0.0001


def write_input(path: Path, rows: int) -> None:
    """Write tickets; half of the texts repeat, and every thousandth row cannot be read."""
    with path.open("w") as stream:
        stream.write("id,text\n")
        for row in range(rows):
            stream.write(
                f'{row},"router is {row if row % 2 else row % 500}, =1+1"\n'
                if row % 1000
                else f"{row}\n"
            )


class Killer:
    """Starts runs and kills them.

    Args:
        folder: contains all files.
        chance: random generator for the moments.
        seconds: duration of an uninterrupted run.

    Attributes:
        kills: runs killed so far.
    """

    def __init__(self, folder: Path, chance: random.Random, seconds: float) -> None:
        self._source, self._folder, self._chance, self._seconds = (
            folder / "in.csv",
            folder,
            chance,
            seconds,
        )
        self.kills = 0

    def run(self, target: Path, *, kill: bool) -> None:
        """Start a run and, if asked, kill it at a random moment, unless it ends first."""
        command = [
            sys.executable,
            "-m",
            "benchmarks.stub_engine",
            str(self._source),
            str(target),
            "--seconds-a-row",
            str(_SECONDS_A_ROW),
        ]
        with subprocess.Popen(command) as running:
            if kill:
                self._wait(running, target)
                running.kill()
        if running.returncode == -9:
            self.kills += 1
        elif running.returncode:
            raise SystemExit(f"a run ended with {running.returncode}")

    def _wait(self, running: subprocess.Popen[bytes], target: Path) -> None:
        """Wait for the moment to kill, or for the run to end."""
        rejects = target.with_name(target.name + ".rejects.csv")
        at_the_end = self._chance.random() < 0.25
        end = time.monotonic() + (
            60 if at_the_end else self._chance.uniform(0, 0.9 * self._seconds)
        )
        while time.monotonic() < end and running.poll() is None:
            if at_the_end and rejects.exists():
                time.sleep(self._chance.uniform(0, 0.01))
                return
            time.sleep(0.0005)


def finished(target: Path, killer: Killer, most_kills: int) -> str:
    """Resume until the output exists; returns what is wrong with it, or an empty string."""
    before, runs = killer.kills, 0
    while not target.exists():
        killer.run(target, kill=killer.kills < most_kills)
        runs += 1
    leftovers = {path.name for path in target.parent.iterdir()} - {
        target.name,
        target.name + ".rejects.csv",
    }
    # killed after its file was in place: the next run with this output cleans up
    if leftovers and killer.kills == before + runs:
        leftovers -= {name for name in leftovers if name.endswith((".journal", ".tmp.d"))}
    same = all(
        (target.parent / name).read_bytes() == (target.parents[1] / "whole" / name).read_bytes()
        for name in (target.name, target.name + ".rejects.csv")
    )
    print(
        f"  {target.name}: {runs} runs, {killer.kills - before} killed,"
        f" {'identical' if same else 'DIFFERENT'}",
        flush=True,
    )
    return (
        ""
        if same and not leftovers
        else f"{target.name}: {'left ' + ', '.join(leftovers) if same else 'another file'}"
    )


def main() -> None:
    """Kill and resume runs, compare the files, and print the verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    faults: list[str] = []
    files = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_input(folder / "in.csv", options.rows)
        (folder / "whole").mkdir()
        started = time.monotonic()
        for name in _FORMATS:
            Killer(folder, random.Random(), 0).run(folder / "whole" / name, kill=False)
        killer = Killer(
            folder, random.Random(options.seed), (time.monotonic() - started) / len(_FORMATS)
        )
        while killer.kills < options.kills:
            (folder / f"broken-{files}").mkdir()
            fault = finished(
                folder / f"broken-{files}" / _FORMATS[files % len(_FORMATS)], killer, options.kills
            )
            faults += [fault] if fault else []
            files += 1
    verdict = "; ".join(faults) or "all identical to those of unbroken runs, nothing left behind"
    print(f"{killer.kills} kills, {files} finished files with their rejects: {verdict}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
