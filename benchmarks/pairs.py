"""Are two text columns better kept apart as BERT's segments A and B, or joined into one text?

    python -m benchmarks.pairs [--recipe full|frozen] [--seeds 5] [--sets answers,subjects]

Two sets from data/, each with two texts a row and at most 400 characters:

- answers: a question and a ticket; the label is whether the ticket answers the question.
- subjects: tickets of two sentences or more, with the first sentence as the subject and the rest as
  the body; the label is the team. The tickets have no subject of their own.

For each seed a fifth of the tickets is held out, with all questions about them. A classifier is
trained twice on the other rows: with the two texts as segments (`--pair`), and with the same texts
joined by a space. Both see the same rows in the same order. Prints both accuracies, and the mean
difference over the seeds with Student's 95% interval.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import t

from bertcnn import BertCNNClassifier, load_keras
from bertcnn.tables import read_table

_DATA = Path(__file__).parents[1] / "data"
_HELD_OUT, _LONGEST = 0.2, 400  # share of the rows, characters
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def main() -> None:
    """Train, evaluate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", choices=("full", "frozen"), default="full")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", default="answers,subjects")
    options = parser.parse_args()
    load_keras()
    for name in options.sets.split(","):
        pairs, labels = {"answers": answers, "subjects": subjects}[name]()
        print(f"{name}: {len(pairs)} rows, {np.mean(labels == most_common(labels)):.1%} the same")
        results = np.array(
            [compared(pairs, labels, options.recipe, seed) for seed in range(options.seeds)]
        )  # [seeds, 2]
        differences = results[:, 0] - results[:, 1]
        half = t.ppf(0.975, options.seeds - 1) * differences.std(ddof=1) / options.seeds**0.5
        apart, joined = (f"{row.mean():.2%} ± {row.std(ddof=1):.2%}" for row in results.T)
        print(
            f"{name}: segments {apart}, joined {joined}, difference"
            f" {100 * differences.mean():+.2f} ± {100 * half:.2f} points",
            flush=True,
        )


def answers() -> tuple[list[tuple[str, str]], np.ndarray]:
    """Questions with tickets, and whether the ticket answers the question."""
    table = read_table(_DATA / "ticket_questions.jsonl")
    rows = [
        (question, context, "answer" if answer else "none")
        for question, context, answer in zip(
            *map(table.column, ("question", "context", "answer")), strict=True
        )
        if len(context) <= _LONGEST
    ]
    return [(question, context) for question, context, _ in rows], np.array(
        [row[2] for row in rows]
    )


def subjects() -> tuple[list[tuple[str, str]], np.ndarray]:
    """Tickets split after their first sentence, and their teams."""
    table = read_table(_DATA / "isp_tickets.csv")
    texts, labels = table.column("text"), table.column("label")
    parts = [_SENTENCE.split(text.strip(), maxsplit=1) for text in texts]
    rows = [
        (" ".join(split[0].split()), split[1], label)
        for text, split, label in zip(texts, parts, labels, strict=True)
        if len(split) == 2 and len(text) <= _LONGEST
    ]
    return [(subject, body) for subject, body, _ in rows], np.array([row[2] for row in rows])


def compared(
    pairs: Sequence[tuple[str, str]],
    labels: np.ndarray,
    recipe: Literal["full", "frozen"],
    seed: int,
) -> tuple[float, float]:
    """The accuracy on held-out rows, with segments and with joined texts."""
    second = np.array([body for _, body in pairs])
    bodies = np.unique(second)
    chosen = np.random.default_rng(seed).permutation(bodies)[: round(_HELD_OUT * len(bodies))]
    held_out = np.isin(second, chosen)
    results = []
    for pair, separator in ((True, "\n"), (False, " ")):
        started = time.perf_counter()
        texts = np.array([separator.join(both) for both in pairs], object)
        classifier = BertCNNClassifier(
            recipe=recipe, training={"pair": pair, "folds": 0}, seed=seed
        ).fit(texts[~held_out].tolist(), labels[~held_out].tolist())
        right = classifier.predict(texts[held_out].tolist()) == labels[held_out]
        results.append(float(np.mean(right)))
        print(
            f"seed {seed}, {'segments' if pair else 'joined'}: {results[-1]:.2%} of"
            f" {held_out.sum()} rows, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    return results[0], results[1]


def most_common(labels: np.ndarray) -> str:
    """The label of most rows."""
    names, counts = np.unique(labels, return_counts=True)
    return str(names[counts.argmax()])


if __name__ == "__main__":
    main()
