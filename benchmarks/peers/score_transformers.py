"""The peer of scoring.py: transformers' text-classification pipeline with the same encoder weights, CSV to CSV.

Runs in the peers' environment; answers on standard output with one JSON line. `--best` sorts by length and uses batches of 64, the best
setting found; otherwise the pipeline's default, one text at a time.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline


def main() -> None:
    """Score the file and tell the speed, without imports and loading."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--labels", type=int, required=True)
    parser.add_argument("--best", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(options.checkpoint, num_labels=options.labels)
    classify = pipeline("text-classification", model=model, tokenizer=AutoTokenizer.from_pretrained(options.checkpoint), device="cpu")
    classify(["warm", "up"])

    started = time.perf_counter()
    with options.source.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = [row["text"] for row in rows]
    if options.best:
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        answers: list[dict[str, object]] = [{}] * len(texts)
        results = classify([texts[row] for row in order], batch_size=64, truncation=True)
        for row, answer in zip(order, results, strict=True):
            answers[row] = answer
    else:
        answers = classify(texts, truncation=True)
    with options.target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], "predicted_label", "confidence"])
        writer.writerows([*row.values(), answer["label"], answer["score"]] for row, answer in zip(rows, answers, strict=True))
    print(json.dumps({"rows_per_second": len(rows) / (time.perf_counter() - started)}))


if __name__ == "__main__":
    main()
