"""Is an encoder tuned on 960 intents of 16 domains a better start for few rows?

    python -m benchmarks.intents encoders/intents
    [--leave-out mobile_and_internet,it_helpdesk,software_product]
    python -m benchmarks.few_shot data/isp_tickets.csv --rows 10 --encoder encoders/intents

As in `few-shot`, the published encoder is tuned to pull messages of the same intent of
data/intents.csv together. The result is halfway between the published and the tuned weights:
interpolated weights generalise better than either end (Wortsman et al. 2022, "Robust fine-tuning
of zero-shot models"). None of the domains is banking, so Banking77 shows the effect on an unseen
domain.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from bertcnn import show_progress
from bertcnn.encoders import Pieces, fetch_encoder, read_checkpoint, write_encoder
from bertcnn.models import extract
from bertcnn.settings import FEW_SHOT
from bertcnn.training import TokenizedRows, load_start
from bertcnn.training.contrastive import tune_by_contrast

MESSAGES = Path(__file__).parents[1] / "data" / "intents.csv"
ENCODER = "minilm-l6"
SETTINGS = FEW_SHOT.model_copy(update={"contrast_steps": 100, "contrast_learning_rate": 3e-5})
WAY = 0.5  # interpolation from the published weights (0) to the tuned ones (1)


def main() -> None:
    """Tune the encoder and write it to a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument(
        "--leave-out", default="", help="trades not to be learned from, separated by commas"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    left_out = frozenset(filter(None, options.leave_out.split(",")))
    if unknown := left_out - trades():
        parser.error(
            f"--leave-out {', '.join(sorted(unknown))}: no such trade; there are"
            f" {', '.join(sorted(trades()))}"
        )
    texts, intents = read(left_out)
    names, labels = np.unique(intents, return_inverse=True)
    print(f"{len(texts):,} messages of {len(names)} intents")
    options.out.mkdir(parents=True)
    with show_progress() as progress:
        start = load_start(ENCODER, 512, seed=options.seed, progress=progress)
        told = [
            name.split("/")[1].replace("_", " ") for name in names
        ]  # the intent's name counts as another message
        rows = TokenizedRows(
            start.tokenizer.encode([*texts, *told]).token_ids,
            np.concatenate([labels, np.arange(len(names))]),
        )
        before = extract(start.encoder.weights)
        tune_by_contrast(start.encoder, rows, SETTINGS, seed=options.seed, progress=progress)
        after = extract(start.encoder.weights)
    published = read_checkpoint(fetch_encoder(ENCODER).folder)
    tensors = {
        name: before[name] + np.float32(WAY) * (after[name] - before[name]) for name in before
    }
    write_encoder(
        options.out,
        replace(published, tensors={**published.tensors, **tensors}),
        Pieces(start.tokenizer.vocabulary, True),
    )


def trades() -> frozenset[str]:
    """All domains in the data."""
    return frozenset(intent.split("/")[0] for intent in read(frozenset())[1])


def read(left_out: frozenset[str]) -> tuple[list[str], np.ndarray]:
    """Messages, and the domain and intent of each."""
    with MESSAGES.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["domain"] not in left_out]
    return [row["text"] for row in rows], np.array(
        [f"{row['domain']}/{row['intent']}" for row in rows]
    )


if __name__ == "__main__":
    main()
