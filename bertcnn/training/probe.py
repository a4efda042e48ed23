"""The start of the recipe for few rows: the head's linear layer as a logistic regression on what the encoder says already."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from bertcnn.errors import TrainingError
from bertcnn.models.classifier import CnnHead
from bertcnn.models.weights import assign, extract

_INVERSE_REGULARIZATION = 10.0  # scikit-learn's C, for inputs whose length is 1 on average
_ITERATIONS = 1000


def start_from_probe(head: CnnHead, means: np.ndarray, labels: np.ndarray, row_weights: np.ndarray) -> None:
    """Give `head` the logits of a logistic regression on mean token embeddings; its filters say nothing until they have learned.

    A linear probe is hard to beat with a few rows a label, and training that starts from it keeps what it knows (Kumar et al. 2022,
    "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution", section 3).

    Args:
        head: changed in place; only its linear layer.
        means: float32 [rows, D], of the training rows' token embeddings.
        labels: int [rows], 0 to C - 1, at least two different ones; or bool [rows, C], where rows may have several: a regression for each.
        row_weights: float [rows], how much each row counts, or [rows, C].
    """
    scale = float(np.linalg.norm(means, axis=1).mean())
    weights = extract(head.weights)
    kernel, bias = np.zeros_like(weights["logits/kernel"]), np.zeros_like(weights["logits/bias"])
    if labels.ndim == 1:
        classes, coefficients, intercepts = _regression(means / scale, labels, row_weights)
        if len(classes) == 2:  # scikit-learn keeps one logit then, the second label's lead
            coefficients, intercepts = np.concatenate([-coefficients, coefficients]) / 2, np.concatenate([-intercepts, intercepts]) / 2
        kernel[-head.width :, classes], bias[classes] = coefficients.T / scale, intercepts
    else:
        for place in np.flatnonzero(labels.any(axis=0) & ~labels.all(axis=0)):
            _, coefficients, intercepts = _regression(means / scale, labels[:, place], row_weights[:, place])
            kernel[-head.width :, place], bias[place] = coefficients[0] / scale, intercepts[0]
    assign(head.weights, {**weights, "logits/kernel": kernel, "logits/bias": bias}, error=TrainingError)


def _regression(means: np.ndarray, labels: np.ndarray, row_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The classes found, and coefficients and intercept of each."""
    found = LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=_ITERATIONS).fit(means, labels, sample_weight=row_weights)
    return found.classes_, found.coef_, found.intercept_
