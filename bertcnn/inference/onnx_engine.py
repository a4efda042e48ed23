"""The engine for CPUs without fast int8 in OpenVINO: ONNX Runtime, one thread per core.

ONNX Runtime is optional, so it is imported only to run the network.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from bertcnn.data import packed_batches, plan_packed
from bertcnn.errors import BundleError, explain_missing_packages
from bertcnn.inference.cores import usable_cores
from bertcnn.inference.engines import EngineOutput, Evidence, reason
from bertcnn.inference.forks import never_destroy, survive_forks
from bertcnn.inference.streams import put_texts

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

NAME: Final = "onnx-int8"
_OUTPUTS: Final = ("logits", "activations", "windows", "means")
_ERRORS_ONLY: Final = 3  # ONNX Runtime's log level
_NO_TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"  # read only at import, by all but Windows


class OnnxEngine:
    """Runs a classifier of `classifier_onnx_int8`, in this process and its forks.

    Each batch runs on the calling thread. ONNX Runtime has no threads of its own, so a fork loses
    none. `longest` is the most tokens of a text, by default of each call. By default there is one
    stream per core.

    Raises:
        BundleError: ONNX Runtime cannot load the model.
        MissingPackageError: ONNX Runtime is not installed.
    """

    name = NAME

    def __init__(
        self, model: bytes, pad_id: int, longest: int | None = None, streams: int | None = None
    ) -> None:
        self._model, self._pad_id, self._longest = model, pad_id, longest
        self.streams = streams or usable_cores()
        self._lock = threading.Lock()
        self._start()
        survive_forks(self)

    def _start(self) -> None:
        self._session = _session(self._model)
        self._pool = ThreadPoolExecutor(self.streams, thread_name_prefix="bertcnn-onnx")
        self._stream = OnnxStream(self._session)
        shapes = {output.name: output.shape for output in self._session.get_outputs()}
        self._classes, self._filters, self._width = (
            shapes[name][1] for name in ("logits", "windows", "means")
        )
        self._process = os.getpid()

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and optionally the evidence.

        Raises:
            RuntimeError: ONNX Runtime failed.
        """
        self._start_if_forked()
        output = self.room_for(len(token_ids), evidence=evidence)
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        # longest first, so that no core waits at the end
        plans = sorted(plan_packed(lengths, self._longest), key=lambda plan: -plan.length)
        batches = packed_batches(token_ids, plans, self._pad_id)
        if len(plans) == 1 or self.streams == 1:
            for plan, batch in zip(plans, batches, strict=True):
                self._stream.infer(batch, plan.slots, output)
            return output
        under_way = [
            self._pool.submit(self._stream.infer, batch, plan.slots, output)
            for plan, batch in zip(plans, batches, strict=True)
        ]
        for computed in under_way:
            computed.result()
        return output

    def room_for(self, rows: int, *, evidence: bool) -> EngineOutput:
        """An output for `rows` texts, to be filled."""
        evidence_arrays = Evidence.empty(rows, self._filters, self._width) if evidence else None
        return EngineOutput(np.empty((rows, self._classes), np.float32), evidence_arrays)

    def new_stream(self) -> OnnxStream:
        """A new stream for one thread; only in the process that loaded the model."""
        return OnnxStream(self._session)

    def leave(self) -> None:
        """In a forked process: abandon the parent's objects and create new locks."""
        self._lock = threading.Lock()
        never_destroy(self._session)
        never_destroy(self._pool)

    def _start_if_forked(self) -> None:
        """Start again after a fork, where another thread of the parent may have held a lock."""
        if os.getpid() != self._process:
            with self._lock:
                if os.getpid() != self._process:
                    self._start()


class OnnxStream:
    """Computes batches on the calling thread; thread-safe."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def infer(self, batch: dict[str, np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
        """Compute a batch and store its results.

        `batch` is from `bertcnn.data.packing.packed_inputs`; `slots`, int [B, K], are the indices
        of its texts in `output`, -1 for none.

        Raises:
            RuntimeError: ONNX Runtime failed.
        """
        names = _OUTPUTS[:1] if output.evidence is None else _OUTPUTS
        with _runtime_errors():
            values = dict(zip(names, self._session.run(names, batch), strict=True))
        put_texts(values.__getitem__, slots, output)


def _session(model: bytes) -> InferenceSession:
    with explain_missing_packages(), _without_telemetry():
        import onnxruntime
    onnxruntime.disable_telemetry_events()  # on Windows
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # its further fusions are slower; see `onnx_graph`
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        with _runtime_errors():
            return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except RuntimeError as error:
        raise BundleError(
            f"the model cannot be loaded by ONNX Runtime {onnxruntime.__version__}"
            f" ({reason(error)})",
            expected="a model that this version runs",
            fix="upgrade onnxruntime, or use the engine 'openvino'",
        ) from None


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """Import ONNX Runtime without its uploading thread and the device id in the user's home."""
    before = os.environ.get(_NO_TELEMETRY)
    os.environ[_NO_TELEMETRY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_TELEMETRY]
        else:
            os.environ[_NO_TELEMETRY] = before


@contextmanager
def _runtime_errors() -> Iterator[None]:
    """Turn ONNX Runtime's errors, which have no common class, into RuntimeErrors."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = (
        state.EPFail,
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NotImplemented,
        state.RuntimeException,
    )
    try:
        yield
    except kinds as error:
        raise RuntimeError(str(error)) from error
