"""How far a training is, and what it gave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from keras import ops

_WEIGHTS = ("kept", "late")


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


@dataclass
class TrainingState:
    """How far a training is, beside weights and optimizer."""

    epoch: int = 1
    losses: list[float] = field(default_factory=list)  # of the epoch under way
    history: list[EpochFigures] = field(default_factory=list)
    best_epoch: int = 0
    best_macro_f1: float = -1.0
    kept_epoch: int = 0
    kept_logits: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    kept_weights: dict[str, np.ndarray] = field(default_factory=dict)
    # the mean of those of the last steps, float32 tensors on the device or arrays
    late_weights: dict[str, Any] = field(default_factory=dict)
    late_steps: int = 0
    averaged: bool = False

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As a savepoint keeps it."""
        details = {
            name: getattr(self, name)
            for name in (
                "epoch",
                "losses",
                "best_epoch",
                "best_macro_f1",
                "kept_epoch",
                "late_steps",
                "averaged",
            )
        }
        weights = {
            f"{kind}/{name}": value
            for kind, values in (("kept", self.kept_weights), ("late", self.late_arrays()))
            for name, value in values.items()
        }
        return {**details, "history": [asdict(figures) for figures in self.history]}, {
            "kept_logits": self.kept_logits,
            **weights,
        }

    @classmethod
    def of_parts(cls, details: dict[str, Any], tensors: dict[str, np.ndarray]) -> TrainingState:
        """What `parts` gave."""
        history = [EpochFigures(**figures) for figures in details.pop("history")]
        kept, late = (
            {
                name.removeprefix(f"{kind}/"): value
                for name, value in tensors.items()
                if name.startswith(f"{kind}/")
            }
            for kind in _WEIGHTS
        )
        return cls(
            **details,
            history=history,
            kept_logits=tensors["kept_logits"],
            kept_weights=kept,
            late_weights=late,
        )

    def is_over(self, patience: int | None) -> bool:
        """Whether so many epochs have passed without a better one."""
        return (
            patience is not None
            and bool(self.history)
            and self.history[-1].epoch - self.best_epoch >= patience
        )

    def ends_late_step(self, variables: Sequence[Any]) -> None:
        """Takes the weights after one of the last steps into their mean, on the device."""
        self.late_steps += 1
        share, mean = 1 / self.late_steps, self.late_weights
        self.late_weights = {
            variable.path: mean[variable.path] + share * (variable.value - mean[variable.path])
            if mean
            else ops.copy(variable.value)
            for variable in variables
        }

    def late_arrays(self) -> dict[str, np.ndarray]:
        """The mean of the last steps' weights, by name."""
        return {name: ops.convert_to_numpy(value) for name, value in self.late_weights.items()}

    def ends_epoch(self, figures: EpochFigures, rows: int) -> bool:
        """Whether to keep this epoch's weights.

        Unless the best was better by more than the standard error of a share of `rows`. Among
        epochs that do not differ by more than chance the last is usually the best, since the
        learning rate falls to the end (the rule of one standard error, Breiman et al. 1984, section
        3.4.3).
        """
        if figures.macro_f1 > self.best_macro_f1:
            self.best_macro_f1, self.best_epoch = figures.macro_f1, figures.epoch
        self.history.append(figures)
        return self.is_as_good(figures.macro_f1, rows)

    def is_as_good(self, macro_f1: float, rows: int) -> bool:
        """Whether the best epoch is better by at most the standard error of a share of `rows`.

        Where all rows are right, that of Agresti and Coull's estimate (1998), since that of 1 would
        be 0.
        """
        share = min(self.best_macro_f1, (rows + 2) / (rows + 4))
        return macro_f1 >= self.best_macro_f1 - math.sqrt(share * (1.0 - share) / rows)
