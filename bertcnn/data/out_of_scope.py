"""Labels for rows that belong to none of the other labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bertcnn.data.label_sets import AUTO, NO
from bertcnn.errors import LabelError, one_line

# names in public data sets and ticket systems
_NAMES: Final = frozenset(
    (
        "junk",
        "junk mail",
        "none of the above",
        "none of these",
        "not applicable",
        "off topic",
        "offtopic",
        "oos",
        "out of domain",
        "out of scope",
        "spam",
    )
)
_FEWEST_OTHERS = 2


def find_labels(labels: Iterable[str], label: str = AUTO) -> tuple[str, ...]:
    """The labels of out-of-scope rows, rarely more than one.

    `label` is its name, "no" for none, or "auto", which finds names such as "out of scope", "oos",
    "spam" and "none of these" in any spelling, if at least two other labels remain.

    Raises:
        LabelError: the requested label does not occur, or fewer than two others do.

    Example:
        >>> find_labels(["billing", "Out-of-scope", "wifi"])
        ('Out-of-scope',)
    """
    names = sorted(set(labels))
    if label == NO:
        return ()
    if label == AUTO:
        matches = tuple(name for name in names if _key(name) in _NAMES)
        return matches if len(names) - len(matches) >= _FEWEST_OTHERS else ()
    if label not in names:
        raise LabelError(
            f"no row has the out-of-scope label {one_line(label)}",
            expected=f"one of the labels: {one_line(', '.join(names), 200)}",
            fix="correct it, or name a file of texts that are out of scope",
        )
    if len(names) <= _FEWEST_OTHERS:
        raise LabelError(
            f"{len(names) - 1} labels beside {one_line(label)}, which is out of scope",
            expected="at least two others to choose from",
            fix="add rows with other labels, or take it as a label with 'no'",
        )
    return (label,)


def _key(name: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))
