"""The compiled engine for question answering: OpenVINO on the CPU, several windows per row."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from bertcnn.data import PackedPlan, packed_batches, places, plan_packed
from bertcnn.inference.forks import keep_compiled, never_destroy, survive_forks
from bertcnn.inference.openvino_graph import ENCODER_INPUTS
from bertcnn.inference.runtime import ov

_BATCHES_OF_A_STREAM = 2


class SpansModel(Protocol):
    """Scores each token of windows as start and end of the answer."""

    def run(self, token_ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores float32 [T, 2] of each window, in order; ids are int32 [T]."""


class SpansEngine:
    """Runs a compiled `spans_graph`. `compiled` returns the compiled graph, or its int8 form."""

    def __init__(self, compiled: Callable[[], ov.CompiledModel], pad_id: int, name: str) -> None:
        self.name, self._pad_id, self._compiled = name, pad_id, compiled
        self._lock = threading.Lock()  # several threads may share an engine
        self._start()
        survive_forks(self)

    def _start(self) -> None:
        model = self._compiled()
        streams = model.get_property("NUM_STREAMS")
        self._queue = ov.AsyncInferQueue(model, _BATCHES_OF_A_STREAM * streams)
        keep_compiled(model)
        self._process = os.getpid()

    def leave(self) -> None:
        """In a forked process: abandon the parent's objects and create new locks."""
        self._lock = threading.Lock()
        with suppress(AttributeError):
            never_destroy(self._queue)

    def run(self, token_ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores float32 [T, 2] of each window, in order; ids are int32 [T]."""
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        spans: list[np.ndarray] = [np.empty((0, 2), np.float32)] * len(token_ids)

        def taken_apart(request: ov.InferRequest, plan: PackedPlan) -> None:
            scores = request.get_tensor("spans").data
            for window, row, _, where in places(plan, lengths):
                spans[window] = scores[row, where].copy()

        with self._lock:
            if os.getpid() != self._process:  # OpenVINO's threads stayed in the parent
                self._start()
            self._queue.set_callback(taken_apart)
            for plan, batch in packed_windows(token_ids, self._pad_id):
                self._queue.start_async(batch, plan)
            self._queue.wait_all()
        return spans


def packed_windows(
    token_ids: Sequence[np.ndarray], pad_id: int
) -> Iterator[tuple[PackedPlan, dict[str, np.ndarray]]]:
    """The inputs of `spans_graph` for all windows, longest first."""
    lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
    if not len(lengths):
        return
    plans = sorted(plan_packed(lengths), key=lambda plan: -plan.length)
    for plan, batch in zip(plans, packed_batches(token_ids, plans, pad_id), strict=True):
        yield plan, {name: batch[name] for name in ENCODER_INPUTS}
