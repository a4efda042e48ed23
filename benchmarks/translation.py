"""How well both translators learn: dates to ISO form, and everyday phrases to Italian.

    python -m benchmarks.translation dates [--pairs 20000] [--epochs 11]
    python -m benchmarks.translation phrases [--pieces 1000] [--epochs 60] [--seeds 3]

Dates: 1,000 spelled-out days that are in no training pair; prints the share translated exactly.
Phrases: data/phrases_en_it.tsv, with another tenth held out for each seed; prints chrF (Popović
2015) by sacrebleu, for greedy search and a beam of 4. Needs sacrebleu: pip install sacrebleu.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.dates import date_pairs, days
from bertcnn import load_keras, show_progress

_ARCHITECTURES = ("transformer", "recurrent")
_UNSEEN_DAYS, _TESTED = 2000, 1000
_PHRASES = Path(__file__).parents[1] / "data" / "phrases_en_it.tsv"


def learned(
    architecture: Any,
    pairs: tuple[list[str], list[str]],
    options: argparse.Namespace,
    seed: int = 0,
    **training: Any,
) -> Any:
    """Train a translator on these pairs; also returns the seconds it took."""
    from bertcnn.tasks.translation import Translator

    model, training = {"dropout": options.dropout}, {"epochs": options.epochs, **training}
    started = time.perf_counter()
    with show_progress() as progress:
        translator = Translator(
            architecture, model=model, training=training, seed=seed, progress=progress
        )
        translator.fit(*pairs)
    return translator, time.perf_counter() - started


def dates(options: argparse.Namespace) -> None:
    """Print the share of unseen days translated exactly."""
    chosen = days()
    pairs = date_pairs(chosen[_UNSEEN_DAYS:], options.pairs, seed=1)
    sources, targets = date_pairs(chosen[:_UNSEEN_DAYS], _TESTED, seed=2)
    print("| model | training | greedy | beam 4 |")
    for architecture in options.models:
        translator, seconds = learned(
            architecture, pairs, options, vocabulary_size=100, compiled_shapes=1
        )
        exact = []
        for beam in (1, 4):
            found = translator.translate(sources, beam=beam)
            right = sum(one.text == target for one, target in zip(found, targets, strict=True))
            exact.append(f"{right / _TESTED:.1%}")
        print(f"| {architecture} | {seconds:.0f} s | {' | '.join(exact)} |", flush=True)


def phrases(options: argparse.Namespace) -> None:
    """Print chrF on held-out phrases."""
    import sacrebleu

    from bertcnn.tasks.translation import read_pairs

    pairs = read_pairs(_PHRASES)
    print("| model | seed | training | chrF greedy | chrF beam 4 |")
    for architecture in options.models:
        for seed in range(options.seeds):
            kept, held_out = pairs.split(0.1, len(pairs), seed)
            translator, seconds = learned(
                architecture,
                (kept.sources, kept.targets),
                options,
                seed,
                vocabulary_size=options.pieces,
            )
            scores = [
                sacrebleu.corpus_chrf(
                    [one.text for one in translator.translate(held_out.sources, beam=beam)],
                    [held_out.targets],
                ).score
                for beam in (1, 4)
            ]
            figures = " | ".join(f"{score:.1f}" for score in scores)
            print(f"| {architecture} | {seed} | {seconds:.0f} s | {figures} |", flush=True)


def main() -> None:
    """Train, translate and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("dates", "phrases"))
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--pieces", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=_ARCHITECTURES, default=_ARCHITECTURES)
    parser.add_argument("--dropout", type=float, default=None)
    options = parser.parse_args()
    options.epochs = options.epochs or (11 if options.what == "dates" else 60)
    if options.dropout is None:
        options.dropout = 0.05 if options.what == "dates" else 0.1
    load_keras()
    dates(options) if options.what == "dates" else phrases(options)


if __name__ == "__main__":
    main()
