"""OpenVINO models compiled for this machine: cached, and read ahead.

They are read while Python is still importing.
"""

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
from bertcnn.storage.cache import cache_folder, keep, read_kept

logger = logging.getLogger(__name__)

_KEPT = 8  # compiled engines in the cache
# bytes that a compiled copy may have, and so many for each of the model's constants; usual is 1.0
_BLOB, _BLOB_PER_BYTE = 16 << 20, 2
_LAYOUT = 1  # of what is kept; with another one, engines are compiled again
_ABOUT_CPU = Path("/proc/cpuinfo")  # of Linux
_LARGEST_RECORD = 1 << 16  # bytes
_MANIFEST = (
    "manifest.json"  # of `bertcnn.storage.manifest`, whose import would take a third as long
)
_USUAL_TOKENS = 16  # of the text with which a model is tried that is read ahead


def has_bfloat16() -> bool:
    """Whether this machine's CPU computes products in bfloat16."""
    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def has_fast_int8() -> bool:
    """Whether this machine's CPU is faster at products in int8 than in float32."""
    return is_fast_at_int8(cpu_flags())


def has_vnni() -> bool:
    """Whether this machine's CPU adds up products in int8 without going over 16 bits.

    False where that cannot be found out.
    """
    return any("vnni" in flag for flag in cpu_flags().split())


def cpu_description() -> tuple[object, ...]:
    """This machine's CPU: its name, and what OpenVINO and Linux say that it can do."""
    return *_cpu(ov.Core()), cpu_flags()


def _cpu(core: ov.Core) -> list[Any]:
    return [
        core.get_property("CPU", name) for name in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
    ]


def cpu_flags() -> str:
    """What Linux says of the CPU's instructions; nothing on other systems."""
    try:
        with _ABOUT_CPU.open(encoding="ascii", errors="replace") as lines:
            return next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return ""


def is_fast_at_int8(flags: str) -> bool:
    """Whether a CPU of x86 with these flags, as Linux names them, is.

    Where they say nothing, as on other CPUs, it is taken to be. Without VNNI and AVX-512 a product
    in int8 is three instructions, and OpenVINO's reach what its products in float32 reach; what
    quantising costs comes on top.

    Example:
        >>> plain, vnni = "flags : sse2 avx2 fma", "flags : sse2 avx2 fma avx_vnni"
        >>> is_fast_at_int8(plain), is_fast_at_int8(vnni)
        (False, True)
    """
    known = set(flags.split())
    return "sse2" not in known or any(flag.startswith("avx512") or "vnni" in flag for flag in known)


def kept_as(engine_id: str, bundle_id: str, precision: str, weight_bits: int) -> tuple[str, str]:
    """Id and precision of what this machine runs of a saved engine.

    Its model in float32 where int8 is slow or would saturate.
    """
    if precision == "int8" and not (has_fast_int8() and (weight_bits == 7 or has_vnni())):
        return in_float32(bundle_id), "float32"
    return engine_id, precision


def in_float32(bundle_id: str) -> str:
    """Id of the engine that is made of a model's own weights."""
    return f"{bundle_id}-float32"


def compiled_model(
    read: Callable[[], ov.Model],
    engine_id: str | None = None,
    streams: int | None = None,
    precision: str = "float32",
) -> ov.CompiledModel:
    """The model compiled for this machine's CPU, one thread a core.

    An engine with an id is compiled once and kept in the cache.

    Args:
        read: gives the model; not called where a compiled one is kept.
        engine_id: names this exact model; without it nothing is kept.
        streams: batches computed at the same time; by default one a core.
        precision: "bfloat16" for what the model has in float32, if the CPU can; else it is computed
            as it is.

    Raises:
        BundleError: OpenVINO cannot compile the model on this machine.
    """
    core, options = ov.Core(), _options(streams, precision)
    if engine_id is None:
        return _compiled(core, read(), options)
    try:
        path = _place(core, engine_id, options)
    except OutputError:  # nowhere to keep it
        return _compiled(core, read(), options)
    compiled = _read_ahead.take(path) or _imported(core, path, options)
    if compiled is not None:
        return compiled
    model = read()
    compiled = _compiled(core, model, options)
    exported = compiled.export_model()
    # a stream, in some versions
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
    # a cache that cannot be written costs half a second at every start, nothing else
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


