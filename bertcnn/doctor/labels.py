"""Checks of labels: missing, spelled differently, or rare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bertcnn.data import similar_names
from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Example, Finding, examples_of, named
from bertcnn.wording import count, percent

_EXAMPLES = 4
_RARE = 5  # rows: the number of folds for finding label errors


def check_missing(dataset: LabelledDataset) -> list[Finding]:
    """Texts without a label."""
    labels = dataset.labels or []
    rows = {row: "no label" for row, name in enumerate(labels) if not name and dataset.texts[row]}
    if not rows:
        return []
    return [
        Finding(
            "missing_labels",
            "look",
            f"{count(len(rows), 'text')} ({percent(len(rows) / len(labels))}) without a label",
            "Label them or remove them; where rows have one label each, few-shot"
            " pseudo-labels them from similar rows; other recipes ignore them.",
            rows,
            examples_of(rows, dataset.lines, dataset.texts),
        )
    ]


def check_spellings(dataset: LabelledDataset, variants: Mapping[str, str]) -> list[Finding]:
    """Labels that differ only in case, spaces, hyphens and underscores.

    `variants` are from `spellings`.
    """
    labels = dataset.labels or []
    rows = {
        row: f"label is spelled {named(variants[name])} elsewhere"
        for row, cell in enumerate(labels)
        for name in dataset.names_in(cell)
        if name in variants
    }
    if not rows:
        return []
    counts = Counter(name for cell in labels for name in dataset.names_in(cell))
    return [
        Finding(
            "label_spellings",
            "problem",
            f"{count(len(variants), 'label')} that"
            f" {'is another' if len(variants) == 1 else 'are others'} in a different spelling, in"
            f" {count(len(rows), 'row')}",
            "A model would take them for different labels. Give each one spelling; --fix suggests"
            " the commonest.",
            rows,
            [
                Example(
                    None, f"{named(name)} {counts[name]:,}x is {named(usual)} {counts[usual]:,}x"
                )
                for name, usual in sorted(variants.items(), key=lambda pair: -counts[pair[0]])[
                    :_EXAMPLES
                ]
            ],
            {"spellings": dict(variants)},
        )
    ]


def check_similar_names(dataset: LabelledDataset) -> list[Finding]:
    """Labels whose names differ in one letter, or as singular and plural."""
    counts = Counter(name for cell in dataset.labels or [] for name in dataset.names_in(cell))
    pairs = similar_names(counts)
    if not pairs:
        return []
    return [
        Finding(
            "similar_names",
            "look",
            f"{count(len(pairs), 'pair')} of labels with nearly the same name",
            "If both mean the same, choose one.",
            examples=[
                Example(None, f"{named(one)} {counts[one]:,}x and {named(two)} {counts[two]:,}x")
                for one, two in pairs[:_EXAMPLES]
            ],
            figures={"pairs": [list(pair) for pair in pairs]},
        )
    ]


def check_rare(dataset: LabelledDataset) -> list[Finding]:
    """Labels with too few rows to learn from."""
    labels = dataset.labels or []
    counts = Counter(
        name
        for cell, text in zip(labels, dataset.texts, strict=True)
        if text
        for name in dataset.names_in(cell)
    )
    rare = {
        name: number
        for name, number in sorted(counts.items(), key=lambda item: (item[1], item[0]))
        if number < _RARE
    }
    if not rare:
        return []
    rows = {
        row: f"rare label ({count(rare[name], 'row')})"
        for row, cell in enumerate(labels)
        for name in dataset.names_in(cell)
        if name in rare and dataset.texts[row]
    }
    single = sum(number == 1 for number in rare.values())
    return [
        Finding(
            "rare_labels",
            "problem" if single else "look",
            f"{count(len(rare), 'label')} of {len(counts)} with fewer than {_RARE} rows"
            + (f", {single} with a single one: `bertcnn train` refuses those" if single else ""),
            "Label more of these, merge them into another label, or remove them.",
            rows,
            [
                Example(None, f"{named(name)}: {count(number, 'row')}")
                for name, number in list(rare.items())[:_EXAMPLES]
            ],
            {"labels": rare},
        )
    ]
