"""The engine for CPUs without fast int8 in OpenVINO: ONNX Runtime, one thread a core.

Only what runs the network imports ONNX Runtime, an optional package.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from bertcnn.data.packing import packed_batches, plan_packed
from bertcnn.errors import BundleError, explain_missing_packages
from bertcnn.inference.cores import usable_cores
from bertcnn.inference.engines import EngineOutput, Evidence, reason
from bertcnn.inference.forks import never_destroy, survive_forks
from bertcnn.inference.streams import put_texts

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

NAME: Final = "onnx-int8"
_OUTPUTS: Final = ("logits", "activations", "windows", "means")
_ERRORS_ONLY: Final = 3  # of ONNX Runtime's own messages


class OnnxEngine:
    """Runs a classifier of `classifier_onnx_int8`, in this process and in those forked from it.

    Each batch is computed by the thread that asks for it. ONNX Runtime has no threads of its own
    then, so none stays behind at a fork.

    Args:
        model: the serialized model.
        pad_id: the id of [PAD].
        longest: tokens that a text has at most; by default each call's longest.
        streams: batches computed at the same time; by default one a core.

    Attributes:
        streams: batches computed at the same time.

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
        """Load the model for this process."""
        self._session = _session(self._model)
        self._pool = ThreadPoolExecutor(self.streams, thread_name_prefix="bertcnn-onnx")
        self._stream = OnnxStream(self._session)
        shapes = {output.name: output.shape for output in self._session.get_outputs()}
        self._classes, self._filters, self._width = (
            shapes[name][1] for name in ("logits", "windows", "means")
        )
        self._process = os.getpid()

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and which windows won.

        Raises:
            RuntimeError: ONNX Runtime cannot compute them.
        """
        self._start_if_forked()
        output = self.room_for(len(token_ids), evidence=evidence)
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        # the longest first, so that no core waits for one at the end
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
        """An output of so many rows, to be filled."""
        found = Evidence.empty(rows, self._filters, self._width) if evidence else None
        return EngineOutput(np.empty((rows, self._classes), np.float32), found)

    def new_stream(self) -> OnnxStream:
        """A stream for a thread that keeps it; in the process that has loaded the model only."""
        return OnnxStream(self._session)

    def leave(self) -> None:
        """In a forked process: leave alone what is the parent's, and hold none of its locks."""
        self._lock = threading.Lock()
        never_destroy(self._session)
        never_destroy(self._pool)

    def _start_if_forked(self) -> None:
        """Another thread of the parent may have held a lock of the session, or of the pool."""
        if os.getpid() != self._process:
            with self._lock:
                if os.getpid() != self._process:
                    self._start()


class OnnxStream:
    """Computes batches on the thread that asks for them; threads may share it."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def infer(self, batch: dict[str, np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
        """Compute a batch, and put its texts where they belong.

        Args:
            batch: of `bertcnn.data.packing.packed_inputs`.
            slots: int [B, K], places of the batch's texts in `output`, -1 where there is none.
            output: is filled.

        Raises:
            RuntimeError: ONNX Runtime cannot compute it.
        """
        names = _OUTPUTS[:1] if output.evidence is None else _OUTPUTS
        with _runtime_errors():
            values = dict(zip(names, self._session.run(names, batch), strict=True))
        put_texts(values.__getitem__, slots, output)


def _session(model: bytes) -> InferenceSession:
    """The model, loaded, without threads."""
    with explain_missing_packages():
        import onnxruntime
    onnxruntime.disable_telemetry_events()  # its build for Windows reports to its maker
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # its further fusions make the network slower; see `onnx_graph`
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
def _runtime_errors() -> Iterator[None]:
    """A block in which ONNX Runtime's errors, which have no class in common, are RuntimeErrors."""
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
