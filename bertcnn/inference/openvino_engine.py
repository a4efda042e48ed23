"""The compiled engine: OpenVINO on the CPU, one stream a core, without Keras."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from bertcnn.bundle.bundle import Bundle, with_weights
from bertcnn.bundle.engine import Precision, SavedEngine
from bertcnn.data.packing import NUMBERS, PACKED, PackedPlan, packed_batches, places, plan_packed
from bertcnn.errors import BundleError
from bertcnn.inference.compiled import compiled_model, in_float32, kept_as
from bertcnn.inference.embeddings import Store
from bertcnn.inference.engines import EngineOutput, Evidence, reason
from bertcnn.inference.forks import compiled as keep_compiled
from bertcnn.inference.forks import never_destroy, survive_forks
from bertcnn.inference.graph_check import checked_graph
from bertcnn.inference.runtime import ov
from bertcnn.inference.streams import Stream, store_texts

_BATCHES_OF_A_STREAM = 2


class OpenVINOEngine:
    """Runs a compiled classifier, in the process that made it and in those forked from it.

    Args:
        compiled: gives `classifier_graph`, or its int8 form, compiled; called again in a forked
            process, at its first texts.
        pad_id: the id of [PAD].
        name: "openvino-" and the precision.
        longest: tokens that a text has at most; by default each call's longest. With it, calls have
            lengths in common.

    Attributes:
        streams: batches computed at the same time.
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
        self._lock = threading.Lock()  # of the queue: a dashboard's sessions share one engine
        self._start()
        survive_forks(self)

    def _start(self) -> None:
        """Compile the model for this process."""
        compiled = self._compiled()
        self._queue = _queue(compiled)
        self._queue.set_callback(lambda request, job: store_texts(request, *job))
        self._first = Stream(compiled)
        self._idle = [self._first]  # others are made when they are needed
        keep_compiled(compiled)
        self._classes, self._filters, self._width = (
            compiled.output(output).partial_shape[1].get_length()
            for output in ("logits", "windows", "means")
        )
        self.streams = int(compiled.get_property("NUM_STREAMS"))
        self._free = threading.Semaphore(self.streams)
        self._process = os.getpid()

    def leave(self) -> None:
        """In a forked process: leave alone what is the parent's, and hold none of its locks."""
        self._lock = threading.Lock()
        with suppress(AttributeError):
            never_destroy(self._queue)

    @classmethod
    def from_saved(
        cls,
        saved: SavedEngine,
        pad_id: int,
        *,
        longest: int | None = None,
        streams: int | None = None,
    ) -> OpenVINOEngine:
        """The engine that was saved with a model.

        Args:
            saved: the engine.
            pad_id: the id of [PAD].
            longest: tokens that a text has at most.
            streams: batches computed at the same time; by default one a core, which is best for
                many rows. With 1 the cores share each batch and the engine is loaded sooner, which
                is best for single texts.

        Raises:
            BundleError: it was changed after it was saved, or OpenVINO cannot read or compile it.
        """
        precision = saved.record.precision
        return cls(
            lambda: compiled_model(lambda: read_graph(saved), saved.engine_id, streams, precision),
            pad_id,
            f"openvino-{precision}",
            longest,
        )

    @classmethod
    def from_bundle(
        cls, bundle: Bundle, pad_id: int, *, streams: int | None = None, keep: bool = False
    ) -> OpenVINOEngine:
        """The model's own tensors in float32, for a model that was saved without an engine.

        Args:
            bundle: the model.
            pad_id: the id of [PAD].
            streams: as for `from_saved`.
            keep: keep it compiled in the cache, by the id of the bundle, whose tensors must be
                those that were saved.

        Raises:
            BundleError: the tensors are not those of the network that the configuration describes.
        """
        encoder, engine_id = bundle.config.encoder, in_float32(bundle.bundle_id) if keep else None

        def graph() -> ov.Model:
            from bertcnn.inference.openvino_graph import classifier_graph

            return classifier_graph(bundle.tensors, encoder, bundle.config.head)

        return cls(
            lambda: compiled_model(graph, engine_id, streams),
            pad_id,
            "openvino-float32",
            encoder.max_positions,
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
        """A graph in memory of that precision, compiled for this machine.

        `longest` and `streams` as for `from_saved`.
        """
        return cls(
            lambda: compiled_model(lambda: graph, precision=precision, streams=streams),
            pad_id,
            f"openvino-{precision}",
            longest,
        )

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and which windows won.

        Threads that have a single batch each are answered at the same time, one a stream.

        Raises:
            BundleError: in a forked process, the model's folder was changed since it was loaded,
                and no compiled copy is in the cache.
        """
        self._start_if_forked()
        output = self.room_for(len(token_ids), evidence=evidence)
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        # the longest first, so that no core waits for one at the end
        plans = sorted(plan_packed(lengths, self._longest), key=lambda plan: -plan.length)
        batches = packed_batches(token_ids, plans, self._pad_id)
        if len(plans) == 1:  # handing it to another thread would take a tenth of its time
            with self._idle_stream() as stream:
                stream.infer(next(batches), plans[0].slots, output)
            return output
        with self._lock:
            for plan, batch in zip(plans, batches, strict=True):
                self._queue.start_async(batch, (plan.slots, output))
            self._queue.wait_all()
        return output

    def room_for(self, rows: int, *, evidence: bool) -> EngineOutput:
        """An output of so many rows, to be filled."""
        found = Evidence.empty(rows, self._filters, self._width) if evidence else None
        return EngineOutput(np.empty((rows, self._classes), np.float32), found)

    def new_stream(self) -> Stream:
        """A stream for a thread that keeps it; in the process that has loaded the model only."""
        return self._first.another()

    @contextmanager
    def _idle_stream(self) -> Iterator[Stream]:
        """One that no other thread uses meanwhile."""
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
        """OpenVINO's threads have stayed behind, and would be waited for without end."""
        if os.getpid() != self._process:
            with self._lock:
                if os.getpid() != self._process:
                    self._start()


def read_graph(saved: SavedEngine) -> ov.Model:
    """The graph of a saved engine.

    Raises:
        BundleError: it was changed after it was saved, or OpenVINO cannot read it.
    """
    graph, weights = saved.read()
    try:
        return ov.Core().read_model(graph, weights)
    except RuntimeError as error:
        raise BundleError(
            f"engine/ cannot be read by OpenVINO {ov.__version__} ({reason(error)})",
            expected="a model that this version reads",
            fix="save the model again with this version, or use the engine 'keras'",
        ) from None


def suited(saved: SavedEngine, folder: Path, bundle: Bundle) -> SavedEngine:
    """What this machine runs of the engine that was read from a model's folder.

    Args:
        saved: the engine.
        folder: the model's.
        bundle: the model; its weights are not needed.

    Returns:
        The engine, `checked`; or in place of int8, on CPUs that are not faster at it or would
        saturate, the model's own weights in float32, of which its `read` raises a BundleError if
        they were changed after they were saved.
    """
    bundle_id = saved.record.bundle_id
    engine_id, precision = kept_as(
        str(saved.engine_id), bundle_id, saved.record.precision, saved.record.weight_bits
    )
    if precision == saved.record.precision:
        return checked(saved, bundle)

    def read() -> tuple[bytes, bytes]:
        from bertcnn.inference.openvino_graph import classifier_graph, serialized

        tensors = with_weights(bundle, folder).tensors
        return serialized(classifier_graph(tensors, bundle.config.encoder, bundle.config.head))

    return SavedEngine(saved.record.model_copy(update={"precision": precision}), read, engine_id)


def checked(saved: SavedEngine, bundle: Bundle) -> SavedEngine:
    """An engine that was saved with a model.

    Its `read` raises a BundleError if the graph is not the model's.
    """

    def read() -> tuple[bytes, bytes]:
        from bertcnn.inference.openvino_graph import blank_graph

        encoder, head, classes = bundle.config.encoder, bundle.config.head, len(bundle.labels)
        graph, constants = saved.read()
        blank = blank_graph(encoder, head, classes, int8_tokens=saved.record.precision == "int8")
        return checked_graph(graph, constants, blank), constants

    return SavedEngine(saved.record, read, saved.engine_id)


def token_embeddings(
    graph: ov.Model, pad_id: int, token_ids: Sequence[np.ndarray], store: Store
) -> None:
    """The encoder's output for each row.

    Args:
        graph: of `encoder_graph`.
        pad_id: the id of [PAD].
        token_ids: per row, int32 [T].
        store: called for each batch, in no particular order, with rows int64 [b] and their
            embeddings float32 [b, T, D].
    """
    compiled = compiled_model(lambda: graph)
    queue = _queue(compiled)
    lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))

    def taken_apart(request: ov.InferRequest, plan: PackedPlan) -> None:
        hidden = request.get_tensor("sequence_output").data
        found = {text: hidden[row, where] for text, row, _, where in places(plan, lengths)}
        padded = np.zeros((len(found), max(map(len, found.values())), hidden.shape[-1]), np.float32)
        for own, tokens in zip(padded, found.values(), strict=True):
            own[: len(tokens)] = tokens
        store(np.array(list(found)), padded)

    queue.set_callback(taken_apart)
    plans = sorted(plan_packed(lengths), key=lambda plan: -plan.length)
    for plan, batch in zip(plans, packed_batches(token_ids, plans, pad_id), strict=True):
        queue.start_async({name: batch[name] for name in PACKED if name != NUMBERS}, plan)
    queue.wait_all()


def _queue(compiled: ov.CompiledModel) -> ov.AsyncInferQueue:
    """A queue of batches.

    Each stream has a second one at hand, so that it never waits for Python to store one and make
    the next.
    """
    return ov.AsyncInferQueue(compiled, _BATCHES_OF_A_STREAM * compiled.get_property("NUM_STREAMS"))
