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
        labels: int [rows], 0 to C - 1, at least two different ones.
        row_weights: float [rows], how much each row counts.
    """
    scale = float(np.linalg.norm(means, axis=1).mean())
    regression = LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=_ITERATIONS)
    regression.fit(means / scale, labels, sample_weight=row_weights)
    coefficients, intercepts = regression.coef_, regression.intercept_
    if len(regression.classes_) == 2:  # scikit-learn keeps one logit then, the second label's lead
        coefficients, intercepts = np.concatenate([-coefficients, coefficients]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    weights = extract(head.weights)
    kernel, bias = np.zeros_like(weights["logits/kernel"]), np.zeros_like(weights["logits/bias"])
    kernel[-head.width :, regression.classes_] = coefficients.T / scale
    bias[regression.classes_] = intercepts
    assign(head.weights, {**weights, "logits/kernel": kernel, "logits/bias": bias}, error=TrainingError)
