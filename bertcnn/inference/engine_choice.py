"""Chooses this machine's engine for a saved model: OpenVINO, or ONNX Runtime in int8.

OpenVINO's int8 needs VNNI or AVX-512. Without them OpenVINO runs the model in float32, and ONNX
Runtime's int8 is faster. The speed-up depends on the CPU, so both are timed once, and the cache
stores which was faster.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import numpy as np

from bertcnn.bundle import Bundle, SavedEngine, with_weights
from bertcnn.errors import (
    BundleError,
    MissingPackageError,
    OutputError,
    explain_missing_packages,
    missing_package,
)
from bertcnn.inference.compiled import cpu_description, kept_as
from bertcnn.inference.cores import usable_cores
from bertcnn.inference.engines import Engine
from bertcnn.inference.onnx_engine import OnnxEngine
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.settings import EncoderSettings
from bertcnn.storage import cache_folder, keep, read_kept

logger = logging.getLogger(__name__)

_LAYOUT: Final = 2  # version of the cache format; a new one rebuilds and times everything again
_KEPT: Final = 8  # most models, and choices, in the cache
_TRIAL_TEXTS, _TRIAL_TOKENS = 33, 15  # per stream: about one batch of usual tickets
_TRIAL_ROUNDS: Final = 3
# multiplications per token; below this, products take negligible time (BERT-tiny: 0.4 million,
# BERT-mini: 3 million)
_LEAST_MULTIPLICATIONS: Final = 1_000_000
_FASTER: Final = 0.9  # of the other engine's time; a smaller gain is not worth a second engine
# rms difference of logits from float32, relative to their spread; int8 is at 0.08 to 0.16 on texts
# of random tokens, which are harder than tickets
_FURTHEST: Final = 0.25


def trial_seconds(engines: Mapping[str, Engine], vocabulary_size: int) -> dict[str, float]:
    """The time in seconds that each engine takes for the same random texts.

    Engines take turns; the fastest of three rounds counts.
    """
    token_ids = _made_up(_TRIAL_TEXTS * usable_cores(), vocabulary_size)
    seconds = dict.fromkeys(engines, math.inf)
    for number in range(_TRIAL_ROUNDS + 1):
        for name, engine in engines.items():
            started = time.perf_counter()
            engine.run(token_ids, evidence=True)
            if number:  # the first round sets up each shape
                seconds[name] = min(seconds[name], time.perf_counter() - started)
    return seconds


@dataclass(frozen=True)
class Machine:
    """What the choice between the engines depends on.

    Attributes:
        flags: the CPU's, as from `cpu_flags`; by default this machine's.
        least_multiplications: per token; smaller networks are not timed.
        trial: times the engines by name, for a vocabulary size.
    """

    flags: str | None = None
    least_multiplications: int = _LEAST_MULTIPLICATIONS
    trial: Callable[[Mapping[str, Engine], int], Mapping[str, float]] = trial_seconds


_THIS_MACHINE: Final = Machine()


def running_engine(
    saved: SavedEngine,
    folder: Path,
    bundle: Bundle,
    *,
    engine: str = "auto",
    streams: int | None = None,
    machine: Machine = _THIS_MACHINE,
) -> Engine:
    """The engine for a saved model that is fastest or requested on this machine.

    `engine` is "openvino", "onnx", or "auto" for the faster of the two. The weights of `bundle` are
    not needed. By default there is one stream per core.

    Raises:
        BundleError: the engine was changed after it was saved, or cannot run.
        MissingPackageError: "onnx" without ONNX Runtime.
    """

    def by_openvino() -> OpenVINOEngine:
        flags = machine.flags
        return OpenVINOEngine.from_saved(saved, folder, bundle, streams=streams, flags=flags)

    if engine == "onnx":
        return onnx_engine(saved, folder, bundle, streams=streams)
    is_small = _multiplications(bundle.config.encoder) < machine.least_multiplications
    if engine == "openvino" or is_small or not _is_in_float32(saved, machine):
        return by_openvino()
    in_float32 = cache(by_openvino)
    return _faster(
        in_float32,
        lambda: onnx_engine(saved, folder, bundle, streams=streams, reference=in_float32),
        bundle.config.encoder,
        saved.record.weight_bits,
        machine,
    )


def _is_in_float32(saved: SavedEngine, machine: Machine) -> bool:
    """Whether OpenVINO runs an int8 engine in float32 on the machine."""
    record = saved.record
    bits, flags = record.weight_bits, machine.flags
    _, here = kept_as("", record.bundle_id, record.precision, bits, flags=flags)
    return record.precision == "int8" and here != "int8"


def _multiplications(encoder: EncoderSettings) -> int:
    """The multiplications per token."""
    of_block = 2 * encoder.width * (2 * encoder.width + encoder.feed_forward_width)
    return encoder.layers * of_block


def _faster(
    by_openvino: Callable[[], Engine],
    by_onnx: Callable[[], Engine],
    encoder: EncoderSettings,
    weight_bits: int,
    machine: Machine,
) -> Engine:
    """The faster engine on this machine, from the cache or timed now."""
    try:
        path = _choice_path(encoder, weight_bits)
    except MissingPackageError as error:
        logger.info("ONNX Runtime may be faster on this CPU: %s", error.fix)
        return by_openvino()
    remembered = _remembered(path)
    if remembered == "openvino":
        return by_openvino()
    try:
        onnx = by_onnx()
    except (BundleError, MissingPackageError) as error:
        logger.warning("%s Until then OpenVINO is used, which may be slower.", error)
        return by_openvino()
    if remembered == "onnx":
        return onnx
    plain = by_openvino()
    seconds = machine.trial({"openvino": plain, "onnx": onnx}, encoder.vocabulary_size)
    chosen = "onnx" if seconds["onnx"] < _FASTER * seconds["openvino"] else "openvino"
    with suppress(OSError):  # without a writable cache, engines are timed at each start
        record = {"engine": chosen, "seconds": dict(seconds)}
        if path is not None:
            keep(path, json.dumps(record).encode(), _KEPT)
    return onnx if chosen == "onnx" else plain


def onnx_engine(
    saved: SavedEngine,
    folder: Path,
    bundle: Bundle,
    *,
    streams: int | None = None,
    reference: Callable[[], Engine] | None = None,
) -> OnnxEngine:
    """A saved int8 engine, run by ONNX Runtime.

    It uses the weights, scales and ranges that were compared with float32 after training. Whether
    this machine computes them correctly is checked once per model. `reference` returns the float32
    model; by default it is compiled when needed.

    Raises:
        BundleError: the engine is not int8, was changed after saving, or computes wrong logits.
        MissingPackageError: ONNX Runtime is not installed.
    """
    if saved.record.precision != "int8":
        raise BundleError(
            f"engine 'onnx' for a model whose engine is {saved.record.precision}",
            expected="a model that was saved with an engine in int8",
            fix="use the engine 'openvino'",
        )
    encoder, pad_id = bundle.config.encoder, bundle.vocabulary.index("[PAD]")
    path = _model_path(saved)
    model = None if path is None else read_kept(path)
    if model is not None:
        return OnnxEngine(model, pad_id, encoder.max_positions, streams)
    model = _onnx_model(saved, with_weights(bundle, folder))
    made = OnnxEngine(model, pad_id, encoder.max_positions, streams)
    in_float32 = (
        reference() if reference else OpenVINOEngine.from_saved(None, folder, bundle, streams=1)
    )
    check_distance(made, in_float32, encoder.vocabulary_size)
    if path is not None:
        with suppress(OSError):
            keep(path, model, _KEPT)
    return made


def _onnx_model(saved: SavedEngine, bundle: Bundle) -> bytes:
    with explain_missing_packages():
        from bertcnn.inference.onnx_graph import classifier_onnx_int8

    encoder, head = bundle.config.encoder, bundle.config.head
    tensors = {**bundle.tensors, **(saved.int8_tensors(encoder, head) or {})}
    return classifier_onnx_int8(tensors, encoder, head, saved.record.weight_bits)


def check_distance(engine: Engine, reference: Engine, vocabulary_size: int) -> None:
    """Compare an int8 engine with float32.

    Raises:
        BundleError: the difference is much larger than that of int8.
    """
    token_ids = _made_up(_TRIAL_TEXTS, vocabulary_size)
    logits, expected = engine.run(token_ids).logits, reference.run(token_ids).logits
    distance = float(np.sqrt(np.mean((logits - expected) ** 2)) / max(expected.std(), 1e-9))
    if not distance <= _FURTHEST:
        raise BundleError(
            f"engine 'onnx' gives logits {distance:.0%} of their spread away from float32's",
            expected=f"at most {_FURTHEST:.0%}",
            fix="use the engine 'openvino'",
        )


def _made_up(texts: int, vocabulary_size: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return list(generator.integers(vocabulary_size, size=(texts, _TRIAL_TOKENS), dtype=np.int32))


def _model_path(saved: SavedEngine) -> Path | None:
    """The cached ONNX model's path; None without a writable cache.

    Raises:
        MissingPackageError: ONNX Runtime is not installed.
    """
    return _path("onnx", saved.engine_id)


def _choice_path(encoder: EncoderSettings, weight_bits: int) -> Path | None:
    """The path of the choice for this model shape; None without a writable cache.

    Raises:
        MissingPackageError: ONNX Runtime is not installed.
    """
    shape = encoder.layers, encoder.width, encoder.heads, encoder.feed_forward_width
    return _path("json", usable_cores(), shape, encoder.activation, weight_bits)


def _path(extension: str, *made_for: object) -> Path | None:
    """A cache path that depends on package versions and the CPU."""
    try:
        versions = [version(name) for name in ("openvino", "onnxruntime")]
    except PackageNotFoundError:
        raise missing_package("onnxruntime") from None
    try:
        folder = cache_folder() / "engines"
    except OutputError:
        return None
    key = hashlib.sha256(repr((_LAYOUT, versions, cpu_description(), made_for)).encode())
    return folder / f"{key.hexdigest()[:32]}.{extension}"


def _remembered(path: Path | None) -> str | None:
    kept = None if path is None else read_kept(path)
    if kept is None:
        return None
    with suppress(ValueError, LookupError, TypeError):
        return str(json.loads(kept)["engine"])
    return None
