"""Shows that two versions of this package train the same model and score the same file.

    python -m benchmarks.same_as BASE HEAD [--rows test.csv] [--rounds 3]

Each version (a git revision) is checked out into a temporary folder and runs in its own processes.
Both train with one seed by each recipe on the sample tickets. The tensors must be bit-identical;
the JSON files may differ in versions, formats and times only. Both score the rows with their own
model, and the files must be byte-identical. Then their scoring speed is measured in alternating
rounds, and the best rounds are compared. Exits with code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

_ROOT = Path(__file__).parents[1]
_CHANGING = {
    "schema",
    "format",
    "version",
    "versions",
    "created_at",
    "seconds",
    "duration",
    "sha256",
    "id",
    "path",
    "origin",
}  # JSON keys that describe the run, not the model
_PER_LABEL = {"frozen": None, "full": 60, "few-shot": 10}  # training rows for each recipe
_OPTIONS = {
    "frozen": ["--epochs", "10"],
    "full": ["--epochs", "2"],
    "few-shot": ["--epochs", "5"],
}


@dataclass
class Version:
    """A version of the package, and its measured times.

    Attributes:
        name: the git revision.
        folder: where it is checked out.
        output: folder for its output.
        seconds: of each measured step, one for each round.
    """

    name: str
    folder: Path
    output: Path
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def run(self, step: str, *arguments: str | Path) -> None:
        """Run and time one `bertcnn` command."""
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "bertcnn", *map(str, arguments)],
            check=True,
            cwd=self.output,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            stdout=subprocess.DEVNULL,
        )
        self.seconds.setdefault(step, []).append(time.perf_counter() - started)


@contextmanager
def checked_out(names: list[str]) -> Iterator[list[Version]]:
    """Check out each revision into a temporary folder."""
    with tempfile.TemporaryDirectory() as place:
        versions = []
        for number, name in enumerate(names):
            folder, output = Path(place, f"code-{number}"), Path(place, f"output-{number}")
            output.mkdir()
            subprocess.run(["git", "clone", "-q", "-s", "-n", _ROOT, folder], check=True)
            commit = subprocess.run(
                ["git", "rev-parse", "--verify", f"{name}^{{commit}}"],
                cwd=_ROOT,
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            subprocess.run(["git", "checkout", "-q", commit], cwd=folder, check=True)
            versions.append(Version(name, folder, output))
        yield versions


def first_rows(source: Path, target: Path, per_label: int | None) -> None:
    """Copy a labelled table, or the first rows of each label."""
    with source.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names, rows = list(reader.fieldnames or ()), list(reader)
    label = names[-1]
    seen: dict[str, int] = {}
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            seen[row[label]] = seen.get(row[label], 0) + 1
            if per_label is None or seen[row[label]] <= per_label:
                writer.writerow(row)


def without_run(content: Any) -> Any:
    """A JSON value without the keys that describe the run."""
    if isinstance(content, Mapping):
        return {
            name: without_run(value) for name, value in content.items() if name not in _CHANGING
        }
    return [without_run(value) for value in content] if isinstance(content, list) else content


def differences(one: Path, other: Path) -> list[str]:
    """The parts of two models that differ."""
    found = []
    for name in ("model.safetensors", "out_of_scope.safetensors"):
        ours, theirs = load_file(one / name), load_file(other / name)
        found += [f"{name}: {tensor} is in one only" for tensor in sorted(ours.keys() ^ theirs)]
        found += [
            f"{name}: {tensor}"
            for tensor in sorted(ours.keys() & theirs)
            if ours[tensor].dtype != theirs[tensor].dtype
            or ours[tensor].tobytes() != theirs[tensor].tobytes()
        ]
    for name in ("labels.json", "calibration.json", "decisions.json", "metrics.json"):
        ours, theirs = (json.loads((folder / name).read_text()) for folder in (one, other))
        if without_run(ours) != without_run(theirs):
            found.append(name)
    if (one / "vocab.txt").read_bytes() != (other / "vocab.txt").read_bytes():
        found.append("vocab.txt")
    return found


def main() -> None:
    """Compare two versions and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", help="a git revision")
    parser.add_argument("head", help="another one")
    parser.add_argument("--table", type=Path, default=_ROOT / "data/isp_tickets.csv")
    parser.add_argument("--rows", type=Path, default=_ROOT / "data/isp_inbox.csv")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of scoring")
    parser.add_argument("--recipes", nargs="+", choices=_OPTIONS, default=list(_OPTIONS))
    options = parser.parse_args()
    same = True
    with checked_out([options.base, options.head]) as versions:
        for recipe in options.recipes:
            for version in versions:
                table = version.output / "table.csv"
                first_rows(options.table, table, _PER_LABEL[recipe])
                common = ["--recipe", recipe, "--seed", "1"]
                version.run(recipe, "train", table, "--out", recipe, *common, *_OPTIONS[recipe])
            found = differences(*(version.output / recipe for version in versions))
            same &= not found
            print(f"{recipe}: {'equal bit for bit' if not found else '; '.join(found)}", flush=True)
        for _ in range(options.rounds):
            for version in versions:
                arguments = [options.recipes[0], options.rows.resolve(), "scored.csv", "--force"]
                version.run("score", "score", *arguments)
        scored = [(version.output / "scored.csv").read_bytes() for version in versions]
        same &= scored[0] == scored[1]
        equal = "equal byte for byte" if scored[0] == scored[1] else "DIFFERENT"
        print(f"scored file ({len(scored[0]):,} bytes): {equal}\n")
        print(f"{'seconds, best round':24}{options.base:>14.12}{options.head:>14.12}   ratio")
        for step in versions[0].seconds:
            base, head = (min(version.seconds[step]) for version in versions)
            print(f"{step:24}{base:14.2f}{head:14.2f}{head / base:8.3f}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
