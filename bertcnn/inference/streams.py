"""A stream of a compiled engine: one batch at a time, on the thread that asks for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bertcnn.inference.engines import EngineOutput
from bertcnn.inference.forks import never_destroy, survive_forks
from bertcnn.inference.runtime import ov


class Stream:
    """Computes batches, each while the caller waits.

    Threads that have a stream each compute at the same time.
    """

    def __init__(self, model: ov.CompiledModel) -> None:
        self._request: ov.InferRequest = model.create_infer_request()
        survive_forks(self)

    def another(self) -> Stream:
        """One more of the same engine."""
        return Stream(self._request.get_compiled_model())

    def infer(self, batch: dict[str, np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
        """Compute a batch, and put its texts where they belong.

        Args:
            batch: of `bertcnn.data.packing.packed_inputs`.
            slots: int [B, K], places of the batch's texts in `output`, -1 where there is none.
            output: is filled.
        """
        self._request.infer(batch)
        store_texts(self._request, slots, output)

    def leave(self) -> None:
        """In a forked process: leave alone what is the parent's."""
        never_destroy(self._request)


def store_texts(request: ov.InferRequest, slots: np.ndarray, output: EngineOutput) -> None:
    """Put the texts of a finished batch where they belong.

    `slots` has their positions, -1 where there is none.
    """
    put_texts(lambda name: request.get_tensor(name).data, slots, output)


def put_texts(values: Callable[[str], np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
    """Put a batch's texts where they belong; `values` gives what it put out, by name."""
    texts = slots.ravel()
    there = texts >= 0

    def put(name: str, place: np.ndarray) -> None:
        place[texts[there]] = values(name)[there]

    put("logits", output.logits)
    if output.evidence is not None:
        put("activations", output.evidence.activations)
        put("windows", output.evidence.windows)
        put("means", output.evidence.means)