def read_ahead(engine: Path, streams: int) -> None:
    """Begin to read a compiled engine on a thread of its own.

    It takes 0.2 s, in which Python can import what else an answer needs.

    It is used when `compiled_model` is asked for exactly this engine; what cannot be read now is no
    error, which is raised then.

    Args:
        engine: the folder of a saved engine, in a model's; without it the engine is that of the
            model's own weights.
        streams: as for `compiled_model`.
    """
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError, BertCNNError):
        engine_id, precision = _runs(engine)
        core, options = ov.Core(), _options(streams, precision)
        _read_ahead.begin(core, _place(core, engine_id, options), options)


def _runs(engine: Path) -> tuple[str, str]:
    """Id and precision of what this machine runs of the engine in a folder, as `kept_as` says."""
    if not os.path.lexists(engine):
        return in_float32(str(_json_of(engine.parent / _MANIFEST)["bundle_id"])), "float32"
    record = _json_of(engine / "engine.json")
    engine_id = str(_json_of(engine / _MANIFEST)["bundle_id"])
    return kept_as(engine_id, str(record["bundle_id"]), record["precision"], record["weight_bits"])


class _ReadAhead:
    """At most one compiled engine that is being read; taken once."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._path: Path | None = None
        self._compiled: ov.CompiledModel | None = None
        self._process = 0

    def begin(self, core: ov.Core, path: Path, options: dict[str, Any]) -> None:
        """Read the engine that is kept there, and have it answer once.

        The first answer takes ten times as long as others.
        """

        def read() -> None:
            compiled = _imported(core, path, options)
            if compiled is not None:
                ones = np.ones((1, _USUAL_TOKENS), np.int32)
                with suppress(RuntimeError):
                    given = {
                        place: ones[0, :1] if len(tensor.partial_shape) == 1 else ones
                        for place, tensor in enumerate(compiled.inputs)
                    }
                    compiled.create_infer_request().infer(given)
            self._compiled = compiled

        self._process, self._path = os.getpid(), path
        self._thread = threading.Thread(target=read, name="bertcnn-read-ahead")
        self._thread.start()

    def take(self, path: Path) -> ov.CompiledModel | None:
        """The engine kept at this place, if it is the one that was begun with."""
        # forked since: it is the parent's
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
    """What a small JSON file says.

    A pipe in its place, which nobody may ever write to, is not opened. It is checked when it
    counts.
    """
    if not path.is_file() or path.stat().st_size > _LARGEST_RECORD:
        raise ValueError(f"{path} is no small file")
    return json.loads(path.read_bytes())


def _options(streams: int | None, precision: str) -> dict[str, Any]:
    """How a model is compiled, one thread a core.

    Where others use cores of this machine too, threads are not pinned: each process would pin its
    own to the same first cores.
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
    """Where an engine is kept that was compiled for this machine and with these options."""
    cpu = _cpu(core)
    made_for = engine_id, _LAYOUT, ov.__version__, cpu, sorted(options.items())
    key = hashlib.sha256(repr(made_for).encode()).hexdigest()
    return cache_folder() / "engines" / f"{key[:32]}.blob"


def _imported(core: ov.Core, path: Path, options: dict[str, Any]) -> ov.CompiledModel | None:
    """The compiled engine kept there.

    None if there is none, it was damaged, or it is of another build of OpenVINO.
    """
    blob = read_kept(path)
    if blob is None:
        return None
    with suppress(RuntimeError):
        return core.import_model(blob, "CPU", options)
    return None
