"""A compiled engine for a service: one stream per call, and all shapes warmed up."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

import numpy as np

from bertcnn.data import PackedPlan, Shape, fixed_shapes, packed_batches, plan_fixed
from bertcnn.inference.engines import BatchStream, EngineOutput, StreamingEngine


class ServedEngine:
    """Computes a call's texts on one stream.

    As many calls run in parallel as the engine has streams.
    """

    def __init__(self, engine: StreamingEngine, pad_id: int, longest: int) -> None:
        self.name, self.streams = engine.name, engine.streams
        self._engine, self._pad_id, self._longest = engine, pad_id, longest
        self._idle: SimpleQueue[BatchStream] = SimpleQueue()
        for _ in range(self.streams):
            self._idle.put(engine.new_stream())

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Run the network on rows of ids (int32 [T], from [CLS] to [SEP]); keeps their order."""
        output = self._engine.room_for(len(token_ids), evidence=evidence)
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        self._compute(plan_fixed(lengths, self._longest), token_ids, output)
        return output

    def warm(self) -> None:
        """Compute each shape once on every stream, in parallel.

        A stream's first batch of a shape takes several times as long as later ones.

        Raises:
            RuntimeError: the engine failed.
        """
        shapes = fixed_shapes(self._longest)
        all_there, failures = threading.Barrier(self.streams), []
        self._compute_shapes(shapes[:1])  # sets up the engine at its first batch, on one thread

        def compute() -> None:
            try:
                self._compute_shapes(shapes[:1])
                all_there.wait()  # so that each of these threads has a stream of its own
                self._compute_shapes(shapes[1:])
            except RuntimeError as error:  # includes a broken barrier
                failures.append(error)
                all_there.abort()

        threads = [
            threading.Thread(target=compute, name="bertcnn-warm") for _ in range(self.streams)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def try_out(self) -> None:
        """Compute one shape on one stream.

        Raises:
            RuntimeError: the engine failed.
        """
        self._compute_shapes(fixed_shapes(self._longest)[:1])

    def warm_by_turns(self) -> None:
        """Like `warm`, on one stream at a time, so that calls wait for at most one shape.

        Each shape is computed once per stream; streams take turns.

        Raises:
            RuntimeError: the engine failed.
        """
        for shape in fixed_shapes(self._longest):
            self._compute_shapes([shape] * self.streams)

    def _compute_shapes(self, shapes: Sequence[Shape]) -> None:
        """Compute each shape with a text in each row."""
        for rows, length, texts_per_row in shapes:
            slots = np.full((rows, texts_per_row), -1, np.int64)
            slots[:, 0] = np.arange(rows)
            token_ids = [np.ones(length, np.int32)] * rows
            output = self._engine.room_for(rows, evidence=True)
            self._compute([PackedPlan(slots, length)], token_ids, output)

    def _compute(
        self, plans: Sequence[PackedPlan], token_ids: Sequence[np.ndarray], output: EngineOutput
    ) -> None:
        batches = packed_batches(token_ids, plans, self._pad_id)
        stream = self._idle.get()
        try:
            for plan, batch in zip(plans, batches, strict=True):
                stream.infer(batch, plan.slots, output)
        finally:
            self._idle.put(stream)
