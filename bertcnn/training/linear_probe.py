"""A linear probe: a logistic regression that initialises the head's output layer."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from bertcnn.errors import TrainingError
from bertcnn.models import CnnHead, assign, extract

_INVERSE_REGULARIZATION = 10.0  # scikit-learn's C, for inputs of length 1
_ITERATIONS = 1000


def start_from_probe(
    head: CnnHead, means: np.ndarray, labels: np.ndarray, row_weights: np.ndarray
) -> None:
    """Initialise the output layer of `head` with a logistic regression on mean token embeddings.

    The convolution filters start with zero weights in that layer. The regression uses normalised
    means, which separate labels better. With few rows per label a linear probe is a strong
    baseline, and training from it preserves the pretrained features (Kumar et al. 2022,
    "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution", section 3).

    Labels are int [rows], at least two different ones; or bool [rows, C] for multi-label rows, with
    one regression per label. Row weights are float [rows] or [rows, C].
    """
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    scale, directions = float(norms.mean()), means / np.maximum(norms, 1e-12)
    weights = extract(head.weights)
    kernel, bias = np.zeros_like(weights["logits/kernel"]), np.zeros_like(weights["logits/bias"])
    if labels.ndim == 1:
        model = regression(directions, labels, row_weights)
        classes, coefficients, intercepts = model.classes_, model.coef_, model.intercept_
        if len(classes) == 2:  # scikit-learn returns one logit: the second label's margin
            coefficients = np.concatenate([-coefficients, coefficients]) / 2
            intercepts = np.concatenate([-intercepts, intercepts]) / 2
        kernel[-head.width :, classes], bias[classes] = coefficients.T / scale, intercepts
    else:
        for index in np.flatnonzero(labels.any(axis=0) & ~labels.all(axis=0)):
            model = regression(directions, labels[:, index], row_weights[:, index])
            kernel[-head.width :, index], bias[index] = model.coef_[0] / scale, model.intercept_[0]
    assign(
        head.weights, {**weights, "logits/kernel": kernel, "logits/bias": bias}, error=TrainingError
    )


def regression(
    means: np.ndarray, labels: np.ndarray, row_weights: np.ndarray
) -> LogisticRegression:
    """The logistic regression of the linear probe; `means` are float32 [rows, D], of length 1."""
    with warnings.catch_warnings():
        # labels with one or two rows are expected here
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=_ITERATIONS).fit(
            means, labels, sample_weight=row_weights
        )
