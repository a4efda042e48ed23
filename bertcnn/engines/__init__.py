"""What turns token ids into logits when a model is used.

An engine takes rows of any length and does its own sorting, batching and padding, because what is best differs: Keras wants
few large batches, a compiled engine one stream a core. Rows come back in the order they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class EngineOutput:
    """What an engine gives.

    Attributes:
        logits: float32 [rows, C].
    """

    logits: np.ndarray


class Engine(Protocol):
    """Runs a trained network."""

    name: str

    def run(self, token_ids: Sequence[np.ndarray]) -> EngineOutput:
        """The network's answer to each row of ids (int32 [T], from [CLS] to [SEP]), in order."""
