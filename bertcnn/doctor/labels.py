"""What the data doctor sees in the labels themselves: missing ones, several spellings of one, rare ones."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from bertcnn.doctor.patient import Patient
from bertcnn.doctor.report import Example, Finding, count, examples_of, named, percent

_EXAMPLES = 4
_RARE = 5  # rows: as many as the folds that label errors are searched with
_FEWEST_LETTERS = 4  # of names that may be misspellings of each other


def plain_name(name: str) -> str:
    """What is left of a label when case, accents' form, spaces, hyphens and underscores do not count.

    Example:
        >>> plain_name(" Card_Arrival ") == plain_name("card arrival")
        True
    """
    return " ".join(re.split(r"[\s_\-]+", unicodedata.normalize("NFKC", name).casefold().strip(" _-\t\r\n")))


def spellings(labels: Iterable[str]) -> dict[str, str]:
    """For each label that is spelled in several ways, its commonest spelling; of two, the first in the alphabet."""
    counts = Counter(name for name in labels if name)
    ways: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        ways[plain_name(name)].append(name)
    return {name: names[0] for names in ways.values() for name in names[1:]}


def check_missing(patient: Patient) -> list[Finding]:
    """Texts without a label."""
    labels = patient.labels or []
    rows = {row: "no label" for row, name in enumerate(labels) if not name and patient.texts[row]}
    if not rows:
        return []
    return [
        Finding(
            "missing_labels",
            "look",
            f"{count(len(rows), 'text')} ({percent(len(rows) / len(labels))}) without a label",
            "Training leaves them out: label them or remove them.",
            rows,
            examples_of(rows, patient.lines, patient.texts),
        )
    ]


def check_spellings(patient: Patient, variants: Mapping[str, str]) -> list[Finding]:
    """Labels that differ in case, spaces, hyphens and underscores only.

    Args:
        patient: the file.
        variants: of `spellings`.
    """
    labels = patient.labels or []
    rows = {row: f"label is spelled {named(variants[name])} elsewhere" for row, name in enumerate(labels) if name in variants}
    if not rows:
        return []
    counts = Counter(labels)
    return [
        Finding(
            "label_spellings",
            "problem",
            f"{count(len(variants), 'label')} in {count(len(rows), 'row')} that are other labels in another spelling",
            "A model would take them for different labels. Give each one spelling; --fix suggests the commonest.",
            rows,
            [
                Example(None, f"{named(name)} {counts[name]:,}x is {named(usual)} {counts[usual]:,}x")
                for name, usual in sorted(variants.items(), key=lambda pair: -counts[pair[0]])[:_EXAMPLES]
            ],
            {"spellings": dict(variants)},
        )
    ]


def check_similar_names(patient: Patient) -> list[Finding]:
    """Labels whose names differ in one letter, or as singular and plural."""
    counts = Counter(name for name in patient.labels or [] if name)
    pairs = _similar_names(counts)
    if not pairs:
        return []
    return [
        Finding(
            "similar_names",
            "look",
            f"{count(len(pairs), 'pair')} of labels with nearly the same name",
            "If both mean the same, choose one.",
            examples=[Example(None, f"{named(one)} {counts[one]:,}x and {named(two)} {counts[two]:,}x") for one, two in pairs[:_EXAMPLES]],
            figures={"pairs": [list(pair) for pair in pairs]},
        )
    ]


def _similar_names(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs that meet with one letter left out of either, or without a plural's ending; the commonest first."""
    meeting: dict[str, set[str]] = defaultdict(set)
    for name in counts:
        for form in _forms(plain_name(name)):
            meeting[form].add(name)
    pairs = {
        (one, two)
        for names in meeting.values()
        for one, two in combinations(sorted(names, key=lambda name: (-counts[name], name)), 2)
        if plain_name(one) != plain_name(two) and not _numbered(one, two)
    }
    return sorted(pairs, key=lambda pair: (-counts[pair[1]], pair))


def _forms(plain: str) -> Iterator[str]:
    yield plain
    if len(plain) >= _FEWEST_LETTERS:
        yield from {plain[:place] + plain[place + 1 :] for place in range(len(plain))}
        yield re.sub(r"e?s$", "", plain) + "\0"
    if len(plain) == _FEWEST_LETTERS - 1:
        yield plain + "\0"


def _numbered(one: str, two: str) -> bool:
    """Whether two names differ in their digits, as "level 1" and "level 2"."""
    return re.findall(r"\d", one) != re.findall(r"\d", two)


def check_rare(patient: Patient) -> list[Finding]:
    """Labels with too few rows to learn from."""
    labels = patient.labels or []
    counts = Counter(name for name, text in zip(labels, patient.texts, strict=True) if name and text)
    rare = {name: number for name, number in sorted(counts.items(), key=lambda item: (item[1], item[0])) if number < _RARE}
    if not rare:
        return []
    rows = {row: f"rare label ({count(rare[name], 'row')})" for row, name in enumerate(labels) if name in rare and patient.texts[row]}
    single = sum(number == 1 for number in rare.values())
    return [
        Finding(
            "rare_labels",
            "problem" if single else "look",
            f"{count(len(rare), 'label')} of {len(counts)} with fewer than {_RARE} rows"
            + (f", {single} with a single one: `bertcnn train` refuses those" if single else ""),
            "Label more of these, merge them into another label, or remove them.",
            rows,
            [Example(None, f"{named(name)}: {count(number, 'row')}") for name, number in list(rare.items())[:_EXAMPLES]],
            {"labels": rare},
        )
    ]
