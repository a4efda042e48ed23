"""How fast an engine scores long texts, and where the time goes.

    python -m benchmarks.long_texts MODEL [--lengths 128,256,512] [--rounds 5]

For each length in tokens it prints: rows/s on all cores, the operations in a second of one core's
time, including attention, and their share of the int8 peak. The peak is measured on products in the
model's own shapes (`benchmarks.int8_peak`), in rounds that alternate with the engine's and also in
processor time, so that other programs hardly affect the share. Then it profiles a batch on one
core, by node type, as OpenVINO counts it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from benchmarks.int8_peak import speed
from bertcnn import load
from bertcnn.bundle import BundleConfig, read_bundle, read_engine
from bertcnn.data import PackedPlan, packed_batches, plan_packed
from bertcnn.inference import Engine, engine_graph, usable_cores

_TOKENS, _PROFILED = 30_000, 20  # tokens of all texts in a round; batches that are profiled
_KINDS = {
    "FullyConnectedQuantizedLegacy": "products in int8, GELU",
    "FullyConnected": "windows and labels",
    "Subgraph": "attention",
    "Transpose": "keys transposed",
    "TopK": "windows and labels",
    "Slice": "windows and labels",
    "Pad": "windows and labels",
    "MVN": "normalisation, additions",
    "Add": "normalisation, additions",
    "Multiply": "normalisation, additions",
    "MulAdd": "normalisation, additions",
}  # by node type; others are "the rest"


def operations(config: BundleConfig, tokens: int) -> tuple[float, float]:
    """Operations for a text of this many tokens; a multiplication counts as two.

    The products with weights, and the attention between tokens.
    """
    encoder, head = config.encoder, config.head
    width = encoder.width
    weights = encoder.layers * (4 * width**2 + 2 * width * encoder.feed_forward_width)
    weights += sum(head.window_sizes) * head.filters * width
    return 2.0 * tokens * weights, 4.0 * encoder.layers * tokens**2 * width


def texts_of(tokens: int, number: int) -> list[np.ndarray]:
    """Texts of `tokens` tokens each, random words."""
    chance = np.random.default_rng(0)
    return [chance.integers(1000, 20_000, tokens).astype(np.int32) for _ in range(number)]


def rows_per_second(engine: Engine, texts: Sequence[np.ndarray]) -> tuple[float, float]:
    """Rows/s of the engine in wall time, and in processor time of one core."""
    began, processor = time.perf_counter(), time.process_time()
    engine.run(texts, evidence=True)
    return (
        len(texts) / (time.perf_counter() - began),
        len(texts) / (time.process_time() - processor),
    )


def milliseconds_by_kind(folder: Path, tokens: int) -> dict[str, float]:
    """Cost of a batch of texts with `tokens` tokens on one core, the largest part first."""
    bundle = read_bundle(folder)
    saved = read_engine(folder, bundle.bundle_id)
    if saved is None:
        raise SystemExit(f"{folder} has no compiled engine; train the model again")
    options: dict[str, Any] = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "PERF_COUNT": True}
    options["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = ov.Core().compile_model(engine_graph(saved, bundle), "CPU", options)
    request = compiled.create_infer_request()
    plan = largest_batch(tokens)
    (batch,) = packed_batches(texts_of(tokens, len(plan.slots)), [plan], 0)
    nodes: dict[str, list[float]] = {}
    kinds: dict[str, str] = {}
    for _ in range(_PROFILED):
        request.infer(batch)
        for node in request.profiling_info:
            nodes.setdefault(node.node_name, []).append(node.real_time.total_seconds() * 1000)
            kinds[node.node_name] = _KINDS.get(node.node_type, "the rest")
    found = dict.fromkeys(kinds.values(), 0.0)
    for name, times in nodes.items():
        found[kinds[name]] += min(times)  # longer times include other programs
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def largest_batch(tokens: int) -> PackedPlan:
    """The first batch of many texts of this length."""
    return max(plan_packed(np.full(64, tokens), 512), key=lambda plan: len(plan.slots))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--lengths", default="128,256,512", help="tokens of each text")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    predictor = load(options.model)
    config, engine = predictor.bundle.config, predictor.engine
    shape = (512, config.encoder.width, config.encoder.feed_forward_width)
    lengths = [int(length) for length in options.lengths.split(",")]
    texts = {length: texts_of(length, _TOKENS // length) for length in lengths}
    rates: dict[int, list[tuple[float, float]]] = {length: [] for length in lengths}
    for length in lengths:
        rows_per_second(engine, texts[length])
    peaks = []
    for _ in range(options.rounds):
        peaks.append(speed(shape, usable_cores(), clock=time.process_time))
        for length in lengths:
            rates[length].append(rows_per_second(engine, texts[length]))
    peak = statistics.median(peaks)
    print(
        f"{engine.name}; peak of a core {peak:,.0f} ({min(peaks):,.0f} to {max(peaks):,.0f}) GOP/s"
    )
    for length in lengths:
        products, attention = operations(config, length)
        rate, of_core = map(statistics.median, zip(*rates[length], strict=True))
        done = of_core * (products + attention) / 1e9
        share = attention / (products + attention)
        print(
            f"{length} tokens: {rate:,.0f} rows/s, {of_core:,.0f} in a second of one core's time:"
            f" {done:,.0f} GOP/s, {done / peak:.0%} of its peak; attention is {share:.0%} of them"
        )
        parts = milliseconds_by_kind(options.model, length)
        total = sum(parts.values())
        shares = ", ".join(f"{name} {part / total:.0%}" for name, part in parts.items())
        print(f"  a batch of {len(largest_batch(length).slots)}, {total:.1f} ms: {shares}")


if __name__ == "__main__":
    main()
