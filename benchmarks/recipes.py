"""When time is short: `frozen` on all rows compared with a few epochs of `full`.

    python -m benchmarks.recipes banking77/train.csv [--sets groups,movies] [--seeds 2]

Two tasks: Banking77's labels merged into nine groups, and 10,605 sentences of film reviews,
negative or positive by the mean of 20 people's ratings. The ratings come from the same source as in
`benchmarks.heads`, which also provides the splits and the training code.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.few_shot import read
from benchmarks.heads import MOST_TOKENS, Division, frozen, full, rated_sentences
from bertcnn.settings import FROZEN, FULL

GROUPS = {  # a label belongs to the first group with a word of the label's name
    "codes": ("pin", "passcode"),
    "identity": ("verify", "identity", "source_of_funds", "edit_personal", "terminate"),
    "exchange": ("exchange", "currenc", "fiat"),
    "top-ups": ("top_up", "topping"),
    "transfers": ("transfer", "beneficiary", "receiving"),
    "charges": ("fee", "charge", "refund", "debit"),
    "cash": ("cash", "atm"),
    "cards": ("card",),
    "other": ("",),
}
WAYS: dict[str, list[tuple[int | None, int]]] = {  # training rows, None for all, and epochs
    "groups": [(1125, 1), (2250, 1), (4500, 1), (None, 1), (None, 2)],
    "movies": [(1000, 1), (2000, 1), (4000, 1), (None, 1)],
}


def main() -> None:
    """Train each variant with each seed; print its accuracy and seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--sets", default=",".join(WAYS))
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    for name in options.sets.split(","):
        texts, labels = grouped(options.data) if name == "groups" else movies()
        for most, epochs in [(None, 0), *WAYS[name]]:
            for seed in range(options.seeds):
                division, started = Division.of(labels, seed, most), time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    if epochs:
                        settings = FULL.model_copy(
                            update={"max_tokens": MOST_TOKENS, "epochs": epochs}
                        )
                    else:
                        settings = FROZEN.model_copy(update={"max_tokens": MOST_TOKENS})
                    run = (full if epochs else frozen)(texts, labels, settings, Path(folder))
                    asked = run("cnn", 1.0, seed, division).asked
                way = f"full, {epochs} epochs" if epochs else "frozen"
                steps = epochs * len(division.learn) // settings.batch_size
                print(
                    f"{name}: {way}, {len(division.learn):,} rows, {steps or settings.epochs}"
                    f" {'steps' if epochs else 'epochs'}, seed {seed}: {asked:.2%},"
                    f" {time.perf_counter() - started:.0f} s",
                    flush=True,
                )


def grouped(path: str) -> tuple[list[str], np.ndarray]:
    """Banking77's texts, with the group of each label."""
    texts, labels = read(path)
    group = {
        str(label): next(
            name for name, words in GROUPS.items() if any(word in label for word in words)
        )
        for label in np.unique(labels)
    }
    return texts, np.array([group[str(label)] for label in labels])


def movies() -> tuple[list[str], np.ndarray]:
    """Sentences of film reviews."""
    texts, ratings = rated_sentences("movieReviewSnippets")
    return texts, np.where(ratings > 0, "positive", "negative")


if __name__ == "__main__":
    main()
