"""Which engine this machine runs of a saved model: OpenVINO's, or ONNX Runtime's in int8.

OpenVINO's int8 needs VNNI or AVX-512. A CPU without them computes the model in float32 there, while
ONNX Runtime's products in int8 are faster. By how much depends on the CPU, so both are tried once,
and the cache remembers which was faster.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import numpy as np

from bertcnn.bundle.bundle import Bundle, with_weights
from bertcnn.bundle.engine import SavedEngine
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
from bertcnn.inference.openvino_engine import OpenVINOEngine, checked, read_graph, suited
from bertcnn.settings import EncoderSettings
from bertcnn.storage.cache import cache_folder, keep, read_kept

logger = logging.getLogger(__name__)

_LAYOUT: Final = 1  # of what is kept; with another one, all is made and tried again
_KEPT: Final = 8  # models, and choices, in the cache
_TRIAL_TEXTS, _TRIAL_TOKENS = 33, 15  # for each stream: about one batch, of usual tickets
_TRIAL_ROUNDS: Final = 3
# multiplications for each token, below which products take no time that counts: those of BERT-tiny
# are 0.4 million, of BERT-mini 3 million
_LEAST_MULTIPLICATIONS: Final = 1_000_000
_FASTER: Final = 0.9  # of the other engine's time; for less a second engine is not worth it
# rms difference of logits from float32, of their spread; int8 stands 0.08 to 0.16 away on texts of
# random tokens, which are harder than tickets
_FURTHEST: Final = 0.25


def running_engine(
    saved: SavedEngine,
    folder: Path,
    bundle: Bundle,
    *,
    engine: str = "auto",
    streams: int | None = None,
) -> Engine:
    """The engine that was saved with a model, as this machine runs it.

    Args:
        saved: the engine.
        folder: the model's.
        bundle: the model; its weights are not needed.
        engine: "openvino", "onnx", or "auto" for the faster one.
        streams: batches computed at the same time; by default one a core.

    Raises:
        BundleError: it was changed after it was saved, or cannot be computed.
        MissingPackageError: "onnx" without ONNX Runtime.
    """

    def by_openvino() -> OpenVINOEngine:
        return OpenVINOEngine.from_saved(
            suited(saved, folder, bundle),
            bundle.vocabulary.index("[PAD]"),
            longest=bundle.config.encoder.max_positions,
            streams=streams,
        )

    if engine == "onnx":
        return onnx_engine(saved, folder, bundle, streams=streams)
    if engine == "openvino" or not _is_float32_here(saved) or _is_small(bundle.config.encoder):
        return by_openvino()
    in_float32 = cache(by_openvino)
    return _faster(
        in_float32,
        lambda: onnx_engine(saved, folder, bundle, streams=streams, reference=in_float32),
        bundle.config.encoder,
        saved.record.weight_bits,
    )


def _is_float32_here(saved: SavedEngine) -> bool:
    """Whether OpenVINO computes in float32 here what was saved in int8."""
    record = saved.record
    _, here = kept_as("", record.bundle_id, record.precision, record.weight_bits)
    return record.precision == "int8" and here != "int8"


def _is_small(encoder: EncoderSettings) -> bool:
    """Whether products are too few for their precision to matter."""
    of_block = 2 * encoder.width * (2 * encoder.width + encoder.feed_forward_width)
    return encoder.layers * of_block < _LEAST_MULTIPLICATIONS


def _faster(
    by_openvino: Callable[[], Engine],
    by_onnx: Callable[[], Engine],
    encoder: EncoderSettings,
    weight_bits: int,
) -> Engine:
    """The engine that is faster here, as remembered or as tried now."""
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
    seconds = trial_seconds({"openvino": plain, "onnx": onnx}, encoder.vocabulary_size)
    chosen = "onnx" if seconds["onnx"] < _FASTER * seconds["openvino"] else "openvino"
    with suppress(OSError):  # a cache that cannot be written costs a trial at every start
        found = {"engine": chosen, "seconds": seconds}
        if path is not None:
            keep(path, json.dumps(found).encode(), _KEPT)
    return onnx if chosen == "onnx" else plain


def trial_seconds(engines: Mapping[str, Engine], vocabulary_size: int) -> dict[str, float]:
    """How long each engine takes for the same made-up texts, in seconds.

    They take turns; the fastest of three rounds counts.

    Args:
        engines: by name.
        vocabulary_size: of ids.
    """
    token_ids = _made_up(_TRIAL_TEXTS * usable_cores(), vocabulary_size)
    seconds = dict.fromkeys(engines, math.inf)
    for number in range(_TRIAL_ROUNDS + 1):
        for name, engine in engines.items():
            started = time.perf_counter()
            engine.run(token_ids, evidence=True)
            if number:  # the first round makes what a shape needs
                seconds[name] = min(seconds[name], time.perf_counter() - started)
    return seconds


def onnx_engine(
    saved: SavedEngine,
    folder: Path,
    bundle: Bundle,
    *,
    streams: int | None = None,
    reference: Callable[[], Engine] | None = None,
) -> OnnxEngine:
    """A saved engine in int8, computed by ONNX Runtime.

    Its weights, scales and ranges are those that passed against float32 when the model was trained.
    That this machine's products compute what they should is seen once for each model.

    Args:
        saved: the engine.
        folder: the model's.
        bundle: the model; its weights are not needed.
        streams: batches computed at the same time; by default one a core.
        reference: gives the model in float32; by default it is compiled when it is needed.

    Raises:
        BundleError: it is not int8, was changed after it was saved, or computes something else.
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
    whole = with_weights(bundle, folder)
    model = _onnx_model(saved, whole)
    made = OnnxEngine(model, pad_id, encoder.max_positions, streams)
    in_float32 = reference() if reference else OpenVINOEngine.from_bundle(whole, pad_id, streams=1)
    check_distance(made, in_float32, encoder.vocabulary_size)
    if path is not None:
        with suppress(OSError):
            keep(path, model, _KEPT)
    return made


