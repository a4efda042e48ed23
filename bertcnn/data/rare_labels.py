"""Merges labels with too few rows into their parent or into one label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bertcnn.data.hierarchy import LEVELS, ancestors, comparisons
from bertcnn.data.label_sets import AUTO, NO
from bertcnn.errors import LabelError, one_line
from bertcnn.wording import count

OTHER = "other"
_NAMED = 5


@dataclass(frozen=True)
class MergedLabels:
    """Labels after merging, one for each row, blank where none was given.

    `merged` maps each rare label to the label it became, and `rows` to its number of rows.
    """

    labels: list[str]
    merged: Mapping[str, str]
    rows: Mapping[str, int]

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The labels of a row after merging, sorted and unique."""
        return tuple(sorted({self.merged.get(name, name) for name in names}))

    def describe(self) -> str:
        """A one-line description of the merges."""
        shown = [
            f"{name} ({self.rows[name]}) into {self.merged[name]}"
            for name in sorted(self.merged, key=lambda name: -self.rows[name])
        ]
        more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
        size = f"{count(len(shown), 'rare label')}, {count(sum(self.rows.values()), 'row')}"
        return f"{size}, merged: {one_line(', '.join(shown[:_NAMED]), 300)}{more}"


def merge_rare(
    labels: Sequence[str], fewest: int, into: str = OTHER, levels: str = LEVELS
) -> MergedLabels:
    """Merges labels with fewer than `fewest` rows; no row is dropped.

    "A > B > C" becomes "A > B", or "A" if that is still rare. A label without a parent, or with
    rare parents only, becomes `into`. Blank labels are ignored. `levels` is the separator of
    levels, "no", or "auto" for " > " outside comparisons such as "Delay > 30 days".

    Raises:
        LabelError: the label `into` is too rare itself.

    Example:
        >>> names = ["a"] * 9 + ["b > x"] * 5 + ["b > y"] * 2 + ["b > z"] * 2
        >>> merge_rare([*names, "c", "d", "e"], 3).merged
        {'b > y': 'b', 'b > z': 'b', 'c': 'other', 'd': 'other', 'e': 'other'}
    """
    rows = Counter(name for name in labels if name.strip())
    counts, becomes = Counter(rows), {}
    compared = comparisons(list(counts)) if levels == AUTO else set()
    separator = LEVELS if levels == AUTO else levels
    above = {
        name: (
            [] if levels == NO else [up for up in ancestors(name, separator) if up not in compared]
        )
        for name in counts
    }
    # deepest first, so that a parent already has all its rare children
    for level in range(max(map(len, above.values()), default=0), -1, -1):
        for name in sorted(
            name
            for name, number in counts.items()
            if number < fewest and len(above[name]) == level and name != into
        ):
            becomes[name] = above[name][-1] if above[name] else into
            counts[becomes[name]] += counts.pop(name)
            above.setdefault(becomes[name], above[name][:-1])
    if 0 < counts[into] < fewest:
        gathered = sorted(name for name in rows if _end(name, becomes) == into)
        raise LabelError(
            f"{counts[into]} rows of all labels with fewer than {fewest} rows together"
            f" ({one_line(', '.join(gathered), 200)})",
            expected=f"at least {fewest}, to be learned as {into!r}",
            fix="ask for fewer rows with --min-rows, add rows of these labels, or rename them",
        )
    merged = {name: _end(name, becomes) for name in sorted(rows) if name in becomes}
    return MergedLabels(
        [merged.get(name, name) for name in labels], merged, {name: rows[name] for name in merged}
    )


def _end(name: str, becomes: Mapping[str, str]) -> str:
    while name in becomes:
        name = becomes[name]
    return name
