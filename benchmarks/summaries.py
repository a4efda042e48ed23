"""How close summaries of tickets are to given ones, beside each ticket's first sentence.

    python -m benchmarks.summaries [--models copying plain scratch] [--seeds 3] [--shown 12]

Three models learn from data/ticket_summaries.csv, with three seeds each: a decoder that copies
words, on a frozen MiniLM (`bertcnn summarise train`); the same without copying; and a Transformer
from scratch (as `bertcnn translate train`). Prints ROUGE-L on data/ticket_summaries_test.csv: the
mean over the seeds with the standard deviation between them, and the gain over the first sentence
with a 95 % bootstrap interval over the tickets. Then the first held-out tickets with their
summaries by each model's first seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn import load_keras, show_progress

_DATA = Path(__file__).parents[1] / "data"
_SOURCE_TOKENS, _TARGET_TOKENS = 160, 24
_BEAM = 4


def _summariser(copies: bool) -> Callable[[int, Any], Any]:
    def make(seed: int, progress: Any) -> Any:
        from bertcnn.tasks.summaries import Summariser

        return Summariser(model={"copies": copies}, seed=seed, progress=progress)

    return make


def _from_scratch(seed: int, progress: Any) -> Any:
    from bertcnn import Translator

    shape = {"source_tokens": _SOURCE_TOKENS, "target_tokens": _TARGET_TOKENS}
    return Translator(model=shape, seed=seed, progress=progress)


_MODELS = {"copying": _summariser(True), "plain": _summariser(False), "scratch": _from_scratch}


def _written(name: str, seed: int, learned: Any, texts: list[str]) -> list[str]:
    """The summaries of a newly trained model."""
    started = time.perf_counter()
    with show_progress() as progress:
        model = _MODELS[name](seed, progress).fit(learned.sources, learned.targets)
    seconds = time.perf_counter() - started
    write = model.translate if name == "scratch" else model.summarise
    written = [one.text for one in write(texts, beam=_BEAM)]
    print(f"{name}, seed {seed}: trained in {seconds:.0f} s, {model.metrics_}", flush=True)
    return written


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=_MODELS, default=list(_MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shown", type=int, default=12)
    options = parser.parse_args()
    load_keras()
    from bertcnn.tasks.summaries import Mean, first_sentence, read_summaries, rouge_l

    learned, held_out = (
        read_summaries(_DATA / f"ticket_summaries{part}.csv") for part in ("", "_test")
    )

    def scores(written: list[str]) -> np.ndarray:
        pairs = zip(written, held_out.targets, strict=True)
        return np.array([rouge_l(own, given) for own, given in pairs])

    shown = {
        "given": held_out.targets,
        "first sentence": list(map(first_sentence, held_out.sources)),
    }
    first = scores(shown["first sentence"])
    lines = [f"| first sentence | {Mean.of(first)} | |"]
    for name in options.models:
        runs = [_written(name, seed, learned, held_out.sources) for seed in range(options.seeds)]
        shown[name] = runs[0]
        every = np.array([scores(run) for run in runs])  # [seeds, tickets]
        spread = 100 * every.mean(axis=1).std(ddof=1) if len(runs) > 1 else 0.0
        gain = Mean.of(every.mean(axis=0) - first)
        lines.append(f"| {name} | {every.mean():.1%} ({spread:.1f}) | {gain} |")
        print(lines[-1], flush=True)
    print("\n".join(["| | ROUGE-L | gain over the first sentence |", "|---|---|---|", *lines]))
    for row in range(min(options.shown, len(held_out))):
        print(f"\n{row + 1}. {held_out.sources[row]}")
        for name, summaries in shown.items():
            print(f"    - {name}: {summaries[row]}")


if __name__ == "__main__":
    main()
