"""Finds rows with probably wrong labels, and pairs of overlapping labels."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.out_of_fold import OutOfFold
from bertcnn.doctor.report import Example, Finding, named, shortened
from bertcnn.evaluation import NoInformation, against_constant, fair_answers
from bertcnn.wording import count, percent

_EXAMPLES = 6
# share of the rows of two labels that held-out predictions assign to the other label
_OVERLAP = 0.1
_FEWEST_MIXED = 5
# share of the possible gain over a constant answer; at this value, nine in ten of the listed rows
# of the sample tickets are really flipped with 40% of all labels flipped, and with up to 20% no
# row is lost
_ENOUGH_GAIN = 0.3


def no_information(judged: OutOfFold, groups: np.ndarray) -> NoInformation:
    """Compare held-out answers with the best constant answer.

    `groups` are int [judged], equal for near duplicates, which count as one row.
    """
    shares = np.bincount(judged.labels, minlength=len(judged.names)) / len(judged.labels)
    return against_constant(
        judged.names,
        judged.labels,
        judged.probabilities.argmax(axis=1),
        fair=fair_answers(judged.probabilities, shares),
        groups=groups,
    )


def check_no_information(known: NoInformation) -> list[Finding]:
    """The finding that the text does not predict the label."""
    if known.verdict != "uninformative":
        return []
    return [
        Finding(
            "no_information",
            "problem",
            known.describe(),
            f"The difference is {known.describe_gain()}. {known.advice} No label is called wrong"
            " here, since none can be predicted.",
            figures={"no_information": known.to_json()},
        )
    ]


def label_errors(judged: OutOfFold, known: NoInformation | None = None) -> np.ndarray:
    """Indices into `judged` of probably wrong labels, most suspicious first.

    Confident learning (Northcutt, Jiang and Chuang 2021, section 3.1, by cleanlab) estimates their
    number; the probability of the given label ranks them. The model must prefer another label. With
    `known`, other labels need a confidence where answers gain enough on the constant one, and
    inseparable labels do not count as errors; by default every answer counts.
    """
    from cleanlab.filter import find_label_issues

    issues = find_label_issues(
        judged.labels, judged.probabilities, filter_by="low_self_confidence", n_jobs=1
    )
    best = judged.probabilities.argmax(axis=1)
    issues &= best != judged.labels
    if known is not None:
        issues &= judged.probabilities.max(axis=1) >= _least_confidence(judged, known.rate)
        for pair in known.inseparable:
            one, other = (judged.names.index(name) for name in pair)
            issues &= ~((judged.labels == one) & (best == other))
            issues &= ~((judged.labels == other) & (best == one))
    indices = np.flatnonzero(issues)
    return indices[np.argsort(given_probability(judged)[indices], kind="stable")]


def _least_confidence(predictions: OutOfFold, rate: float) -> float:
    """The lowest confidence above which answers gain enough on a constant answer."""
    confidence = predictions.probabilities.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    right = (predictions.probabilities.argmax(axis=1) == predictions.labels)[order]
    shares = np.cumsum(right) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(shares >= rate + _ENOUGH_GAIN * (1 - rate))
    return float(confidence[order][enough[-1]]) if len(enough) else np.inf


def given_probability(judged: OutOfFold) -> np.ndarray:
    """The probability of each row's given label, float64 [judged]."""
    return judged.probabilities[np.arange(len(judged.rows)), judged.labels]


def check_label_errors(
    dataset: LabelledDataset, judged: OutOfFold, errors: np.ndarray
) -> tuple[list[Finding], dict[int, str]]:
    """The finding, and a suggested label for each of its rows."""
    if not len(errors):
        return [], {}
    best = judged.probabilities.argmax(axis=1)
    probabilities = given_probability(judged)
    affected: dict[int, str] = {}
    suggestions: dict[int, str] = {}
    examples: list[Example] = []
    for index in errors.tolist():
        row, better = int(judged.rows[index]), judged.names[best[index]]
        label = judged.names[judged.labels[index]]
        share = judged.probabilities[index, best[index]]
        suggestions[row] = better
        affected[row] = (
            f"label probably wrong: {named(better)} has {percent(share)}, this one"
            f" {percent(probabilities[index])}"
        )
        if len(examples) < _EXAMPLES:
            examples.append(
                Example(
                    dataset.lines[row],
                    f"{named(label)}, rather {named(better)} ({percent(share)})",
                    shortened(dataset.texts[row]),
                )
            )
    moves = Counter(
        (judged.names[judged.labels[index]], judged.names[best[index]]) for index in errors.tolist()
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
                    [label, better, number] for (label, better), number in moves.most_common(10)
                ],
            },
        )
    ], suggestions


def check_overlap(
    dataset: LabelledDataset, judged: OutOfFold, errors: np.ndarray, known: NoInformation
) -> list[Finding]:
    """Pairs of labels confused in many rows, ignoring rows with wrong labels."""
    right = np.ones(len(judged.rows), np.bool_)
    right[errors] = False
    best = judged.probabilities.argmax(axis=1)
    sizes = np.bincount(judged.labels[right], minlength=len(judged.names))
    mixed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in np.flatnonzero(right & (best != judged.labels)).tolist():
        one, two = sorted((int(judged.labels[index]), int(best[index])))
        mixed[one, two].append(index)
    pairs = [
        (len(indices) / max(1, sizes[one] + sizes[two]), one, two, indices)
        for (one, two), indices in mixed.items()
        if len(indices) >= max(_FEWEST_MIXED, _OVERLAP * (sizes[one] + sizes[two]))
    ]
    if not pairs:
        return []
    pairs.sort(key=lambda pair: (-pair[0], pair[1:3]))
    examples = []
    for share, one, two, indices in pairs[:_EXAMPLES]:
        row = int(judged.rows[indices[0]])
        pair = (judged.names[one], judged.names[two])
        says = (
            f"{named(pair[0])} and {named(pair[1])}: {percent(share)} of their"
            f" {sizes[one] + sizes[two]:,} rows"
            + ("; nothing separates them" if pair in known.inseparable else "")
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
                        "mixed_up": len(indices),
                        "share": round(float(share), 4),
                        "inseparable": (judged.names[one], judged.names[two]) in known.inseparable,
                    }
                    for share, one, two, indices in pairs
                ]
            },
        )
    ]