def _onnx_model(saved: SavedEngine, bundle: Bundle) -> bytes:
    """The ONNX model of a saved engine in int8."""
    with explain_missing_packages():
        from bertcnn.inference.onnx_graph import Quantized, classifier_onnx_int8
    from bertcnn.inference.int8_products import int8_products

    encoder, head = bundle.config.encoder, bundle.config.head
    products = int8_products(read_graph(checked(saved, bundle)), encoder.layers)
    quantized = Quantized(bundle.tensors, products, saved.record.weight_bits)
    return classifier_onnx_int8(quantized, encoder, head)


def check_distance(engine: Engine, reference: Engine, vocabulary_size: int) -> None:
    """Refuse an engine that is much further from float32 than int8 is.

    Raises:
        BundleError: it is.
    """
    token_ids = _made_up(_TRIAL_TEXTS, vocabulary_size)
    found, expected = engine.run(token_ids).logits, reference.run(token_ids).logits
    distance = float(np.sqrt(np.mean((found - expected) ** 2)) / max(expected.std(), 1e-9))
    if not distance <= _FURTHEST:
        raise BundleError(
            f"engine 'onnx' gives logits {distance:.0%} of their spread away from float32's",
            expected=f"at most {_FURTHEST:.0%}",
            fix="use the engine 'openvino'",
        )


def _made_up(texts: int, vocabulary_size: int) -> list[np.ndarray]:
    """Texts of random tokens, always the same."""
    generator = np.random.default_rng(0)
    return list(generator.integers(vocabulary_size, size=(texts, _TRIAL_TOKENS), dtype=np.int32))


def _model_path(saved: SavedEngine) -> Path | None:
    """Where the ONNX model of a saved engine is kept on this machine; None if there is nowhere.

    Raises:
        MissingPackageError: ONNX Runtime is not installed.
    """
    return _path("onnx", saved.engine_id)


def _choice_path(encoder: EncoderSettings, weight_bits: int) -> Path | None:
    """Where the choice for a shape of models is kept on this machine; None if there is nowhere.

    Raises:
        MissingPackageError: ONNX Runtime is not installed.
    """
    shape = encoder.layers, encoder.width, encoder.heads, encoder.feed_forward_width
    return _path("json", usable_cores(), shape, encoder.activation, weight_bits)


def _path(extension: str, *made_for: object) -> Path | None:
    """A place in the cache for what was made with these versions on this CPU."""
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
    """The engine that was faster; None if none was tried."""
    kept = None if path is None else read_kept(path)
    if kept is None:
        return None
    with suppress(ValueError, LookupError, TypeError):
        return str(json.loads(kept)["engine"])
    return None
