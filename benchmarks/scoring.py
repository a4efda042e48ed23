"""Scored rows/s from CSV on disk to CSV on disk, beside the transformers pipeline at its default and at its best setting, taking turns.

    python -m benchmarks.scoring MODEL test.csv

Imports and loading are not counted on either side. The pipeline has a linear layer on [CLS] where we have the CNN head (4 % more work); the
encoder's shape and weights before fine-tuning are the same.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.environment import ask_peer
from bertcnn.cli.quiet import load_keras


def main() -> None:
    """Take turns and print each round, then the medians and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    load_keras()
    from bertcnn import load, score_csv
    from bertcnn.encoders.download import fetch_encoder

    folder = fetch_encoder("minilm-l6").folder
    predictor = load(options.model)
    predictor.classify(["warm", "up"])
    figures: dict[str, list[float]] = {"bertcnn": [], "pipeline, default": [], "pipeline, best": []}
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "scored.csv"
        for _ in range(options.rounds):
            report = score_csv(predictor, options.data, target, overwrite=True)
            figures["bertcnn"].append(report.rows / report.seconds)
            for name, extra in (("pipeline, default", ()), ("pipeline, best", ("--best",))):
                arguments = (folder, options.data, target, "--labels", len(predictor.labels), *extra)
                figures[name].append(float(ask_peer("score_transformers.py", *arguments)["rows_per_second"]))
            print(", ".join(f"{name} {speeds[-1]:.0f} rows/s" for name, speeds in figures.items()), flush=True)
    ours = statistics.median(figures["bertcnn"])
    for name, speeds in figures.items():
        print(f"{name}: median {statistics.median(speeds):.0f} rows/s, ours is {ours / statistics.median(speeds):.2f} times that")


if __name__ == "__main__":
    main()
