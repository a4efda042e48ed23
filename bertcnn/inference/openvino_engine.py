"""The compiled engine: OpenVINO on the CPU, one stream per core, without Keras."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from bertcnn.bundle import Bundle, Precision, SavedEngine, with_weights
from bertcnn.data import PackedPlan, packed_batches, places, plan_packed
from bertcnn.inference.compiled import compiled_model, in_float32, kept_as
from bertcnn.inference.embeddings import Store
from bertcnn.inference.engines import EngineOutput, Evidence
from bertcnn.inference.forks import keep_compiled, never_destroy, survive_forks
from bertcnn.inference.runtime import ov
from bertcnn.inference.streams import Stream, store_texts

_BATCHES_OF_A_STREAM = 2


class OpenVINOEngine:
    """Runs a compiled classifier, in this process and its forks.

    `compiled` returns the compiled `classifier_graph` or its int8 form; it is called again in a
    forked process, at its first texts. `name` is "openvino-" and the precision. `longest` is the
    most tokens of a text, which gives calls common lengths; by default the longest of each call.
    """

    def __init__(
        self,
        compiled: Callable[[], ov.CompiledModel],
        pad_id: int,
        name: str,
        longest: int | None = None,
    ) -> None:
        self.name, self._compiled = name, compiled
        self._pad_id, self._longest = pad_id, longest
        self._lock = threading.Lock()  # guards the queue: a dashboard's sessions share one engine
        self._start()
        survive_forks(self)

    def _start(self) -> None:
        compiled = self._compiled()
        self._queue = _queue(compiled)
        self._queue.set_callback(lambda request, job: store_texts(request, *job))
        self._first = Stream(compiled)
        self._idle = [self._first]  # others are created on demand
        keep_compiled(compiled)
        self._classes, self._filters, self._width = (
            compiled.output(output).partial_shape[1].get_length()
            for output in ("logits", "windows", "means")
        )
        self.streams = int(compiled.get_property("NUM_STREAMS"))
        self._free = threading.Semaphore(self.streams)
        self._process = os.getpid()

    def leave(self) -> None:
        """In a forked process: abandon the parent's objects and create new locks."""
        self._lock = threading.Lock()
        with suppress(AttributeError):
            never_destroy(self._queue)

    @classmethod
    def from_saved(
        cls,
        saved: SavedEngine | None,
        folder: Path,
        bundle: Bundle,
        *,
        streams: int | None = None,
        flags: str | None = None,
    ) -> OpenVINOEngine:
        """The engine that this machine runs for a saved model; its compiled form is cached.

        It is float32 if no engine was saved, and where int8 would saturate or is no faster. The
        weights of `bundle` are read from `folder` if they are needed. By default there is one
        stream per core, best for many rows. With 1, all cores share a batch and the engine loads
        faster, which is best for single texts. `flags` are the CPU's, as in `kept_as`.

        Raises:
            BundleError: the engine or the weights were changed after saving, or OpenVINO cannot
                compile the model.
        """
        engine_id, precision = in_float32(bundle.bundle_id), "float32"
        if saved is not None:
            record = saved.record
            engine_id, precision = kept_as(
                str(saved.engine_id),
                record.bundle_id,
                record.precision,
                record.weight_bits,
                flags=flags,
            )

        def graph() -> ov.Model:
            whole = bundle if bundle.tensors else with_weights(bundle, folder)
            return engine_graph(saved if precision == "int8" else None, whole)

        return cls(
            lambda: compiled_model(graph, engine_id, streams, precision),
            bundle.vocabulary.index("[PAD]"),
            f"openvino-{precision}",
            bundle.config.encoder.max_positions,
        )

    @classmethod
    def of_graph(
        cls,
        graph: ov.Model,
        pad_id: int,
        precision: Precision = "float32",
        longest: int | None = None,
        streams: int | None = None,
    ) -> OpenVINOEngine:
        """Compile a graph in memory; `longest` is the most tokens of a text."""
        return cls(
            lambda: compiled_model(lambda: graph, precision=precision, streams=streams),
            pad_id,
            f"openvino-{precision}",
            longest,
        )

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and optionally the evidence.

        Threads with a single batch each run in parallel, one per stream.

        Raises:
            BundleError: in a fork, the folder has changed since loading and no copy is cached.
        """
        self._start_if_forked()
        output = self.room_for(len(token_ids), evidence=evidence)
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        # longest first, so that no core waits at the end
        plans = sorted(plan_packed(lengths, self._longest), key=lambda plan: -plan.length)
        batches = packed_batches(token_ids, plans, self._pad_id)
        if len(plans) == 1:  # another thread would take a tenth of its time longer
            with self._idle_stream() as stream:
                stream.infer(next(batches), plans[0].slots, output)
            return output
        with self._lock:
            for plan, batch in zip(plans, batches, strict=True):
                self._queue.start_async(batch, (plan.slots, output))
            self._queue.wait_all()
        return output

    def room_for(self, rows: int, *, evidence: bool) -> EngineOutput:
        """An output for `rows` texts, to be filled."""
        evidence_arrays = Evidence.empty(rows, self._filters, self._width) if evidence else None
        return EngineOutput(np.empty((rows, self._classes), np.float32), evidence_arrays)

    def new_stream(self) -> Stream:
        """A new stream for one thread; only in the process that loaded the model."""
        return self._first.another()

    @contextmanager
    def _idle_stream(self) -> Iterator[Stream]:
        """A stream that no other thread uses meanwhile."""
        with self._free:
            try:
                stream = self._idle.pop()
            except IndexError:
                stream = self._first.another()
            try:
                yield stream
            finally:
                self._idle.append(stream)

    def _start_if_forked(self) -> None:
        """Start again after a fork: OpenVINO's threads stayed in the parent."""
        if os.getpid() != self._process:
            with self._lock:
                if os.getpid() != self._process:
                    self._start()


