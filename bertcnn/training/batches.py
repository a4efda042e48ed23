"""Labelled rows for training, and their batches with row weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertcnn.data import BatchPlan, PackedPlan, Packing
from bertcnn.evaluation import macro_f1_score
from bertcnn.models import Collate, Inputs
from bertcnn.settings import ClassWeight

_MOST_WEIGHT = 100.0  # cap on the weight of a label's positive rows


@dataclass(frozen=True)
class Examples:
    """Labelled rows for a training loop; batches hold tokens or stored features.

    Attributes:
        collate: makes a planned batch's inputs.
        lengths: int [rows], tokens of each row.
        labels: int [rows], 0 to C - 1.
        packing: packs several texts into one row of a batch; by default one text per row.
        multi_hot: bool [rows, C], which row has which label, for multi-label rows.
        soft: float32 [rows, C], soft targets; by default the labels.
        weights: float32 [rows], of the rows in the loss; by default 1.
    """

    collate: Collate
    lengths: np.ndarray
    labels: np.ndarray
    packing: Packing | None = None
    multi_hot: np.ndarray | None = None
    soft: np.ndarray | None = None
    weights: np.ndarray | None = None

    def evaluate(self, logits: np.ndarray) -> tuple[float, float]:
        """Macro-F1 and accuracy, which for multi-label rows is the share of exact matches."""
        if self.multi_hot is None:
            actual, predicted = self.labels, logits.argmax(axis=1)
            right = predicted == actual
        else:
            actual, predicted = self.multi_hot, logits > 0
            right = (predicted == actual).all(axis=1)
        return macro_f1_score(actual, predicted), float(np.mean(right))


def labelled_batch(
    examples: Examples, plan: BatchPlan | PackedPlan, weights: np.ndarray
) -> tuple[Inputs, Inputs]:
    """Inputs, `targets` (0 to 1) and row `weights` (0 for filler rows) of a planned batch.

    `weights` are those of the labels, float32 [C]; a row's own weight multiplies its label's.
    Targets are float32 [B, C] and row weights [B]; packed [B, K, C] and [B, K].
    """
    slots = plan.slots
    taken = slots >= 0
    labels = examples.labels[slots[taken]]
    targets = np.zeros((*slots.shape, len(weights)), np.float32)
    rows = examples.multi_hot if examples.soft is None else examples.soft
    if rows is None:
        targets[taken, labels] = 1.0
    else:
        targets[taken] = rows[slots[taken]]
    row_weights = np.zeros(slots.shape, np.float32)
    row_weights[taken] = weights[labels]
    if examples.weights is not None:
        row_weights[taken] *= examples.weights[slots[taken]]
    return examples.collate(plan), {"targets": targets, "weights": row_weights}


def class_weights(labels: np.ndarray, classes: int, rule: ClassWeight | None) -> np.ndarray:
    """The weight of each label in the loss, float32 [C], 1 on average over the rows.

    "balanced" is rows / (C x rows of the label), as in scikit-learn; "sqrt", the default, is its
    square root. Both are rescaled.
    """
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "sqrt"]
    weights = (len(labels) / (classes * counts)) ** power
    return (weights / np.mean(weights[labels])).astype(np.float32)


def positive_weights(multi_hot: np.ndarray, rule: ClassWeight | None) -> np.ndarray:
    """The loss weight of the rows that have a label, float32 [C], at most 100.

    `multi_hot` is bool [rows, C]. "balanced" is the number of rows without the label per row with
    it; "sqrt" is the square root of that; "none", the default, is 1. Weights make a label's
    probability too high, and a threshold does the same for rare labels.
    """
    having = np.maximum(multi_hot.sum(axis=0), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "none"]
    ratio = np.maximum(len(multi_hot) - having, 1) / having
    return np.minimum(ratio**power, _MOST_WEIGHT).astype(np.float32)
