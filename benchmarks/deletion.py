"""Do the phrases given as the reason change the answer more than random ones?

    python -m benchmarks.deletion MODEL FILE [--rows 1000] [--draws 5] [--text COLUMN]

For rows spread over FILE, the model predicts again without the named phrases, and `draws` times
without random runs of words of the same lengths; the mean of the draws counts. Prints the mean drop
in the probability of the predicted label for both, and the mean of their difference with a 95%
interval by paired bootstrap over the rows (Efron and Tibshirani 1993, section 13.3). Rows with no
named phrase, or with nothing but phrases, are left out and counted. The test is the
comprehensiveness of DeYoung et al. 2020, section 4.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.inputs import read_input
from bertcnn import load
from bertcnn.inference import Predictor

_WORD = re.compile(r"\S+")
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Removal:
    """A text, and the same text without the named words and without random words.

    Attributes:
        text: the whole text.
        without_named: the text without the named words.
        without_random: the text without each draw's words.
    """

    text: str
    without_named: str
    without_random: tuple[str, ...]


def removal(
    text: str, spans: Sequence[Sequence[int]], draws: int, chance: np.random.Generator
) -> Removal | None:
    """The texts to predict; None if no word, or every word, is named.

    Args:
        text: the text.
        spans: start and end of each phrase, in characters; the end is exclusive.
        draws: number of random removals.
        chance: random generator.
    """
    words = list(_WORD.finditer(text))
    named = np.array(
        [any(start < word.end() and word.start() < end for start, end in spans) for word in words],
        bool,
    )
    if not named.any() or named.all():
        return None
    runs = np.diff(np.flatnonzero(np.diff(np.concatenate([[0], named, [0]]))))[
        ::2
    ]  # words in each run of named words
    drawn = tuple(_without(words, _random_runs(runs, len(words), chance)) for _ in range(draws))
    return Removal(text, _without(words, named), drawn)


def _random_runs(runs: np.ndarray, words: int, chance: np.random.Generator) -> np.ndarray:
    """Random runs of the same lengths, all positions equally likely, bool [words]."""
    chosen, place = np.zeros(words, bool), 0
    free = words - int(runs.sum())
    gaps = np.diff(np.concatenate([[0], np.sort(chance.integers(0, free + 1, len(runs)))]))
    for gap, run in zip(gaps.tolist(), chance.permutation(runs).tolist(), strict=True):
        place += gap
        chosen[place : place + run] = True
        place += run
    return chosen


def _without(words: Sequence[re.Match[str]], removed: np.ndarray) -> str:
    return " ".join(word[0] for word, gone in zip(words, removed.tolist(), strict=True) if not gone)


def drops(
    predictor: Predictor, texts: Sequence[str], draws: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The drop in the probability of the predicted label.

    Without the named words, and without random words, each float [rows].
    """
    chance, answers = np.random.default_rng(seed), predictor.answer(texts)
    removals = [
        removal(text, spans, draws, chance)
        for text, spans in zip(texts, answers.because.tolist(), strict=True)
    ]
    kept = [row for row, found in enumerate(removals) if found is not None]
    labels, before = answers.labels[kept], answers.confidence[kept]

    def fall(changed: list[str]) -> np.ndarray:
        return before - predictor.predict_proba(changed)[np.arange(len(kept)), labels]

    asked = [found for found in removals if found is not None]
    random = [fall([found.without_random[draw] for found in asked]) for draw in range(draws)]
    return fall([found.without_named for found in asked]), np.mean(random, axis=0)


def interval(differences: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean."""
    chance = np.random.default_rng(seed)
    means = [
        differences[chance.integers(0, len(differences), len(differences))].mean()
        for _ in range(_RESAMPLES)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--text", help="the text column or columns")
    options = parser.parse_args()
    predictor = load(options.model)
    texts = (
        read_input(options.data, predictor.bundle.config, options.text).repeated(options.rows).texts
    )
    named, random = drops(predictor, texts, options.draws)
    low, high = interval(named - random)
    print(
        f"{len(named):,} rows of {options.data}; {len(texts) - len(named):,} left out: no phrase,"
        " or nothing else"
    )
    print(
        f"mean drop of the probability: {named.mean():.3f} without the named phrases,"
        f" {random.mean():.3f} without random ones as long"
    )
    print(f"difference {np.mean(named - random):.3f} (95% interval {low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
