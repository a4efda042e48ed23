"""Accuracy of a model on rows whose labels may be strings, integers or booleans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertcnn.data import KnownLabels, LabelSet, checked_labels, is_set
from bertcnn.errors import LabelError
from bertcnn.evaluation import describe_unknown
from bertcnn.inference import Predictor
from bertcnn.progress import Progress
from bertcnn.text import check_texts
from bertcnn.training.examples import has_no_label


def accuracy(
    predictor: Predictor,
    texts: Sequence[str],
    labels: Sequence[Any],
    weights: Sequence[float] | None = None,
    *,
    kind: str,
    progress: Progress,
) -> float:
    """The share of texts that are right: the one label, or exactly the set of labels.

    Rows without a label do not count. Unknown labels count as wrong and are reported. `kind` is
    NumPy's type letter of the model's labels: "b" for booleans, "i" or "u" for integers.

    Raises:
        LabelError: no row has a label, or texts, labels and weights differ in number.
    """
    checked, row_labels = check_texts(texts), checked_labels(labels, several=predictor.multi_label)
    shares = np.ones(len(row_labels)) if weights is None else np.asarray(list(weights), float)
    if not len(checked) == len(row_labels) == len(shares):
        counts = f"{len(checked)} texts, {len(row_labels)} labels and {len(shares)} weights"
        raise LabelError(counts, expected="as many of each", fix="pass those of the same rows")
    rows = [row for row, label in enumerate(row_labels) if not has_no_label(label)]
    if not rows:
        raise LabelError("0 rows with a label", expected="at least 1", fix="pass labelled rows")
    known_labels = KnownLabels(predictor.labels)
    actual = [_names(row_labels[row], kind, known_labels) for row in rows]
    unknown = describe_unknown(predictor.labels, actual)
    if unknown:
        progress.note(unknown)
    predicted = predictor.predict([checked[row] for row in rows])
    right = [
        set(own) == (set(answer) if is_set(answer) else {answer})
        for own, answer in zip(actual, predicted, strict=True)
    ]
    return float(np.average(right, weights=shares[rows]))


def _names(label: Any, kind: str, known: KnownLabels) -> LabelSet:  # noqa: ANN401 - a checked label
    """The model's names for a row's labels; 1 and True are the same label, as are 0 and False."""
    if kind == "b" and label in (0, 1):
        label = bool(label)
    elif kind in "iu" and isinstance(label, bool | np.bool_):
        label = int(label)
    names = label if is_set(label) else [label]
    return tuple(sorted({known.spelled(str(name)) for name in names}))
