"""Cost of attention, recurrence and convolution for growing lengths, compared with the formulas.

    python -m benchmarks.layer_costs [--rounds 30] [--longest 2048]

One text, width 256, float32, one core, compiled by XLA. Three tables:

- processor time of a call, so that other programs disturb less: all layers and lengths take turns,
  and the fastest of all rounds counts; an operation is a multiplication with its addition;
- the path: how many layers it takes until a change of the first token has reached the last one;
- the norm of the gradient from the last output to the first input, of new layers.

Source: Vaswani et al. 2017, table 1.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bertcnn import load_keras

WIDTH, HEADS, WINDOW = 256, 4, 3
FITTED = 4  # longest lengths, for the exponents; for short ones the start of a call counts

OPERATIONS: dict[str, Callable[[int], int]] = {
    "attention": lambda n: 4 * n * WIDTH**2 + 2 * n**2 * WIDTH,  # projections; scores and context
    "LSTM": lambda n: 8 * n * WIDTH**2,
    "GRU": lambda n: 6 * n * WIDTH**2,
    "convolution": lambda n: WINDOW * n * WIDTH**2,
}
PATHS: dict[str, Callable[[int], int]] = {
    "attention": lambda _: 1,
    "convolution": lambda n: math.ceil((n - 1) / (WINDOW - 1)),
    "dilated convolution": lambda n: math.ceil(math.log(n, WINDOW)),  # by 1, 3, 9, ...
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--longest", type=int, default=2048)
    options = parser.parse_args()
    load_keras()
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lengths = [2**power for power in range(6, options.longest.bit_length())]
    _print_row("milliseconds", *lengths, "exponent of time", "of operations")
    for name, seconds in measured(lengths, options.rounds).items():
        counts = [OPERATIONS[name](length) for length in lengths]
        exponents = [f"{exponent(lengths, values):.2f}" for values in (seconds, counts)]
        _print_row(name, *(f"{one * 1e3:.2f}" for one in seconds), *exponents)
    _print_row("layers until the last token", *lengths, "by formula")
    for name, path in PATHS.items():
        layers = [layers_until_reached(name, length) for length in lengths]
        same = layers == [path(length) for length in lengths]
        _print_row(name, *layers, "the same" if same else "other")
    short = [length // 8 for length in lengths]  # longer ones vanish in float32
    _print_row("gradient to the first token", *short)
    for name in ("attention", "LSTM", "GRU"):
        _print_row(name, *(f"{gradient(name, length):.1e}" for length in short))


def _print_row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def exponent(lengths: list[int], values: list[Any]) -> float:
    """The slope of log(values) over log(length), for the longest lengths."""
    logs = np.log(lengths[-FITTED:]), np.log(np.array(values[-FITTED:], float))
    return float(np.polyfit(*logs, 1)[0])


def layer_of(name: str) -> Any:
    """A layer with new weights."""
    import keras

    from bertcnn.layers import MultiHeadAttention

    layers: dict[str, Callable[[], Any]] = {
        "attention": lambda: MultiHeadAttention(HEADS),
        "LSTM": lambda: keras.layers.LSTM(WIDTH, return_sequences=True),
        "GRU": lambda: keras.layers.GRU(WIDTH, return_sequences=True),
        "convolution": lambda: keras.layers.Conv1D(WIDTH, WINDOW, padding="same"),
    }
    return layers[name]()


def measured(lengths: list[int], rounds: int) -> dict[str, list[float]]:
    """The least processor time of a call in seconds, of each layer for each length."""
    import tensorflow as tf

    calls = {}
    for name in OPERATIONS:
        layer = layer_of(name)
        layer.build((1, None, WIDTH))
        compiled = tf.function(layer, jit_compile=True, autograph=False)
        for length in lengths:
            rows = tf.random.stateless_normal((1, length, WIDTH), (0, length))
            calls[name, length] = compiled, rows
            compiled(rows)  # compiles
    least = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for key, (compiled, rows) in calls.items():
            started = time.process_time()
            compiled(rows).numpy()
            least[key] = min(least[key], time.process_time() - started)
    return {name: [least[name, length] for length in lengths] for name in OPERATIONS}


def layers_until_reached(name: str, length: int) -> int:
    """How many layers it takes until a change of the first token has changed the last output."""
    import keras

    rows = np.random.default_rng(0).normal(size=(1, length, WIDTH)).astype(np.float32)
    changed, layers = np.arange(length) == 0, 0
    while not changed[-1]:
        if name == "attention":
            layer = layer_of(name)
            moved = np.asarray(layer(rows + changed[:, None])) - np.asarray(layer(rows))
        else:  # with weights of 1, an output differs if an input in its window does
            dilation = WINDOW**layers if name == "dilated convolution" else 1
            layer = keras.layers.Conv1D(
                1, WINDOW, padding="causal", dilation_rate=dilation, kernel_initializer="ones"
            )
            moved = np.asarray(layer(changed[None, :, None].astype(np.float32)))
        changed, layers = np.abs(moved[0]).max(axis=-1) > 0, layers + 1
    return layers


def gradient(name: str, length: int) -> float:
    """The norm of the gradient of the last output's mean with respect to the first input."""
    import tensorflow as tf

    layer = layer_of(name)
    rows = tf.random.stateless_normal((1, length, WIDTH), (0, length))
    with tf.GradientTape() as tape:
        tape.watch(rows)
        last = tf.reduce_mean(layer(rows)[0, -1])
    return float(np.linalg.norm(tape.gradient(last, rows)[0, 0]))


if __name__ == "__main__":
    main()
