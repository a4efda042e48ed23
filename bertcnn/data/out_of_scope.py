"""Labels that say of a row that it belongs to none of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bertcnn.errors import LabelError, one_line

AUTO: Final = "auto"
NO: Final = "no"

# as labels are written in public data sets and in ticket systems
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
_FEWEST_OTHERS = 2  # labels beside it


def find_labels(labels: Iterable[str], asked: str = AUTO) -> tuple[str, ...]:
    """The labels of rows that are out of scope, hardly ever more than one.

    Args:
        labels: all that rows have.
        asked: a label; "auto" finds some by their names, where two others are left: "out of
            scope", "oos", "spam", "none of these" and the like, in any spelling; "no" takes every
            label as it is.

    Raises:
        LabelError: the label that was asked for is not there, or fewer than two others are.

    Example:
        >>> find_labels(["billing", "Out-of-scope", "wifi"])
        ('Out-of-scope',)
    """
    names = sorted(set(labels))
    if asked == NO:
        return ()
    if asked == AUTO:
        found = tuple(name for name in names if _key(name) in _NAMES)
        return found if len(names) - len(found) >= _FEWEST_OTHERS else ()
    if asked not in names:
        raise LabelError(
            f"no row has the out-of-scope label {one_line(asked)}",
            expected=f"one of the labels: {one_line(', '.join(names), 200)}",
            fix="correct it, or name a file of texts that are out of scope",
        )
    if len(names) <= _FEWEST_OTHERS:
        raise LabelError(
            f"{len(names) - 1} labels beside {one_line(asked)}, which is out of scope",
            expected="at least two others to choose from",
            fix="add rows with other labels, or take it as a label with 'no'",
        )
    return (asked,)


def _key(name: str) -> str:
    """A name in lower case, with single blanks for all that is no letter or digit."""
    return " ".join(re.findall(r"[^\W_]+", name.casefold()))
