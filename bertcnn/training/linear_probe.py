"""A linear probe: the head's last layer, started as a logistic regression."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from bertcnn.errors import TrainingError
from bertcnn.models.classifier import CnnHead
from bertcnn.models.weights import assign, extract

_INVERSE_REGULARIZATION = 10.0  # scikit-learn's C, for inputs of length 1
_ITERATIONS = 1000


def start_from_probe(
    head: CnnHead, means: np.ndarray, labels: np.ndarray, row_weights: np.ndarray
) -> None:
    """Give `head` the logits of a logistic regression on mean token embeddings.

    Its filters say nothing until they have learned. The regression learns from the means'
    directions, which separate labels better than the means themselves. A linear probe is hard to
    beat with a few rows a label, and training that starts from it keeps what it knows (Kumar et al.
    2022, "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution",
    section 3).

    Args:
        head: changed in place; only its linear layer.
        means: float32 [rows, D], of the training rows' token embeddings.
        labels: int [rows], 0 to C - 1, at least two different ones; or bool [rows, C], where rows
            may have several: a regression for each.
        row_weights: float [rows], how much each row counts, or [rows, C].
    """
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    scale, directions = float(norms.mean()), means / np.maximum(norms, 1e-12)
    weights = extract(head.weights)
    kernel, bias = np.zeros_like(weights["logits/kernel"]), np.zeros_like(weights["logits/bias"])
    if labels.ndim == 1:
        found = regression(directions, labels, row_weights)
        classes, coefficients, intercepts = found.classes_, found.coef_, found.intercept_
        if len(classes) == 2:  # scikit-learn keeps one logit then, the second label's lead
            coefficients = np.concatenate([-coefficients, coefficients]) / 2
            intercepts = np.concatenate([-intercepts, intercepts]) / 2
        kernel[-head.width :, classes], bias[classes] = coefficients.T / scale, intercepts
    else:
        for place in np.flatnonzero(labels.any(axis=0) & ~labels.all(axis=0)):
            found = regression(directions, labels[:, place], row_weights[:, place])
            kernel[-head.width :, place], bias[place] = found.coef_[0] / scale, found.intercept_[0]
    assign(
        head.weights, {**weights, "logits/kernel": kernel, "logits/bias": bias}, error=TrainingError
    )


def regression(
    means: np.ndarray, labels: np.ndarray, row_weights: np.ndarray
) -> LogisticRegression:
    """The linear probe.

    Args:
        means: float32 [rows, D], of length 1.
        labels: [rows], at least two different ones.
        row_weights: float [rows], how much each row counts.
    """
    with warnings.catch_warnings():
        # labels with one or two rows are expected here
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=_ITERATIONS).fit(
            means, labels, sample_weight=row_weights
        )
