"""What turns token ids into logits when a model is used.

An engine takes rows of any length and does its own sorting, batching and padding, because what is
best differs: Keras wants few large batches, a compiled engine one stream a core. Rows come back in
the order they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np

from bertcnn.errors import SettingsError, one_line

# what no honest logit or feature comes near; the products of smaller ones stay finite
_LARGEST = np.float32(1e12)

EngineName = Literal["auto", "openvino", "onnx", "keras"]


def check_engine(name: str) -> None:
    """Refuse an unknown engine.

    Raises:
        SettingsError: it is none of `EngineName`.
    """
    if name not in get_args(EngineName):
        known = ", ".join(map(repr, get_args(EngineName)))
        raise SettingsError(
            f"engine {one_line(name)}",
            expected=f"one of {known}",
            fix="choose one of them, or leave it out",
        )


def reason(error: RuntimeError) -> str:
    """What OpenVINO or Keras says is wrong: the last of its lines, in quotes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(error).__name__, 200)


@dataclass(frozen=True)
class Evidence:
    """What each filter of the CNN head found in a row; the filters of the smallest window first.

    And the other features.

    Attributes:
        activations: float32 [rows, W * N], each filter's largest activation, not negative.
        windows: int32 [rows, W * N], the token at which the window starts that gave it; without
            meaning where the activation is 0.
        means: float32 [rows, D], of the token embeddings.
    """

    activations: np.ndarray
    windows: np.ndarray
    means: np.ndarray

    @classmethod
    def empty(cls, rows: int, filters: int, width: int) -> Evidence:
        """Room for what is found in so many rows."""
        return cls(
            np.empty((rows, filters), np.float32),
            np.empty((rows, filters), np.int32),
            np.empty((rows, width), np.float32),
        )


@dataclass(frozen=True)
class EngineOutput:
    """What an engine gives.

    Attributes:
        logits: float32 [rows, C].
        evidence: which windows won, if it was asked for.
    """

    logits: np.ndarray
    evidence: Evidence | None = None

    @property
    def is_finite(self) -> bool:
        """Whether all of it is numbers that can be calculated with.

        Those of damaged or made-up weights may not be.
        """
        found = self.evidence
        numbers = [self.logits, *(() if found is None else (found.activations, found.means))]
        return all(
            values.min(initial=0) > -_LARGEST and values.max(initial=0) < _LARGEST
            for values in numbers
        )  # not so for NaN

    @property
    def found(self) -> Evidence:
        """The evidence.

        Raises:
            ValueError: it was not asked for.
        """
        if self.evidence is None:
            raise ValueError("evidence of a run without it; call run(..., evidence=True)")
        return self.evidence


class Engine(Protocol):
    """Runs a trained network."""

    @property
    def name(self) -> str:
        """What computes, and in which precision.

        Answers under one name are the same to the last digit shown.
        """

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """The network's answer to each row of ids (int32 [T], from [CLS] to [SEP]), in order."""


class BatchStream(Protocol):
    """Computes batches, each while the caller waits; for one thread at a time."""

    def infer(self, batch: dict[str, np.ndarray], slots: np.ndarray, output: EngineOutput) -> None:
        """Compute a batch of `packed_inputs`; `slots` says where its texts belong in `output`."""


@runtime_checkable
class StreamingEngine(Engine, Protocol):
    """An engine whose batches a caller can make itself.

    Attributes:
        streams: batches computed at the same time.
    """

    streams: int

    def room_for(self, rows: int, *, evidence: bool) -> EngineOutput:
        """An output of so many rows, to be filled."""

    def new_stream(self) -> BatchStream:
        """A stream for a thread that keeps it."""