def engine_graph(saved: SavedEngine | None, bundle: Bundle) -> ov.Model:
    """The graph of a saved engine: in int8 if the engine is, otherwise in float32.

    Raises:
        BundleError: the engine was changed after saving, or is not of this network.
    """
    from bertcnn.inference.openvino_graph import classifier_graph

    encoder, head = bundle.config.encoder, bundle.config.head
    int8 = None if saved is None else saved.int8_tensors(encoder, head)
    return classifier_graph(bundle.tensors, encoder, head, int8=int8)


def token_embeddings(
    graph: ov.Model, pad_id: int, token_ids: Sequence[np.ndarray], store: Store
) -> None:
    """Compute the encoder's output for each row.

    `store` is called for each batch, in any order, with row indices int64 [b] and embeddings
    float32 [b, T, D].
    """
    compiled = compiled_model(lambda: graph)
    queue = _queue(compiled)
    lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))

    def taken_apart(request: ov.InferRequest, plan: PackedPlan) -> None:
        hidden = request.get_tensor("sequence_output").data
        embeddings = {text: hidden[row, where] for text, row, _, where in places(plan, lengths)}
        padded = np.zeros(
            (len(embeddings), max(map(len, embeddings.values())), hidden.shape[-1]), np.float32
        )
        for target, tokens in zip(padded, embeddings.values(), strict=True):
            target[: len(tokens)] = tokens
        store(np.array(list(embeddings)), padded)

    from bertcnn.inference.openvino_graph import ENCODER_INPUTS

    queue.set_callback(taken_apart)
    plans = sorted(plan_packed(lengths), key=lambda plan: -plan.length)
    for plan, batch in zip(plans, packed_batches(token_ids, plans, pad_id), strict=True):
        queue.start_async({name: batch[name] for name in ENCODER_INPUTS}, plan)
    queue.wait_all()


def _queue(compiled: ov.CompiledModel) -> ov.AsyncInferQueue:
    """A queue of batches, two per stream, so that no stream waits for Python."""
    return ov.AsyncInferQueue(compiled, _BATCHES_OF_A_STREAM * compiled.get_property("NUM_STREAMS"))
