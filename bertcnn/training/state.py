"""What a training gave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EpochFigures:
    """One epoch: its mean training loss, and the figures on the validation rows after it."""

    epoch: int
    loss: float
    macro_f1: float
    accuracy: float


@dataclass(frozen=True)
class FitResult:
    """What training gave, beside the weights in the model.

    Attributes:
        epochs: one entry for each epoch.
        kept_epoch: whose weights the model now holds, counted from 1: the last one that is not
            clearly worse than the best.
        valid_logits: float32 [rows, C], of the validation rows under those weights.
        padded_lengths: the compiled shapes' lengths.
        known: of the rows that `train` was asked to answer: logits float32 [rows, C] and means of
            their token embeddings float32 [rows, D]; None where that is no cheaper than to ask the
            saved engine.
        valid_means: means of the token embeddings of the validation rows, float32 [rows, D]; None
            as for `known`.
        refit_logits: float32 [rows, C], of the validation rows under the model's weights, if these
            rows were added to the training rows in the end; all the rest is from before that.
        pseudo_labelled: rows without a label that were learned from with pseudo-labels.
        averaged: whether they are the mean of those in the last steps, and not one epoch's;
            `kept_epoch` is then the last one.
    """

    epochs: tuple[EpochFigures, ...]
    kept_epoch: int
    valid_logits: np.ndarray
    padded_lengths: tuple[int, ...]
    known: tuple[np.ndarray, np.ndarray] | None = None
    valid_means: np.ndarray | None = None
    refit_logits: np.ndarray | None = None
    pseudo_labelled: int = 0
    averaged: bool = False

    @property
    def model_logits(self) -> np.ndarray:
        """float32 [rows, C], what the model answers on the validation rows."""
        return self.valid_logits if self.refit_logits is None else self.refit_logits
