"""Validation of labels passed to `fit`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bertcnn.data.label_sets import LabelSet, check_sets, is_set
from bertcnn.errors import LabelError, one_line


def checked_labels(labels: Sequence[Any], *, several: bool = False) -> list[Any]:
    """Labels as a list of strings, integers, booleans, or collections of strings.

    As in scikit-learn, a column vector, a one-column table and lists of one are single labels,
    unless `several` is set. A wider table is an indicator matrix of 1 and 0.

    Raises:
        LabelError: a value is not a label; the message names the first.
    """
    entries = _as_list(labels)
    if any(is_set(label) for label in entries):
        if several or not all(is_set(label) and len(label) < 2 for label in entries):
            return list(check_sets(entries))
        # imported late: scoring does not need scikit-learn
        from sklearn.exceptions import DataConversionWarning

        message = (
            "labels as a column of one, or as lists of one, are single labels: pass one dimension"
        )
        warnings.warn(
            f"{message}, such as y.ravel() or table['label']", DataConversionWarning, stacklevel=3
        )
        entries = [next(iter(label), "") for label in entries]
    return check_label_types(entries)


def _as_list(labels: Any) -> list[Any]:  # noqa: ANN401 - lists, arrays, columns, tables
    columns = getattr(labels, "columns", None)
    if columns is not None and hasattr(labels, "to_numpy"):
        values = labels.to_numpy()
        return (
            _one_column(values)
            if values.shape[1] == 1
            else _indicated(values, [str(name) for name in columns])
        )
    if hasattr(labels, "to_pylist"):  # PyArrow, whose items are not strings
        return list(labels.to_pylist())
    axes = getattr(labels, "ndim", 1)
    if isinstance(labels, str) or not isinstance(labels, Iterable) or axes not in (1, 2):
        return check_label_types(labels)  # type: ignore[arg-type]
    if (
        isinstance(labels, np.ndarray)
        and axes == 2
        and labels.shape[1] > 1
        and labels.dtype.kind in "biuf"
    ):
        raise LabelError(
            f"labels of shape {labels.shape} and type {labels.dtype}",
            expected="a label for each text, or a list of the names of its labels",
            fix="give the names, or a table whose columns are named after the labels",
        )
    return _one_column(labels) if axes == 2 and labels.shape[1] == 1 else list(labels)  # type: ignore[attr-defined]


def _one_column(values: Any) -> list[Any]:  # noqa: ANN401 - an array of any library
    """A column vector as lists of one; a column of lists as these lists."""
    return [value if is_set(value) else [value] for value in np.asarray(values, object)[:, 0]]


def _indicated(values: np.ndarray, names: list[str]) -> list[LabelSet]:
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(values.shape, np.nan)
    if not np.isin(numbers, (0, 1)).all():
        raise LabelError(
            f"labels in a table with the columns {one_line(', '.join(names), 200)}",
            expected="one column, or columns of 1 and 0, one for each label",
            fix="pass one column, such as table['label']",
        )
    return [
        tuple(sorted(name for name, indicator in zip(names, row, strict=True) if indicator))
        for row in numbers
    ]


def check_label_types(labels: Sequence[Any]) -> list[Any]:
    """`labels` as a list of strings or of integers; missing labels are rejected.

    Raises:
        LabelError: a value is not a label; the message names the first.
    """
    if (
        isinstance(labels, str)
        or not isinstance(labels, Iterable)
        or getattr(labels, "ndim", 1) != 1
    ):
        raise LabelError(
            f"labels of type {type(labels).__name__}"
            + (f" and shape {labels.shape}" if hasattr(labels, "shape") else ""),
            expected="one dimension: a label for each text",
            fix="pass a list, or one column such as table['label']",
        )
    entries = list(labels)
    if not any(isinstance(label, str) for label in entries):
        entries = [int(label) if _is_whole(label) else label for label in entries]
    for row, label in enumerate(entries):
        if not isinstance(label, str | int | np.integer | np.bool_):
            raise LabelError(
                f"{one_line(label)} of type {type(label).__name__} as label number {row + 1}",
                expected="a string or an integer",
                fix=(
                    "give texts without a label as `unlabelled`, or drop them, and make other"
                    " labels strings with str(label)"
                ),
            )
    check_one_type(entries)
    return entries


def _is_whole(label: object) -> bool:
    """Whether a label is a whole float, as pandas stores integers in columns with gaps."""
    return (
        isinstance(label, float | np.floating)
        and bool(np.isfinite(label))
        and float(label).is_integer()
    )


def check_one_type(labels: list[Any]) -> None:
    """Raises LabelError for a mix of strings and numbers: 1 and "1" would become one label."""
    kinds = {
        (
            "string"
            if isinstance(label, str)
            else "bool"
            if isinstance(label, bool | np.bool_)
            else "integer"
        )
        for label in labels
    }
    if len(kinds) > 1:
        raise LabelError(
            f"labels of the types {' and '.join(sorted(kinds))}",
            expected="one type",
            fix="make all of them strings",
        )


def check_labels(labels: Sequence[Any]) -> None:
    """Raises LabelError for fewer than two different labels, or a label with a single row."""
    counts = Counter(str(label) for label in labels)
    if len(counts) < 2:
        problem = f"1 label ({one_line(next(iter(counts)))})" if counts else "0 labelled rows"
        raise LabelError(
            problem,
            expected="at least 2 different labels",
            fix="add rows of another label, or name another column with --label",
        )
    singles = [name for name, count in counts.items() if count < 2]
    if singles:
        raise LabelError(
            f"{len(singles)} of {len(counts)} labels with a single row:"
            f" {one_line(', '.join(sorted(singles)))}",
            expected="at least 2 rows of every label, one to learn from and one to check with",
            fix=(
                "add rows of these labels, merge them into others (for a file: --min-rows 2), or"
                " remove them"
            ),
        )
