"""Whether the best of many is better, or only the luckiest: White's reality check."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_DRAWS = 2000
_DRAWS_AT_ONCE = 250


def chance_of_best(
    labels: np.ndarray, predictions: Sequence[np.ndarray], groups: np.ndarray, *, seed: int = 0
) -> float:
    """How often the best prediction would be this much better by chance.

    That is, if none were better than the first.

    The rows are drawn again, with replacement, and each time it is asked by how much the luckiest
    of the predictions gains more on the first than it really does. This allows for the choice among
    many, for rows that all of them get right, and for rows that belong together (White 2000, A
    Reality Check for Data Snooping, section 2).

    Args:
        labels: int [rows].
        predictions: int [rows] of each candidate; the first is what the others are compared with.
        groups: int [rows]; rows with equal numbers are drawn together.
        seed: of the draws.

    Returns:
        Above 0, up to 1; 1 if no macro-F1 is above the first.

    Example:
        >>> labels = np.arange(200) % 2
        >>> always_wrong, always_right = 1 - labels, labels
        >>> round(chance_of_best(labels, [always_wrong, always_right], np.arange(200)), 4)
        0.0005
    """
    classes = _classes(labels, predictions)
    members = int(groups.max()) + 1
    # [candidates, 1]
    real = macro_f1_of_draws(labels, predictions, np.ones((1, len(labels)), np.float32), classes)
    gain = float((real - real[0]).max())
    if gain <= 0:
        return 1.0
    generator = np.random.default_rng(seed)
    luckier = 0
    for _ in range(_DRAWS // _DRAWS_AT_ONCE):
        # [draws, groups]
        drawn = generator.multinomial(members, np.full(members, 1 / members), _DRAWS_AT_ONCE)
        # [candidates, draws]
        figures = macro_f1_of_draws(
            labels, predictions, drawn[:, groups].astype(np.float32), classes
        )
        lucky = (figures - figures[0]) - (real - real[0])
        luckier += int((lucky.max(axis=0) >= gain).sum())
    # never 0 (Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero")
    return (1 + luckier) / (1 + _DRAWS)


def _classes(labels: np.ndarray, predictions: Sequence[np.ndarray]) -> int:
    return int(max(labels.max(), *(predicted.max() for predicted in predictions))) + 1


def macro_f1_of_draws(
    labels: np.ndarray, predictions: Sequence[np.ndarray], weights: np.ndarray, classes: int
) -> np.ndarray:
    """The macro-F1 of each candidate under each weighting of the rows.

    float64 [candidates, weightings].

    Args:
        labels: int [rows].
        predictions: int [rows] each.
        weights: float32 [weightings, rows].
        classes: C.
    """
    one_hot = np.eye(classes, dtype=np.float32)
    actual = weights @ one_hot[labels]  # [weightings, C]
    figures = []
    for predicted in predictions:
        right = weights @ (one_hot[labels] * (labels == predicted)[:, None])
        either = actual + weights @ one_hot[predicted]
        occurs = either > 0
        f1 = np.where(occurs, 2 * right / np.maximum(either, 1), 0.0)
        figures.append(f1.sum(axis=1, dtype=np.float64) / np.maximum(occurs.sum(axis=1), 1))
    return np.stack(figures)
