"""How many flipped labels the data doctor finds among its most suspicious rows.

python -m benchmarks.label_errors train.csv
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np

from bertcnn import load_keras, show_progress
from bertcnn.tables import Table, guess_columns, read_table


def main() -> None:
    """Flip labels, check and print, once for each seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--flipped", type=float, default=0.05, help="share of the labels")
    parser.add_argument(
        "--top", type=float, default=0.07, help="share of the rows that somebody would read"
    )
    options = parser.parse_args()
    load_keras()
    from bertcnn.doctor import check_csv

    table = read_table(options.data)
    choice = guess_columns(table)
    print(
        "| seed | flipped rows found in the top | precision there | flagged | found | precision |"
        " right label suggested | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for seed in range(options.seeds):
        labels, flipped = flip(table.column(str(choice.label)), options.flipped, seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "flipped.csv"
            write(path, table, str(choice.label), labels)
            started = time.perf_counter()
            with show_progress() as progress:
                report = check_csv(path, text=choice.text, label=choice.label, progress=progress)
            seconds = time.perf_counter() - started
        top = np.argsort(-np.nan_to_num(report.suspicion, nan=-1.0), kind="stable")[
            : round(options.top * len(labels))
        ]
        errors = report.finding("label_errors")
        flagged = set() if errors is None else set(errors.rows)
        hits = flagged & set(flipped)
        right = sum(report.suggestions[row] == flipped[row] for row in hits)
        in_top = len(set(top.tolist()) & set(flipped))
        print(
            f"| {seed} | {in_top / len(flipped):.1%} | {in_top / len(top):.1%} | {len(flagged)} |"
            f" {len(hits) / len(flipped):.1%} | {len(hits) / max(1, len(flagged)):.1%} |"
            f" {right / max(1, len(hits)):.1%} | {seconds:.0f} |",
            flush=True,
        )


def flip(labels: list[str], share: float, seed: int) -> tuple[list[str], dict[int, str]]:
    """Replace a share of the labels, each by another one, all equally likely.

    Also returns the correct labels of these rows.
    """
    generator = np.random.default_rng(seed)
    names = sorted(set(labels))
    rows = sorted(generator.choice(len(labels), round(share * len(labels)), replace=False).tolist())
    changed = list(labels)
    for row in rows:
        changed[row] = names[
            (names.index(labels[row]) + int(generator.integers(1, len(names)))) % len(names)
        ]
    return changed, {row: labels[row] for row in rows}


def write(path: Path, table: Table, column: str, labels: list[str]) -> None:
    """Write the table with other labels."""
    place = table.columns.index(column)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(
            (*row[:place], label, *row[place + 1 :])
            for row, label in zip(table.rows, labels, strict=True)
        )


if __name__ == "__main__":
    main()
