"""OpenVINO models compiled for this machine: cached, and preloaded while Python is importing."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.errors import BertCNNError, BundleError, OutputError
from bertcnn.inference.cores import machine_cores, usable_cores
from bertcnn.inference.engines import reason
from bertcnn.inference.forks import never_destroy
from bertcnn.inference.runtime import ov
from bertcnn.storage import cache_folder, keep, read_kept

logger = logging.getLogger(__name__)

_KEPT = 8  # most compiled engines in the cache
# most bytes of a compiled copy: fixed, and per byte of the model's constants (usually 1.0)
_BLOB, _BLOB_PER_BYTE = 16 << 20, 2
_LAYOUT = 2  # version of the cache format; a new one recompiles all engines
_ABOUT_CPU = Path("/proc/cpuinfo")  # Linux only
_LARGEST_RECORD = 1 << 16  # bytes
_MANIFEST = (
    "manifest.json"  # as in `bertcnn.storage.manifest`, whose import would cost a third of the time
)
_USUAL_TOKENS = 16  # length of the text that warms up a preloaded model


def has_bfloat16() -> bool:
    """Whether this CPU supports matrix products in bfloat16."""
    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def has_fast_int8(flags: str | None = None) -> bool:
    """Whether a CPU with these Linux flags computes int8 products faster than float32 products.

    By default it is this CPU. True if the flags say nothing, as on other systems than Linux.
    Without VNNI and AVX-512, an int8 product takes three instructions, so OpenVINO's int8 is only
    as fast as float32, and quantization costs extra.

    Example:
        >>> plain, vnni = "flags : sse2 avx2 fma", "flags : sse2 avx2 fma avx_vnni"
        >>> has_fast_int8(plain), has_fast_int8(vnni)
        (False, True)
    """
    features = set((cpu_flags() if flags is None else flags).split())
    return "sse2" not in features or any(
        flag.startswith("avx512") or "vnni" in flag for flag in features
    )


def has_vnni(flags: str | None = None) -> bool:
    """Whether a CPU, by default this one, adds up int8 products without overflowing 16 bits.

    False if its flags are unknown.
    """
    return any("vnni" in flag for flag in (cpu_flags() if flags is None else flags).split())


def cpu_description() -> tuple[object, ...]:
    """This CPU's name and capabilities, from OpenVINO and Linux."""
    return *_cpu(ov.Core()), cpu_flags()


def _cpu(core: ov.Core) -> list[Any]:
    return [
        core.get_property("CPU", name) for name in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
    ]


def cpu_flags(about: Path = _ABOUT_CPU) -> str:
    """The CPU flags from Linux; empty on other systems."""
    try:
        with about.open(encoding="ascii", errors="replace") as lines:
            return next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return ""


def kept_as(
    engine_id: str,
    bundle_id: str,
    precision: str,
    weight_bits: int,
    *,
    flags: str | None = None,
) -> tuple[str, str]:
    """Id and precision of the engine that a machine runs for a saved one.

    It is the model in float32 where int8 is slow or would saturate. `flags` are the CPU's, as from
    `cpu_flags`; by default this machine's.
    """
    is_exact = weight_bits == 7 or has_vnni(flags)
    if precision == "int8" and not (has_fast_int8(flags) and is_exact):
        return in_float32(bundle_id), "float32"
    return engine_id, precision


def in_float32(bundle_id: str) -> str:
    """Id of the engine made from a model's own float32 weights."""
    return f"{bundle_id}-float32"


def compiled_model(
    read: Callable[[], ov.Model],
    engine_id: str | None = None,
    streams: int | None = None,
    precision: str = "float32",
) -> ov.CompiledModel:
    """The model compiled for this CPU, one thread per core; cached if it has an id.

    Args:
        read: returns the model; not called if a compiled copy is cached.
        engine_id: identifies this exact model; without it nothing is cached.
        streams: batches computed in parallel; by default one per core.
        precision: "bfloat16" computes the model's float32 parts in bfloat16 if the CPU supports it;
            otherwise precisions stay as they are.

    Raises:
        BundleError: OpenVINO cannot compile the model on this machine.
    """
    core, options = ov.Core(), _options(streams, precision)
    if engine_id is None:
        return _compiled(core, read(), options)
    try:
        path = _place(core, engine_id, options)
    except OutputError:  # no writable cache
        return _compiled(core, read(), options)
    compiled = _read_ahead.take(path) or _imported(core, path, options)
    if compiled is not None:
        return compiled
    model = read()
    compiled = _compiled(core, model, options)
    exported = compiled.export_model()
    # some versions require a stream
    blob = exported if isinstance(exported, bytes) else exported.getvalue()
    most = _BLOB + _BLOB_PER_BYTE * _constant_bytes(model)
    if len(blob) > most:
        logger.warning(
            "the compiled engine is not kept in the cache: it has %s bytes, more than the %s that a"
            " model of this size needs",
            f"{len(blob):,}",
            f"{most:,}",
        )
        return compiled
    # without a writable cache, each start takes 0.5 s longer
    with suppress(OSError):
        keep(path, blob, _KEPT)
    return compiled


