"""Readable label names, and labels with nearly the same name (spelling, one letter, plural)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from bertcnn.values import folded
from bertcnn.wording import count

_FEWEST_LETTERS, _MOST_LETTERS = 4, 100  # of names that may be misspellings of each other
_SHOWN = 4


def label_text(name: str) -> str:
    """A label's name as plain words.

    Example:
        >>> label_text("card_arrival"), label_text("LostCard"), label_text("Billing > Refund")
        ('card arrival', 'Lost Card', 'Billing Refund')
    """
    return " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])|[\s_\-/>|.:]+", " ", name).split())


def spellings(labels: Iterable[str]) -> dict[str, str]:
    """Maps each less common spelling of a label to the commonest; ties go to the alphabet."""
    counts = Counter(name for name in labels if name)
    ways: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        ways[folded(name) or name].append(name)
    return {name: names[0] for names in ways.values() for name in names[1:]}


def look_alikes(labels: Iterable[str]) -> list[str]:
    """Warnings about labels that may mean the same: other spellings, or nearly equal names.

    Example:
        >>> look_alikes(["hardware", "hardwares", "billing"])
        ["1 pair of labels with nearly the same name: 'hardware' 1x and 'hardwares' 1x"]
    """
    counts = Counter(name for name in labels if name.strip())
    remarks, variants, pairs = [], spellings(counts.elements()), similar_names(counts)
    if variants:
        shown = [
            f"{name!r} {counts[name]:,}x beside {usual!r} {counts[usual]:,}x"
            for name, usual in variants.items()
        ]
        kind = (
            "1 label in another spelling"
            if len(shown) == 1
            else f"{len(shown)} labels in other spellings"
        )
        remarks.append(f"{kind}, treated as separate labels: {_few(shown)}")
    if pairs:
        shown = [f"{one!r} {counts[one]:,}x and {two!r} {counts[two]:,}x" for one, two in pairs]
        remarks.append(
            f"{count(len(shown), 'pair')} of labels with nearly the same name: {_few(shown)}"
        )
    return remarks


def _few(shown: list[str]) -> str:
    return "; ".join(shown[:_SHOWN]) + (
        f"; and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    )


def similar_names(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of names that differ in one letter or a plural ending, the commonest first."""
    meeting: dict[str, set[str]] = defaultdict(set)
    for name in counts:
        for form in _forms(folded(name)):
            meeting[form].add(name)
    pairs = {
        (one, two)
        for names in meeting.values()
        for one, two in combinations(sorted(names, key=lambda name: (-counts[name], name)), 2)
        if folded(one) != folded(two) and not _numbered(one, two)
    }
    return sorted(pairs, key=lambda pair: (-counts[pair[1]], pair))


def _forms(plain: str) -> Iterator[str]:
    yield plain
    if _FEWEST_LETTERS <= len(plain) <= _MOST_LETTERS:
        yield from {plain[:index] + plain[index + 1 :] for index in range(len(plain))}
        yield re.sub(r"e?s$", "", plain) + "\0"
    if len(plain) == _FEWEST_LETTERS - 1:
        yield plain + "\0"


def _numbered(one: str, two: str) -> bool:
    """Whether names differ in digits or signs, as "level 1" and "level 2", "rated A+" and "A-"."""
    return _signs(one) != _signs(two)


def _signs(name: str) -> list[str]:
    return [char for char in folded(name) if char.isnumeric() or char in "+-#*"]
