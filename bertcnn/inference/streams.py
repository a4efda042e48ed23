"""A stream of a compiled engine: one batch at a time, on the calling thread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bertcnn.inference.engines import EngineOutput
from bertcnn.inference.forks import never_destroy, survive_forks
from bertcnn.inference.runtime import ov


class Stream:
    """Computes batches while the caller waits; streams of several threads run in parallel."""

    def __init__(self, model: ov.CompiledModel) -> None:
        self._request: ov.InferRequest = model.create_infer_request()
        survive_forks(self)

    def another(self) -> Stream:
        """Another stream of the same engine."""
        return Stream(self._request.get_compiled_model())

    def infer(self, batch: dict[str, np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
        """Compute a batch and store its results.

        `batch` is from `bertcnn.data.packing.packed_inputs`; `slots`, int [B, K], are the indices
        of its texts in `output`, -1 for none.
        """
        self._request.infer(batch)
        store_texts(self._request, slots, output)

    def leave(self) -> None:
        """In a forked process: abandon the parent's objects."""
        never_destroy(self._request)


def store_texts(request: ov.InferRequest, slots: np.ndarray, output: EngineOutput) -> None:
    """Store a finished batch's texts in `output`; `slots` has their indices, -1 for none."""
    put_texts(lambda name: request.get_tensor(name).data, slots, output)


def put_texts(values: Callable[[str], np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
    """Store a batch's texts in `output`; `values` maps an output's name to its values."""
    texts = slots.ravel()
    filled = texts >= 0

    def put(name: str, target: np.ndarray) -> None:
        target[texts[filled]] = values(name)[filled]

    put("logits", output.logits)
    if output.evidence is not None:
        put("activations", output.evidence.activations)
        put("windows", output.evidence.windows)
        put("means", output.evidence.means)
