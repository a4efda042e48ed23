"""Rows with several labels: cells such as "billing; network", or lists."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from bertcnn.data.list_cells import bare_list_in_cell, list_in_cell
from bertcnn.errors import LabelError, SettingsError, one_line

LabelSet = tuple[str, ...]  # sorted and unique

# A comma is part of too many names to be detected as a separator.
DETECTED = (";", "|")
AUTO: Final = "auto"  # of options: decided from the labels
NO: Final = "no"
LISTS = "[]"
_SHARE = 0.02  # of the labelled rows, which must have several labels


def choose_separator(cells: Sequence[str], requested: str = AUTO) -> str | None:
    """The separator of a row's labels, or None if each row has one label.

    `requested` is "no", the separator, or "auto". "auto" detects a separator if it occurs in at
    least 2% of the cells and the cells are combinations of labels: the number of parts varies,
    there are fewer distinct parts than distinct cells, and most joined cells only have parts that
    also occur in other cells. Lists count as several labels if any has more than one element.

    Raises:
        SettingsError: `requested` is blank, or occurs in no cell.

    Example:
        >>> choose_separator(["billing", "network", "billing; network", "network"] * 5)
        ';'
        >>> choose_separator(["cards | fees", "loans | rates", "cards | fees"] * 5) is None
        True
    """
    filled = [cell for cell in cells if cell.strip()]
    if requested == NO or not filled:
        return None
    if requested == LISTS and any(bare_list_in_cell(cell) is not None for cell in filled):
        return LISTS
    if requested != AUTO:
        if not requested.strip():
            raise SettingsError(
                "a blank separator of labels",
                expected="a character, 'auto' or 'no'",
                fix="give for example ';'",
            )
        if not any(requested in cell for cell in filled):
            raise SettingsError(
                f"{requested!r} between the labels of a row",
                expected="a separator that stands in the label column",
                fix=f"correct it; the column holds for example {one_line(filled[0], 60)}",
            )
        return requested
    lists = [bare_list_in_cell(cell) for cell in filled]
    if None not in lists:
        return LISTS if any(len(set(items or ())) > 1 for items in lists) else None
    detected = next((separator for separator in DETECTED if _combined(filled, separator)), None)
    several = sum(
        len(list_in_cell(cell) or ()) > 1
        for cell, items in zip(filled, lists, strict=True)
        if items is not None
    )
    return LISTS if detected is None and several >= max(2, _SHARE * len(filled)) else detected


def _combined(cells: list[str], separator: str) -> bool:
    joined = [cell for cell in cells if separator in cell and len(split_cell(cell, separator)) > 1]
    if len(joined) < max(2, _SHARE * len(cells)):
        return False
    inside: dict[str, set[LabelSet]] = defaultdict(set)
    for cell in set(cells):
        labels = split_cell(cell, separator)
        for label in labels:
            inside[label].add(labels)
    different = {split_cell(cell, separator) for cell in cells}
    if len(set(map(len, different))) < 2:  # always two, as in "EU|billing": the levels of one label
        return False
    reused = sum(
        all(len(inside[label]) > 1 for label in split_cell(cell, separator)) for cell in joined
    )
    return len(inside) < len(different) and 2 * reused > len(joined)


def split_cell(cell: str, separator: str) -> LabelSet:
    """The labels of one cell or list, sorted and unique; none for a blank cell.

    Example:
        >>> split_cell("network; billing ;network", ";")
        ('billing', 'network')
    """
    parts = bare_list_in_cell(cell) if separator == LISTS else list_in_cell(cell)
    if parts is None:
        parts = [cell] if separator == LISTS else cell.split(separator)
    return tuple(sorted({part.strip() for part in parts if part.strip()}))


def names_in(cell: str, separator: str | None) -> LabelSet:
    """The labels in a cell; without a separator, the whole cell is one label."""
    if separator is None:
        return (cell,) if cell.strip() else ()
    return split_cell(cell, separator)


def labels_of_sets(sets: Sequence[LabelSet], separator: str | None) -> list[str] | list[LabelSet]:
    """Labels in the form that `fit` accepts: sets, or without a separator one string a row.

    Example:
        >>> labels_of_sets([("billing",), ()], None), labels_of_sets([("billing",), ()], ";")
        (['billing', ''], [('billing',), ()])
    """
    return list(sets) if separator is not None else ["".join(names) for names in sets]


def join_labels(labels: Iterable[str], separator: str) -> str:
    """Joins labels into one cell.

    Example:
        >>> join_labels(["billing", "network"], ";")
        'billing; network'
    """
    if separator == LISTS:
        return json.dumps([*labels], ensure_ascii=False)
    return between(separator).join(labels)


def between(separator: str) -> str:
    """The text between labels in one string; "; " if the labels are lists in files.

    Example:
        >>> between("|"), between(",")
        ('|', ', ')
    """
    return (
        separator if separator in ("|", "\n") else "; " if separator == LISTS else f"{separator} "
    )


def is_set(label: object) -> bool:
    """Whether a label passed to `fit` is a collection of labels."""
    return isinstance(label, Collection) and not isinstance(label, str | bytes | Mapping)


def check_sets(labels: Iterable[object]) -> list[LabelSet]:
    """Validates collections of labels; returns them sorted and unique.

    Raises:
        LabelError: an entry is not a collection of strings; the message names the first.
    """
    sets: list[LabelSet] = []
    for row, entry in enumerate(labels):
        if (
            not isinstance(entry, Collection)
            or not is_set(entry)
            or not all(isinstance(label, str) for label in entry)
        ):
            raise LabelError(
                f"{one_line(entry)} of type {type(entry).__name__} as label number {row + 1}",
                expected="a list of strings, as the other rows have",
                fix=(
                    "give each row a list of its labels, also if it is only one; an empty one is a"
                    " row without a label"
                ),
            )
        sets.append(tuple(sorted({str(label).strip() for label in entry} - {""})))
    return sets


def separator_for(labels: Iterable[str]) -> str:
    """A separator that occurs in none of the labels.

    Raises:
        LabelError: every separator occurs in a label.
    """
    names = list(labels)
    for separator in (*DETECTED, ",", "\n"):
        if not any(separator in name for name in names):
            return separator
    raise LabelError(
        "labels with all of ; | , and line breaks in them",
        expected="one of these that occurs in no label",
        fix="rename some",
    )


def numbered(labels: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct labels in alphabetical order, and each row's index among them, int64 [rows].

    `np.unique` would need as much memory for each row as for the longest label.

    Example:
        >>> names, indices = numbered(["network", "billing", "network"])
        >>> names, indices.tolist()
        (['billing', 'network'], [1, 0, 1])
    """
    names = sorted(set(labels))
    indices = {name: index for index, name in enumerate(names)}
    return names, np.array([indices[label] for label in labels], np.int64)


def rarest(sets: Sequence[LabelSet]) -> list[str]:
    """Each row's rarest label, for stratified splits; "" for a row without a label."""
    counts = Counter(label for labels in sets for label in labels)
    return [
        min(labels, key=lambda label: (counts[label], label)) if labels else "" for labels in sets
    ]


def indicators(sets: Sequence[LabelSet], labels: Sequence[str]) -> np.ndarray:
    """Which row has which label, bool [rows, C]; unknown labels are ignored.

    Example:
        >>> indicators([("a",), ("a", "b")], ["a", "b"]).astype(int).tolist()
        [[1, 0], [1, 1]]
    """
    columns = {label: column for column, label in enumerate(labels)}
    matrix = np.zeros((len(sets), len(labels)), bool)
    for row, row_labels in enumerate(sets):
        matrix[row, [columns[label] for label in row_labels if label in columns]] = True
    return matrix
