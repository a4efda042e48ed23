"""Rows with several labels: cells such as "billing; network", or lists.

Also how to tell them from single labels.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from bertcnn.data.list_cells import bare_list_in_cell, list_in_cell
from bertcnn.errors import LabelError, SettingsError, one_line

LabelSet = tuple[str, ...]  # a row's labels, sorted, each once

# between labels; a comma is part of too many names to be taken for a separator unasked
DETECTED = (";", "|")
AUTO, NO = "auto", "no"
LISTS = "[]"  # cells that are lists
_SHARE = 0.02  # of the labelled rows that have to hold several labels


def choose_separator(cells: Sequence[str], asked: str = AUTO) -> str | None:
    """What stands between the labels of a row, or None if each row has one.

    A separator is found by itself if it stands in a fiftieth of the cells at least and the cells
    are combinations: they do not all have as many parts, they are made of fewer different parts
    than there are different cells, and most joined cells have only parts that occur in other cells
    too. A name that happens to hold a separator is not.

    Cells that are lists have several labels if some have more than one element; lists of one are
    single labels.

    Args:
        cells: the label column, blank where there is no label.
        asked: "auto", "no", or the separator.

    Raises:
        SettingsError: `asked` is blank, or stands in no cell.

    Example:
        >>> choose_separator(["billing", "network", "billing; network", "network"] * 5)
        ';'
        >>> choose_separator(["cards | fees", "loans | rates", "cards | fees"] * 5) is None
        True
    """
    filled = [cell for cell in cells if cell.strip()]
    if asked == NO or not filled:
        return None
    if asked == LISTS and any(bare_list_in_cell(cell) is not None for cell in filled):
        return LISTS
    if asked != AUTO:
        if not asked.strip():
            raise SettingsError(
                "a blank separator of labels",
                expected="a character, 'auto' or 'no'",
                fix="give for example ';'",
            )
        if not any(asked in cell for cell in filled):
            raise SettingsError(
                f"{asked!r} between the labels of a row",
                expected="a separator that stands in the label column",
                fix=f"correct it; the column holds for example {one_line(filled[0], 60)}",
            )
        return asked
    lists = [bare_list_in_cell(cell) for cell in filled]
    if None not in lists:
        return LISTS if any(len(set(found or ())) > 1 for found in lists) else None
    found = next((separator for separator in DETECTED if _combined(filled, separator)), None)
    several = sum(
        len(list_in_cell(cell) or ()) > 1
        for cell, own in zip(filled, lists, strict=True)
        if own is not None
    )
    return LISTS if found is None and several >= max(2, _SHARE * len(filled)) else found


def _combined(cells: list[str], separator: str) -> bool:
    """Whether the cells combine parts."""
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
    """The labels of one cell, sorted, each once; none of a blank one.

    A list is one whatever stands between labels elsewhere.

    Example:
        >>> split_cell("network; billing ;network", ";")
        ('billing', 'network')
    """
    parts = bare_list_in_cell(cell) if separator == LISTS else list_in_cell(cell)
    if parts is None:
        parts = [cell] if separator == LISTS else cell.split(separator)
    return tuple(sorted({part.strip() for part in parts if part.strip()}))


def names_in(cell: str, separator: str | None) -> LabelSet:
    """The labels in a cell of the label column: several, or one without a separator."""
    if separator is None:
        return (cell,) if cell.strip() else ()
    return split_cell(cell, separator)


def labels_of_sets(sets: Sequence[LabelSet], separator: str | None) -> list[str] | list[LabelSet]:
    """Labels as `fit` takes them: all of each row, or without a separator each row's one.

    Example:
        >>> labels_of_sets([("billing",), ()], None), labels_of_sets([("billing",), ()], ";")
        (['billing', ''], [('billing',), ()])
    """
    return list(sets) if separator is not None else ["".join(names) for names in sets]


def join_labels(labels: Iterable[str], separator: str) -> str:
    """Labels as they are written into one cell.

    Example:
        >>> join_labels(["billing", "network"], ";")
        'billing; network'
    """
    if separator == LISTS:
        return json.dumps([*labels], ensure_ascii=False)
    return between(separator).join(labels)


def between(separator: str) -> str:
    """What stands between labels in one string.

    Of labels that are JSON lists in files, a semicolon and a space.

    Example:
        >>> between("|"), between(",")
        ('|', ', ')
    """
    return (
        separator if separator in ("|", "\n") else "; " if separator == LISTS else f"{separator} "
    )


def is_set(label: object) -> bool:
    """Whether a label that was passed to `fit` is a collection of labels."""
    return isinstance(label, Collection) and not isinstance(label, str | bytes | Mapping)


def check_sets(labels: Iterable[object]) -> list[LabelSet]:
    """What was passed as collections of labels, sorted, each label once.

    Raises:
        LabelError: one of them is no collection of strings; the first is named.
    """
    found: list[LabelSet] = []
    for row, given in enumerate(labels):
        if (
            not isinstance(given, Collection)
            or not is_set(given)
            or not all(isinstance(label, str) for label in given)
        ):
            raise LabelError(
                f"{one_line(given)} of type {type(given).__name__} as label number {row + 1}",
                expected="a list of strings, as the other rows have",
                fix=(
                    "give each row a list of its labels, also if it is only one; an empty one is a"
                    " row without a label"
                ),
            )
        found.append(tuple(sorted({str(label).strip() for label in given} - {""})))
    return found


def separator_for(labels: Iterable[str]) -> str:
    """A separator that none of the labels holds.

    Raises:
        LabelError: the labels hold all of them.
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
    """The different labels in alphabetical order, and where each row's is among them, int64 [rows].

    As `np.unique` with the inverse, which would take as much memory for each row as the longest
    label.

    Example:
        >>> names, places = numbered(["network", "billing", "network"])
        >>> names, places.tolist()
        (['billing', 'network'], [1, 0, 1])
    """
    names = sorted(set(labels))
    place = {name: place for place, name in enumerate(names)}
    return names, np.array([place[label] for label in labels], np.int64)


def rarest(sets: Sequence[LabelSet]) -> list[str]:
    """Each row's label with the fewest rows, by which rows are divided.

    "" for a row without a label.
    """
    counts = Counter(label for labels in sets for label in labels)
    return [
        min(labels, key=lambda label: (counts[label], label)) if labels else "" for labels in sets
    ]


def indicators(sets: Sequence[LabelSet], labels: Sequence[str]) -> np.ndarray:
    """Which row has which label, bool [rows, C]; labels that are not among `labels` are left out.

    Example:
        >>> indicators([("a",), ("a", "b")], ["a", "b"]).astype(int).tolist()
        [[1, 0], [1, 1]]
    """
    places = {label: place for place, label in enumerate(labels)}
    found = np.zeros((len(sets), len(labels)), bool)
    for row, own in enumerate(sets):
        found[row, [places[label] for label in own if label in places]] = True
    return found