def _constant_bytes(model: ov.Model) -> int:
    constants = (node for node in model.get_ops() if node.get_type_name() == "Constant")
    return sum(constant.get_byte_size() for constant in constants)


def _compiled(core: ov.Core, model: ov.Model, options: dict[str, Any]) -> ov.CompiledModel:
    try:
        return core.compile_model(model, "CPU", options)
    except RuntimeError as error:
        raise BundleError(
            f"the model cannot be compiled by OpenVINO {ov.__version__} ({reason(error)})",
            expected="a model that OpenVINO runs on this machine",
            fix="save the model again with this version, or use the engine 'keras'",
        ) from None


def read_ahead(engine: Path, streams: int, *, flags: str | None = None) -> None:
    """Start to read a compiled engine on a thread of its own.

    Reading takes 0.2 s; meanwhile Python can import other modules. `compiled_model` uses the result
    if it is called for exactly this engine. Read errors are ignored here; `compiled_model` raises
    them.

    `engine` is the saved engine's folder within a model's; if it does not exist, the engine made
    from the model's own weights is read. `flags` are the CPU's, as in `kept_as`.
    """
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError, BertCNNError):
        engine_id, precision = _runs(engine, flags)
        core, options = ov.Core(), _options(streams, precision)
        _read_ahead.begin(core, _place(core, engine_id, options), options)


def _runs(engine: Path, flags: str | None) -> tuple[str, str]:
    """Id and precision, as from `kept_as`, of the engine in a folder."""
    if not os.path.lexists(engine):
        return in_float32(str(_json_of(engine.parent / _MANIFEST)["bundle_id"])), "float32"
    record = _json_of(engine / "engine.json")
    engine_id = str(_json_of(engine / _MANIFEST)["bundle_id"])
    precision, weight_bits = record["precision"], record["weight_bits"]
    return kept_as(engine_id, str(record["bundle_id"]), precision, weight_bits, flags=flags)


class _ReadAhead:
    """At most one compiled engine that is being preloaded; can be taken once."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._path: Path | None = None
        self._compiled: ov.CompiledModel | None = None
        self._process = 0

    def begin(self, core: ov.Core, path: Path, options: dict[str, Any]) -> None:
        """Read the cached engine and run one batch; a first batch is ten times slower."""

        def read() -> None:
            compiled = _imported(core, path, options)
            if compiled is not None:
                ones = np.ones((1, _USUAL_TOKENS), np.int32)
                with suppress(RuntimeError):
                    inputs = {
                        index: ones[0, :1] if len(tensor.partial_shape) == 1 else ones
                        for index, tensor in enumerate(compiled.inputs)
                    }
                    compiled.create_infer_request().infer(inputs)
            self._compiled = compiled

        self._process, self._path = os.getpid(), path
        self._thread = threading.Thread(target=read, name="bertcnn-read-ahead")
        self._thread.start()

    def take(self, path: Path) -> ov.CompiledModel | None:
        """The preloaded engine, if it is the one at `path`."""
        # forked since: the engine is the parent's
        if self._process != os.getpid() and self._compiled is not None:
            never_destroy(self._compiled)
            self._thread = None
        if self._thread is None or path != self._path:
            return None
        self._thread.join()
        compiled, self._compiled, self._thread = self._compiled, None, None
        return compiled


_read_ahead = _ReadAhead()


def _json_of(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Parse a small JSON file.

    Refuses pipes, which could block for ever. The contents are checked where they are used.
    """
    if not path.is_file() or path.stat().st_size > _LARGEST_RECORD:
        raise ValueError(f"{path} is no small file")
    return json.loads(path.read_bytes())


def _options(streams: int | None, precision: str) -> dict[str, Any]:
    """Options for compiling, one thread per core.

    Threads are not pinned if other processes use cores too: all would pin the same first cores.
    """
    cores = usable_cores()
    hint = "bf16" if precision == "bfloat16" else "f32"
    return {
        "NUM_STREAMS": streams or cores,
        "INFERENCE_NUM_THREADS": cores,
        "INFERENCE_PRECISION_HINT": hint,
        **({} if cores == machine_cores() else {"ENABLE_CPU_PINNING": False}),
    }


def _place(core: ov.Core, engine_id: str, options: dict[str, Any]) -> Path:
    cpu = _cpu(core)
    made_for = engine_id, _LAYOUT, ov.__version__, cpu, sorted(options.items())
    key = hashlib.sha256(repr(made_for).encode()).hexdigest()
    return cache_folder() / "engines" / f"{key[:32]}.blob"


def _imported(core: ov.Core, path: Path, options: dict[str, Any]) -> ov.CompiledModel | None:
    """The cached engine; None if it is missing, damaged or from another OpenVINO build."""
    blob = read_kept(path)
    if blob is None:
        return None
    with suppress(RuntimeError):
        return core.import_model(blob, "CPU", options)
    return None
