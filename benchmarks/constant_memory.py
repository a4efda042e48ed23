"""Resident memory and rows/s when scoring a large file with a stub network.

Everything except the network is real.

    python -m benchmarks.constant_memory [--rows 5000000] [--new 0.2]

`--new` is the share of rows with a new text; the others repeat one of the latest 50,000 texts, as
tickets do. Memory growth is counted from the point where the cache of answers is nearly full, after
131,072 texts, to the end. Linux only.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import cast

from benchmarks.stub_engine import StubEngine, stub_predictor
from bertcnn.scoring import score_csv

_CACHE_IS_FULL = 131_072  # texts


def resident(name: str = "VmRSS") -> int:
    """One memory figure of this process, in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


class Watch:
    """Records the resident memory after each chunk, once the cache is full.

    Attributes:
        samples: resident memory, kB.
    """

    def __init__(self, engine: StubEngine) -> None:
        self._engine = engine
        self.samples: list[int] = []

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Ignore it."""

    def advance(self, done: int, **figures: float) -> None:  # noqa: ARG002
        """Record the resident memory after a chunk."""
        if self._engine.asked > _CACHE_IS_FULL:
            self.samples.append(resident())

    def note(self, message: str) -> None:
        """Ignore it."""


def write_input(path: Path, rows: int, new: float) -> None:
    """Write tickets of about 70 characters."""
    with path.open("w") as stream:
        stream.write("id,text,channel\n")
        for row in range(rows):
            known = int(row * new) + 1
            text = known if row * new % 1 < new else known - row * 7919 % min(known, 50_000)
            stream.write(
                f"{row},the router is off since monday and the app is of no help {text},web\n"
            )


def measure(rows: int, new: float, folder: Path) -> dict[str, float]:
    """Score a file with the given number of rows.

    Returns:
        `rows_per_second`, `asked` (rows that reached the model), `first`, `last` and `peak` (kB of
        resident memory), `growth` (kB for each million rows).
    """
    write_input(folder / "in.csv", rows, new)
    predictor = stub_predictor()
    engine = cast("StubEngine", predictor.engine)
    watch = Watch(engine)
    report = score_csv(predictor, folder / "in.csv", folder / "scored.csv", progress=watch)
    if len(watch.samples) < 2:
        raise SystemExit(
            f"{engine.asked:,} different texts do not fill the cache: more rows, or a larger --new"
        )
    return {
        "rows_per_second": report.rows / report.seconds,
        "asked": engine.asked,
        "first": watch.samples[0],
        "last": watch.samples[-1],
        "peak": resident("VmHWM"),
        "growth": (watch.samples[-1] - watch.samples[0]) / ((len(watch.samples) - 1) * 4096 / 1e6),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--new", type=float, default=0.2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(options.rows, options.new, Path(scratch))
    print(
        f"{options.rows:,} rows, of which the model was asked for {figures['asked']:,}:"
        f" {figures['rows_per_second']:,.0f} rows/s"
    )
    first, last, peak, growth = (
        figures[name] / 1e3 for name in ("first", "last", "peak", "growth")
    )
    print(
        f"resident memory {first:.1f} MB early, {last:.1f} MB at the end, {peak:.1f} MB at most:"
        f" {growth:+.2f} MB for each million rows"
    )


if __name__ == "__main__":
    main()
