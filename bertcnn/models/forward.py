"""Runs a model on NumPy arrays, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from bertcnn.backend import check_process, on_gpu
from bertcnn.data import BatchPlan, PackedPlan, plan_full, plan_scoring

Inputs = Mapping[str, np.ndarray]
Plans = Sequence[BatchPlan | PackedPlan]
Collate = Callable[[Any], Inputs]  # makes the inputs of a plan

_CPU_TOKENS = 2048  # per batch
_GPU_TOKENS = 32_768  # per batch; keeps a GPU busy


def padded_up_to(longest: int) -> tuple[int, ...]:
    """Padded lengths for rows of up to `longest` tokens, with `longest` as the last.

    Example:
        >>> padded_up_to(100)
        (16, 32, 64, 100)
    """
    return (*(length for length in (16, 32, 64, 128, 256) if length < longest), longest)


class Forward:
    """Runs a model on rows of any length, with little padding.

    Rows are sorted by length into batches, which are larger on a GPU. TensorFlow runs one graph for
    all shapes. Other backends compile each shape, so rows are padded to `padded_lengths`. The model
    has one output, or several by name (not for `rows`). Its weights are shared, so a model in
    training can be evaluated.
    """

    def __init__(
        self,
        model: keras.Model,
        padded_lengths: Sequence[int] = padded_up_to(512),
        token_budget: int | None = None,
    ) -> None:
        compiled, self._on_gpu = keras.backend.backend() != "tensorflow", on_gpu()
        self._model = keras.Model(model.input, model.output)
        self._model.compile(jit_compile=compiled)
        self._padded_lengths = tuple(padded_lengths) if compiled else None
        self._token_budget = token_budget or (_GPU_TOKENS if self._on_gpu else _CPU_TOKENS)

    def plan(self, lengths: np.ndarray) -> list[BatchPlan]:
        """The batches for rows of these lengths."""
        if self._padded_lengths is None:
            return plan_scoring(lengths, self._token_budget)
        longest = max(int(lengths.max()), self._padded_lengths[-1])
        plan = plan_full if self._on_gpu else plan_scoring
        return plan(lengths, self._token_budget, (*self._padded_lengths, longest))

    def __call__(self, inputs: Inputs) -> Any:
        """The model's output or named outputs for one batch, as NumPy."""
        check_process()
        return self._model.predict_on_batch(dict(inputs))

    def rows(self, collate: Collate, lengths: np.ndarray, plans: Plans | None = None) -> np.ndarray:
        """The output of every row, float32 [rows, width], in order."""
        outputs = np.empty((len(lengths), self._model.output.shape[-1]), np.float32)
        for plan in self.plan(lengths) if plans is None else plans:
            slots = plan.slots
            outputs[slots[slots >= 0]] = self(collate(plan))[slots >= 0]
        return outputs
