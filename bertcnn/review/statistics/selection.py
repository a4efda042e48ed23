"""Active learning: the order of texts for labelling.

Both orders choose representative texts by facility location: the next text is the one that brings
the most texts nearer to a chosen one (Wei, Iyer and Bilmes 2015, "Submodularity in Data Subset
Selection and Active Learning", section 3). Typical texts come first, as in TypiClust (Hacohen,
Dekel and Weinshall 2022), and similar ones late.
"""

from __future__ import annotations

import numpy as np

from bertcnn.bundle import unit
from bertcnn.errors import SettingsError

_CANDIDATES, _FEWEST_CANDIDATES = 20, 1000  # candidates per chosen text; their minimum
_MOST_OF_GROUP = 2000  # texts
_BATCH = 20  # texts that a person gets at a time
_SHARE_OF_LABEL = 3  # a label gets at most 1 / 3 of a batch


def cold_start_order(
    embeddings: np.ndarray, groups: np.ndarray, *, per_group: int = 10
) -> np.ndarray:
    """Texts to label first, before there is a model.

    Args:
        embeddings: float32 [N, D], mean token embeddings.
        groups: int [N], candidate label of each text; -1 for none.
        per_group: texts of each group.

    Returns:
        int64, positions of texts: the first of each group, then the second of each, the largest
            group first.

    Raises:
        SettingsError: the two differ in length.

    Example:
        >>> embeddings = np.array([[1, 0], [0.9, 0.1], [0.8, 0.2], [0, 1]], np.float32)
        >>> cold_start_order(embeddings, np.array([0, 0, 0, 1]), per_group=2).tolist()
        [1, 3, 2]
    """
    _check_lengths(embeddings, groups)
    directions, chosen = unit(embeddings), []
    names, sizes = np.unique(groups[groups >= 0], return_counts=True)
    for name in names[np.argsort(-sizes, kind="stable")]:
        rows = np.flatnonzero(groups == name)
        rows = rows[:: -(-len(rows) // _MOST_OF_GROUP)]
        order = _represent(directions[rows], np.ones(len(rows)), min(per_group, len(rows)))
        chosen.append(rows[order])
    by_turn = [
        members[turn] for turn in range(per_group) for members in chosen if turn < len(members)
    ]
    return np.array(by_turn, np.int64)


def review_order(
    uncertainty: np.ndarray,
    embeddings: np.ndarray,
    *,
    size: int,
    predicted: np.ndarray | None = None,
    labelled: np.ndarray | None = None,
) -> np.ndarray:
    """Texts to label next with a model, the most useful first.

    The chosen texts are among the most uncertain, and resemble many other uncertain texts and no
    labelled one. Uncertainty times typicality alone repeats similar texts: on Banking77 it was
    worse than a random order.

    Args:
        uncertainty: float [N], 0 for certain, as 1 - margin of the two most probable labels.
        embeddings: float32 [N, D], mean token embeddings.
        size: how many to choose.
        predicted: int [N], the model's labels; no label has more than a third of each 20 texts
            while others remain.
        labelled: float32 [L, D], embeddings of labelled texts.

    Returns:
        int64 [min(size, N)], positions of texts.

    Raises:
        SettingsError: two arrays differ in length.

    Example:
        >>> embeddings = np.array([[1, 0], [0.9, 0.1], [0.8, 0.2], [0, 1]], np.float32)
        >>> review_order(np.array([0.9, 0.9, 0.9, 0.5]), embeddings, size=2).tolist()
        [2, 3]
    """
    _check_lengths(uncertainty, embeddings, predicted)
    by_doubt = np.argsort(-np.asarray(uncertainty, float), kind="stable")
    candidates = by_doubt[: max(_CANDIDATES * size, _FEWEST_CANDIDATES)]
    directions = unit(embeddings[candidates])
    covered = None if labelled is None or not len(labelled) else _nearest(directions, labelled)
    order = _represent(
        directions,
        np.asarray(uncertainty, float)[candidates],
        min(size, len(candidates)),
        covered,
        None if predicted is None else predicted[candidates],
    )
    return candidates[order]


def _check_lengths(first: np.ndarray, *others: np.ndarray | None) -> None:
    lengths = [len(first), *(len(one) for one in others if one is not None)]
    if len(set(lengths)) > 1:
        raise SettingsError(
            f"arrays of {', '.join(map(str, lengths))} rows",
            expected="a row for each text",
            fix="pass all of the same texts",
        )


def _nearest(directions: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Largest cosine of each vector to the others, at least 0: float32 [M]."""
    return np.maximum((directions @ unit(others).T).max(axis=1), 0)


def _represent(
    directions: np.ndarray,
    weights: np.ndarray,
    size: int,
    covered: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """Choose representative texts greedily by facility location: int64 [size].

    Args:
        directions: float32 [M, D], of length 1.
        weights: float [M], importance of each text.
        size: how many to choose.
        covered: float [M], similarity to texts chosen before; 0 by default.
        labels: int [M]; each has at most a third of a batch.
    """
    similarity = np.maximum(directions @ directions.T, 0)  # [M, M]
    covered = np.zeros(len(directions), np.float32) if covered is None else covered
    free = np.ones(len(directions), bool)
    order: list[int] = []
    for turn in range(size):
        gains = weights @ np.maximum(similarity - covered[:, np.newaxis], 0)  # [M]
        allowed = free
        if labels is not None:
            batch_labels = labels[order[turn - turn % _BATCH :]]
            names, counts = np.unique(batch_labels, return_counts=True)
            full = names[counts >= _BATCH // _SHARE_OF_LABEL]
            allowed = free & ~np.isin(labels, full)
        best = int(np.where(allowed if allowed.any() else free, gains, -1).argmax())
        free[best] = False
        order.append(best)
        covered = np.maximum(covered, similarity[:, best])
    return np.array(order, np.int64)
