"""Inference engines: from token ids to logits.

An engine takes rows of any length and does its own sorting, batching and padding, because the best
way differs: Keras wants few large batches, a compiled engine one stream per core. Results are in
the order of the input rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np

from bertcnn.errors import SettingsError, one_line

# larger than any valid logit or feature; products of smaller values stay finite
_LARGEST = np.float32(1e12)

EngineName = Literal["auto", "openvino", "onnx", "keras"]


def check_engine(name: str) -> None:
    """Refuse an unknown engine name.

    Raises:
        SettingsError: the name is not one of `EngineName`.
    """
    if name not in get_args(EngineName):
        names = ", ".join(map(repr, get_args(EngineName)))
        raise SettingsError(
            f"engine {one_line(name)}",
            expected=f"one of {names}",
            fix="choose one of them, or leave it out",
        )


def reason(error: RuntimeError) -> str:
    """The last line of an OpenVINO or Keras error message, in quotes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(error).__name__, 200)


@dataclass(frozen=True)
class Evidence:
    """The pooled features of the CNN head per row, filters of the smallest window first.

    Attributes:
        activations: float32 [rows, W * N], each filter's largest activation, at least 0.
        windows: int32 [rows, W * N], first token of that activation's window; undefined at 0.
        means: float32 [rows, D], mean token embeddings.
    """

    activations: np.ndarray
    windows: np.ndarray
    means: np.ndarray

    @classmethod
    def empty(cls, rows: int, filters: int, width: int) -> Evidence:
        """Uninitialised evidence for `rows` texts."""
        return cls(
            np.empty((rows, filters), np.float32),
            np.empty((rows, filters), np.int32),
            np.empty((rows, width), np.float32),
        )


@dataclass(frozen=True)
class EngineOutput:
    """An engine's output.

    Attributes:
        logits: float32 [rows, C].
        evidence: the pooled features, if requested.
    """

    logits: np.ndarray
    evidence: Evidence | None = None

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite and of plausible size; damaged weights may give others."""
        evidence = self.evidence
        numbers = [
            self.logits,
            *(() if evidence is None else (evidence.activations, evidence.means)),
        ]
        return all(
            values.min(initial=0) > -_LARGEST and values.max(initial=0) < _LARGEST
            for values in numbers
        )  # False for NaN

    @property
    def requested_evidence(self) -> Evidence:
        """The evidence.

        Raises:
            ValueError: no evidence was requested.
        """
        if self.evidence is None:
            raise ValueError("evidence of a run without it; call run(..., evidence=True)")
        return self.evidence


class Engine(Protocol):
    """Runs a trained network."""

    @property
    def name(self) -> str:
        """Engine and precision; equal names give answers that are equal to the last digit shown."""

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Run the network on rows of ids (int32 [T], from [CLS] to [SEP]); keeps their order."""


class BatchStream(Protocol):
    """Computes one batch at a time while the caller waits; for one thread at a time."""

    def infer(self, batch: dict[str, np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
        """Compute a batch of `packed_inputs`; `slots` are the indices of its texts in `output`."""


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """An engine that also computes batches made by the caller.

    Attributes:
        streams: batches computed in parallel.
    """

    streams: int

    def room_for(self, rows: int, *, evidence: bool) -> EngineOutput:
        """An output for `rows` texts, to be filled."""

    def new_stream(self) -> BatchStream:
        """A new stream, for use by one thread."""
