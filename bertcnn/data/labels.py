"""Refuses labels that cannot be learned from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bertcnn.errors import LabelError, one_line


def check_label_types(labels: Sequence[Any]) -> list[Any]:
    """`labels` as a list, if it is a sequence of strings or of integers; a missing label is none of them.

    Raises:
        LabelError: it is not; the first value that is no label is named.
    """
    if isinstance(labels, str) or not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) != 1:
        raise LabelError(
            f"labels of type {type(labels).__name__}" + (f" and shape {labels.shape}" if hasattr(labels, "shape") else ""),
            expected="one dimension: a label for each text",
            fix="pass a list, or one column such as table['label']",
        )
    given = list(labels)
    for row, label in enumerate(given):
        if not isinstance(label, str | int | np.integer | np.bool_):
            raise LabelError(
                f"{one_line(label)} of type {type(label).__name__} as label number {row + 1}",
                expected="a string or an integer",
                fix="give texts without a label as `unlabelled`, or drop them, and make other labels strings with str(label)",
            )
    check_one_type(given)
    return given


def check_one_type(labels: list[Any]) -> None:
    """Refuse strings among numbers: 1 and "1" would become one label.

    Raises:
        LabelError: there are both.
    """
    kinds = {"string" if isinstance(label, str) else "bool" if isinstance(label, bool | np.bool_) else "integer" for label in labels}
    if len(kinds) > 1:
        raise LabelError(f"labels of the types {' and '.join(sorted(kinds))}", expected="one type", fix="make all of them strings")


def check_labels(labels: Sequence[Any]) -> None:
    """Refuse labels that cannot be learned from.

    Raises:
        LabelError: fewer than two different labels, or a label with a single row.
    """
    counts = Counter(str(label) for label in labels)
    if len(counts) < 2:
        found = f"1 label ({one_line(next(iter(counts)))})" if counts else "0 labelled rows"
        raise LabelError(
            found, expected="at least 2 different labels", fix="add rows of another label, or name another column with --label"
        )
    singles = [name for name, count in counts.items() if count < 2]
    if singles:
        raise LabelError(
            f"{len(singles)} of {len(counts)} labels with a single row: {one_line(', '.join(sorted(singles)))}",
            expected="at least 2 rows of every label, one to learn from and one to check with",
            fix="add rows of these labels, merge them into others (for a file: --min-rows 2), or remove them",
        )
