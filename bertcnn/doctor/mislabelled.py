"""Rows whose label is probably wrong, and pairs of labels that overlap."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.out_of_fold import OutOfFold
from bertcnn.doctor.report import Example, Finding, named, shortened
from bertcnn.wording import count, percent

_EXAMPLES = 6
# share of the rows of two labels that a model which has not seen them gives to the other one
_OVERLAP = 0.1
_FEWEST_MIXED = 5


def label_errors(judged: OutOfFold) -> np.ndarray:
    """Places in `judged` whose label is probably wrong, the most suspicious first.

    How many there are is estimated by confident learning (Northcutt, Jiang and Chuang 2021, section
    3.1, by cleanlab); which ones, by the probability of the given label. The model must prefer
    another label.
    """
    from cleanlab.filter import find_label_issues

    issues = find_label_issues(
        judged.labels, judged.probabilities, filter_by="low_self_confidence", n_jobs=1
    )
    places = np.flatnonzero(issues & (judged.probabilities.argmax(axis=1) != judged.labels))
    return places[np.argsort(given_probability(judged)[places], kind="stable")]


def given_probability(judged: OutOfFold) -> np.ndarray:
    """The probability of each row's own label, float64 [judged]."""
    return judged.probabilities[np.arange(len(judged.rows)), judged.labels]


def check_label_errors(
    dataset: LabelledDataset, judged: OutOfFold, errors: np.ndarray
) -> tuple[list[Finding], dict[int, str]]:
    """The finding, and a better label for each row of it."""
    if not len(errors):
        return [], {}
    best = judged.probabilities.argmax(axis=1)
    probabilities = given_probability(judged)
    affected: dict[int, str] = {}
    suggestions: dict[int, str] = {}
    examples: list[Example] = []
    for place in errors.tolist():
        row, better = int(judged.rows[place]), judged.names[best[place]]
        given = judged.names[judged.labels[place]]
        share = judged.probabilities[place, best[place]]
        suggestions[row] = better
        affected[row] = (
            f"label probably wrong: {named(better)} has {percent(share)}, this one"
            f" {percent(probabilities[place])}"
        )
        if len(examples) < _EXAMPLES:
            examples.append(
                Example(
                    dataset.lines[row],
                    f"{named(given)}, rather {named(better)} ({percent(share)})",
                    shortened(dataset.texts[row]),
                )
            )
    moves = Counter(
        (judged.names[judged.labels[place]], judged.names[best[place]]) for place in errors.tolist()
    )
    return [
        Finding(
            "label_errors",
            "problem",
            f"{count(len(errors), 'label')} of {len(judged.rows):,}"
            f" ({percent(len(errors) / len(judged.rows))}) probably wrong",
            "Read them, the most suspicious first; --fix writes them down with a suggestion each."
            " Not every one is an error.",
            affected,
            examples,
            {
                "judged": len(judged.rows),
                "moves": [
                    [given, better, number] for (given, better), number in moves.most_common(10)
                ],
            },
        )
    ], suggestions


def check_overlap(dataset: LabelledDataset, judged: OutOfFold, errors: np.ndarray) -> list[Finding]:
    """Pairs of labels confused in many rows, rows with a wrong label left out."""
    right = np.ones(len(judged.rows), np.bool_)
    right[errors] = False
    best = judged.probabilities.argmax(axis=1)
    sizes = np.bincount(judged.labels[right], minlength=len(judged.names))
    mixed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place in np.flatnonzero(right & (best != judged.labels)).tolist():
        one, two = sorted((int(judged.labels[place]), int(best[place])))
        mixed[one, two].append(place)
    pairs = [
        (len(places) / max(1, sizes[one] + sizes[two]), one, two, places)
        for (one, two), places in mixed.items()
        if len(places) >= max(_FEWEST_MIXED, _OVERLAP * (sizes[one] + sizes[two]))
    ]
    if not pairs:
        return []
    pairs.sort(key=lambda pair: (-pair[0], pair[1:3]))
    examples = []
    for share, one, two, places in pairs[:_EXAMPLES]:
        row = int(judged.rows[places[0]])
        says = (
            f"{named(judged.names[one])} and {named(judged.names[two])}: {percent(share)} of their"
            f" {sizes[one] + sizes[two]} rows"
        )
        examples.append(Example(dataset.lines[row], says, shortened(dataset.texts[row], 100)))
    return [
        Finding(
            "overlapping_labels",
            "look",
            f"{count(len(pairs), 'pair')} of labels that a model which has not seen the rows"
            " mixes up",
            "Merge such a pair, or write down what divides it and go through its rows.",
            examples=examples,
            figures={
                "pairs": [
                    {
                        "labels": [judged.names[one], judged.names[two]],
                        "mixed_up": len(places),
                        "share": round(float(share), 4),
                    }
                    for share, one, two, places in pairs
                ]
            },
        )
    ]
