"""Code shared by all competitors of scoring.py: arguments, warm-up, clock, peak memory.

It also runs in the peers' environments, so it needs the standard library only.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TEXT, LABEL, PREDICTED = "text", "label", "predicted_label"


def parser(model: str) -> argparse.ArgumentParser:
    """The argument parser of every competitor: `model`, as described, and the files."""
    made = argparse.ArgumentParser()
    made.add_argument("model", type=Path, help=model)
    made.add_argument("warm_up", type=Path, help="a few rows, scored before the clock starts")
    made.add_argument("source", type=Path, help="the rows, as `inputs.write_rows` writes them")
    made.add_argument("target", type=Path, help="the scored file")
    return made


def measure(score: Callable[[Path, Path], object], options: argparse.Namespace, name: str) -> None:
    """Score the warm-up, then time the scoring of the source.

    Prints one line of JSON with `name`, `seconds` and `peak` (bytes).

    Args:
        score: scores a file into another.
        options: of `parser`.
        name: the software that computed the answers, with its version.
    """
    score(options.warm_up, options.target)
    options.target.unlink()
    started = time.perf_counter()
    score(options.source, options.target)
    seconds = time.perf_counter() - started
    print(json.dumps({"name": name, "seconds": seconds, "peak": peak_memory()}))


def peak_memory() -> int:
    """Peak resident memory of this process, in bytes.

    On Linux it is read from /proc: a child process inherits the `ru_maxrss` of its parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource  # not available on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def read_rows(source: Path) -> list[dict[str, str]]:
    """The rows of the input."""
    with source.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_scored(
    target: Path, rows: Sequence[dict[str, str]], labels: Sequence[str], confidence: Sequence[float]
) -> None:
    """Write the rows with labels and confidence, in the format of our own scored file."""
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], PREDICTED, "confidence"])
        for row, label, share in zip(rows, labels, confidence, strict=True):
            writer.writerow([*row.values(), label, f"{share:.6f}"])
