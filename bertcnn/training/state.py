"""The result of a training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EpochFigures:
    """Mean training loss of an epoch, and validation figures after it."""

    epoch: int
    loss: float
    macro_f1: float
    accuracy: float


@dataclass(frozen=True)
class FitResult:
    """The result of a training, in addition to the weights in the model.

    Attributes:
        kept_epoch: the epoch of the weights, from 1: the last one not clearly worse than the best.
        valid_logits: float32 [rows, C], of the validation rows under those weights.
        detector_outputs: logits float32 [rows, C] and mean token embeddings float32 [rows, D] of
            `TrainingData.detector_rows`; None if the saved engine computes them as cheaply.
        valid_means: float32 [rows, D], mean embeddings of the validation rows; None as above.
        refit_logits: float32 [rows, C], of the validation rows after a refit that included them;
            everything else is from before the refit.
        pseudo_labelled: number of unlabelled rows that were trained on with pseudo-labels.
        averaged: whether the weights are a mean of the last steps; `kept_epoch` is then the last.
    """

    epochs: tuple[EpochFigures, ...]
    kept_epoch: int
    valid_logits: np.ndarray
    padded_lengths: tuple[int, ...]
    detector_outputs: tuple[np.ndarray, np.ndarray] | None = None
    valid_means: np.ndarray | None = None
    refit_logits: np.ndarray | None = None
    pseudo_labelled: int = 0
    averaged: bool = False

    @property
    def model_logits(self) -> np.ndarray:
        """float32 [rows, C], the final model's logits on the validation rows."""
        return self.valid_logits if self.refit_logits is None else self.refit_logits
