"""Decoding speed in tokens/s: with and without a key-value cache, and with KerasHub's samplers.

    python -m benchmarks.decoding [--rows 32] [--length 64] [--rounds 5]

One Transformer with random weights generates texts of the same length for the same sources. All
searches are compiled by XLA. KerasHub's GreedySampler and BeamSampler call the same model's `step`
with the same key-value cache. Prints the median over alternating rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bertcnn import load_keras
from bertcnn.settings import TranslatorSettings

_START, _END, _PAD = 2, 3, 0
_SOURCE_TOKENS = 32
_BEAM = 4


def main() -> None:
    """Compile, generate and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    load_keras()
    from bertcnn.models import Transformer

    settings = TranslatorSettings(
        vocabulary_size=2000,
        width=256,
        layers=3,
        feed_forward_width=1024,
        source_tokens=_SOURCE_TOKENS,
        target_tokens=options.length,
    )
    model = Transformer(settings)
    sources = np.random.default_rng(0).integers(5, 2000, (options.rows, _SOURCE_TOKENS), np.int32)
    for width in (1, _BEAM):
        writers = {
            "ours, kept": ours(model, options.length, width),
            "KerasHub's sampler": theirs(model, options.length, width),
            "ours, nothing kept": uncached(model, options.length, width),
        }
        seconds: dict[str, list[float]] = {name: [] for name in writers}
        texts = {name: np.asarray(write(sources)) for name, write in writers.items()}
        for _ in range(options.rounds):
            for name, write in writers.items():
                started = time.perf_counter()
                write(sources)
                seconds[name].append(time.perf_counter() - started)
        alike = {name: (text == texts["ours, kept"]).mean() for name, text in texts.items()}
        for name, times in seconds.items():
            rate = options.rows * options.length / float(np.median(times))
            print(
                f"| width {width} | {name} | {rate:,.0f} tokens/s |"
                f" {alike[name]:.1%} of tokens as ours |",
                flush=True,
            )


def ours(model: Any, length: int, width: int) -> Callable[[np.ndarray], Any]:
    """Our search."""
    from bertcnn.tasks.compiled import compiled_search

    search = compiled_search(model, searching(length, width))
    return lambda sources: search(sources).token_ids[:, 0]


def searching(length: int, width: int) -> Any:
    """A search that never ends early and ranks by log-probability alone, as KerasHub's does."""
    from bertcnn.models import SearchSettings

    return SearchSettings(length, _START, _END, _PAD, width, length_penalty=0.0, never=(_END, _PAD))


def uncached(model: Any, length: int, width: int) -> Callable[[np.ndarray], Any]:
    """The same search with a model that recomputes the whole prefix at every step."""
    from keras import ops

    from bertcnn.tasks.compiled import compiled_search

    class Forgetful:
        variables = model.variables

        def read(self, source_ids: Any) -> Any:
            return (source_ids,)

        def begin(self, source: Any) -> Any:
            return (ops.full((source[0].shape[0], length), _PAD, "int32"),)

        def step(self, token_ids: Any, position: Any, source: Any, written: Any) -> Any:
            here = ops.equal(ops.arange(length), position)
            given = ops.where(here, token_ids[:, None], written[0])
            logits = model({"source_ids": source[0], "target_ids": given})
            attention = ops.ones(source[0].shape, "float32")
            return ops.take(logits, position, axis=1), (given,), attention

    search = compiled_search(Forgetful(), searching(length, width))
    return lambda sources: search(sources).token_ids[:, 0]


def theirs(model: Any, length: int, width: int) -> Callable[[np.ndarray], Any]:
    """KerasHub's sampler on the same model."""
    import keras_hub
    from keras import ops

    from bertcnn.tasks.compiled import compiled

    sampler = (
        keras_hub.samplers.GreedySampler()
        if width == 1
        else keras_hub.samplers.BeamSampler(num_beams=width)
    )
    banned = np.zeros(2000, np.float32)
    banned[[_END, _PAD]] = -1e9

    def write(source_ids: Any) -> Any:
        source = model.read(source_ids)
        size = len(source)

        def following(prompt: Any, cache: Any, index: Any) -> Any:
            last = ops.take(prompt, index - 1, axis=1)
            logits, written, _ = model.step(last, index - 1, cache[:size], cache[size:])
            return logits + banned, None, (*cache[:size], *written)

        start = ops.full((source_ids.shape[0], 1), _START, "int32")
        room = ops.full((source_ids.shape[0], length), _PAD, "int32")
        prompt = ops.concatenate([start, room], axis=1)
        cache = (*source, *model.begin(source))
        return sampler(following, prompt, cache=cache, index=1)[:, 1:]

    return compiled(model, write)


if __name__ == "__main__":
    main()
