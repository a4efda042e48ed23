"""The machine's peak in int8 matrix products, and the cost of the operations around them.

    python -m benchmarks.int8_peak

Runs a chain of products with int8 inputs and outputs, in MiniLM's shapes for a batch of 504 tokens
and for a large square matrix, on one core and on all cores. A multiplication counts as two
operations. Then it adds the other operations of a feed-forward net one by one, on one core.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

import numpy as np
import openvino as ov
from openvino import opset13 as ops

SHAPES = (
    (504, 384, 384),
    (504, 384, 1536),
    (504, 1536, 384),
    (2048, 2048, 2048),
)  # rows, width before and after the first product
PRODUCTS, ROUNDS, OPERATIONS = (
    16,
    5,
    3e11,
)  # products in a chain; rounds (the best counts); operations in a round for each core
PARTS = (
    "a scale for each output",
    "a bias",
    "GELU",
    "a smoothing factor for each input of the way back",
)


def chain(rows: int, width: int, other: int, parts: int = 0) -> ov.Model:
    """Products in pairs, up to `other` and back to `width`, with the first `parts` of `PARTS`.

    Weights have 7 bits, as in `bertcnn.inference.quantization`.
    """
    chance = np.random.default_rng(0)

    def near_one(size: int) -> np.ndarray:
        return chance.uniform(0.9, 1.1, (1, size)).astype(np.float32)

    given = ops.parameter([rows, width], np.float32, name="given")
    hidden = given
    for number in range(PRODUCTS):
        before, behind = (width, other) if number % 2 == 0 else (other, width)
        back = number % 2 == 1
        if back and parts >= 4:
            hidden = ops.multiply(hidden, ops.constant(near_one(before)))
        rounded = ops.fake_quantize(
            hidden, np.float32(-1), np.float32(1), np.float32(-1), np.float32(1), 256
        )
        weights = ops.convert(
            ops.constant(chance.integers(-63, 64, (before, behind)).astype(np.int8)), np.float32
        )
        scale = np.float32(0.01 / before) * (near_one(behind) if parts >= 1 else np.float32(1))
        hidden = ops.matmul(rounded, ops.multiply(weights, ops.constant(scale)), False, False)
        if parts >= 2:
            hidden = ops.add(hidden, ops.constant(near_one(behind) - np.float32(1)))
        if not back and parts >= 3:
            hidden = ops.gelu(hidden, "erf")
    return ov.Model([hidden], [given])


def speed(
    shape: tuple[int, int, int],
    cores: int,
    parts: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Operations a second, in 1e9, with one stream for each core.

    With `time.process_time` as the clock, it is the speed of one core, and other programs hardly
    change it.
    """
    compiled = ov.Core().compile_model(
        chain(*shape, parts), "CPU", {"NUM_STREAMS": cores, "INFERENCE_NUM_THREADS": cores}
    )
    queue = ov.AsyncInferQueue(compiled, 2 * cores)
    given = np.random.default_rng(0).random(shape[:2]).astype(np.float32)
    operations = 2.0 * math.prod(shape) * PRODUCTS
    best = 0.0
    for _ in range(ROUNDS):
        times, started = max(8, int(OPERATIONS / operations)) * cores, clock()
        for _ in range(times):
            queue.start_async({0: given})
        queue.wait_all()
        best = max(best, times * operations / (clock() - started) / 1e9)
    return best


def main() -> None:
    """Measure and print."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    for shape in SHAPES:
        told = ", ".join(
            f"{speed(shape, used):,.0f} GOP/s on {used}" for used in sorted({1, cores})
        )
        print(f"{' x '.join(map(str, shape))}: {told} of {cores} cores", flush=True)
    shape = SHAPES[1]
    for parts in range(len(PARTS) + 1):
        milliseconds = 2 * 2.0 * math.prod(shape) / speed(shape, 1, parts) / 1e6
        print(
            f"there and back, {milliseconds:.2f} ms, with"
            f" {', '.join(PARTS[:parts]) or 'nothing else'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
