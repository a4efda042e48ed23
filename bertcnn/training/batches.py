"""Labelled rows as the network wants them, and their batches with weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertcnn.data.batches import BatchPlan
from bertcnn.data.packing import PackedPlan, Packing
from bertcnn.evaluation.macro_f1 import macro_f1_score
from bertcnn.models.forward import Collate, Inputs
from bertcnn.settings import ClassWeight

_MOST_WEIGHT = 100.0  # of a label that a row has


@dataclass(frozen=True)
class Examples:
    """Labelled rows for a training loop, whether batches hold tokens or stored features.

    Attributes:
        collate: makes a planned batch's inputs.
        lengths: int [rows], tokens of each row.
        labels: int [rows], 0 to C - 1.
        packing: puts several of them into one row of a batch, of training rows and then of
            validation rows too; by default each is one.
        multi_hot: bool [rows, C], which row has which label, if rows may have several; by default
            each has the one in `labels`.
        soft: float32 [rows, C], the probabilities that are to be learned; by default the labels.
    """

    collate: Collate
    lengths: np.ndarray
    labels: np.ndarray
    packing: Packing | None = None
    multi_hot: np.ndarray | None = None
    soft: np.ndarray | None = None

    def evaluate(self, logits: np.ndarray) -> tuple[float, float]:
        """Macro-F1 of the answers, and the share of rows that are right, in all labels.

        A label of several is given from 1/2 on.
        """
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
    """A planned batch: inputs, `targets` from 0 to 1 and row `weights`, 0 for fillers.

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
    return examples.collate(plan), {"targets": targets, "weights": row_weights}


def class_weights(labels: np.ndarray, classes: int, rule: ClassWeight | None) -> np.ndarray:
    """The weight of each label in the loss, float32 [C], 1 on average over the rows.

    "balanced" is rows / (C x rows of the label), as scikit-learn has it; "sqrt", the default, is
    its square root; both rescaled.
    """
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "sqrt"]
    weights = (len(labels) / (classes * counts)) ** power
    return (weights / np.mean(weights[labels])).astype(np.float32)


def positive_weights(multi_hot: np.ndarray, rule: ClassWeight | None) -> np.ndarray:
    """The weight in the loss of a label that a row has, float32 [C], at most 100; else it is 1.

    "balanced" is the rows without the label for each row with it; "sqrt" is its square root;
    "none", the default, is 1: with weights a label's probability is too high, and a threshold does
    for rare labels what a weight would.

    Args:
        multi_hot: bool [rows, C], which row has which label.
        rule: "none", "sqrt" or "balanced"; by default "none".
    """
    having = np.maximum(multi_hot.sum(axis=0), 1)
    power = {"none": 0.0, "sqrt": 0.5, "balanced": 1.0}[rule or "none"]
    ratio = np.maximum(len(multi_hot) - having, 1) / having
    return np.minimum(ratio**power, _MOST_WEIGHT).astype(np.float32)
