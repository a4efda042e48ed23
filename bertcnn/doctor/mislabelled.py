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


def no_information(predictions: OutOfFold, groups: np.ndarray) -> NoInformation:
    """Compare held-out answers with the best constant answer.

    `groups` are int [rows], equal for near duplicates, which count as one row.
    """
    shares = np.bincount(predictions.labels, minlength=len(predictions.names)) / len(
        predictions.labels
    )
    return against_constant(
        predictions.names,
        predictions.labels,
        predictions.probabilities.argmax(axis=1),
        fair=fair_answers(predictions.probabilities, shares),
        groups=groups,
    )


def check_no_information(baseline: NoInformation) -> list[Finding]:
    """The finding that the text does not predict the label."""
    if baseline.verdict != "uninformative":
        return []
    return [
        Finding(
            "no_information",
            "problem",
            baseline.describe(),
            f"The difference is {baseline.describe_gain()}. {baseline.advice} No label is reported"
            " as wrong, since none can be predicted.",
            figures={"no_information": baseline.to_json()},
        )
    ]


def label_errors(predictions: OutOfFold, baseline: NoInformation | None = None) -> np.ndarray:
    """Indices into `predictions` of probably wrong labels, most suspicious first.

    Confident learning (Northcutt, Jiang and Chuang 2021, section 3.1, by cleanlab) estimates their
    number; the probability of the given label ranks them. The model must prefer another label. With
    a `baseline`, other labels need a confidence where answers gain enough on the constant one, and
    inseparable labels do not count as errors; by default every answer counts.
    """
    from cleanlab.filter import find_label_issues

    issues = find_label_issues(
        predictions.labels, predictions.probabilities, filter_by="low_self_confidence", n_jobs=1
    )
    best = predictions.probabilities.argmax(axis=1)
    issues &= best != predictions.labels
    if baseline is not None:
        issues &= predictions.probabilities.max(axis=1) >= _least_confidence(
            predictions, baseline.rate
        )
        for pair in baseline.inseparable:
            one, other = (predictions.names.index(name) for name in pair)
            issues &= ~((predictions.labels == one) & (best == other))
            issues &= ~((predictions.labels == other) & (best == one))
    indices = np.flatnonzero(issues)
    return indices[np.argsort(self_confidence(predictions)[indices], kind="stable")]


def _least_confidence(predictions: OutOfFold, rate: float) -> float:
    """The lowest confidence above which answers gain enough on a constant answer."""
    confidence = predictions.probabilities.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    right = (predictions.probabilities.argmax(axis=1) == predictions.labels)[order]
    shares = np.cumsum(right) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(shares >= rate + _ENOUGH_GAIN * (1 - rate))
    return float(confidence[order][enough[-1]]) if len(enough) else np.inf


def self_confidence(predictions: OutOfFold) -> np.ndarray:
    """The probability of each row's own label, float64 [rows]."""
    return predictions.probabilities[np.arange(len(predictions.rows)), predictions.labels]


def check_label_errors(
    dataset: LabelledDataset, predictions: OutOfFold, errors: np.ndarray
) -> tuple[list[Finding], dict[int, str]]:
    """The finding, and a suggested label for each of its rows."""
    if not len(errors):
        return [], {}
    best = predictions.probabilities.argmax(axis=1)
    probabilities = self_confidence(predictions)
    affected: dict[int, str] = {}
    suggestions: dict[int, str] = {}
    examples: list[Example] = []
    for index in errors.tolist():
        row, better = int(predictions.rows[index]), predictions.names[best[index]]
        label = predictions.names[predictions.labels[index]]
        share = predictions.probabilities[index, best[index]]
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
        (predictions.names[predictions.labels[index]], predictions.names[best[index]])
        for index in errors.tolist()
    )
    return [
        Finding(
            "label_errors",
            "problem",
            f"{count(len(errors), 'label')} of {len(predictions.rows):,}"
            f" ({percent(len(errors) / len(predictions.rows))}) probably wrong",
            "Read them, the most suspicious first; --fix writes them down with a suggestion each."
            " Not every one is an error.",
            affected,
            examples,
            {
                "judged": len(predictions.rows),
                "moves": [
                    [label, better, number] for (label, better), number in moves.most_common(10)
                ],
            },
        )
    ], suggestions


def check_overlap(
    dataset: LabelledDataset, predictions: OutOfFold, errors: np.ndarray, baseline: NoInformation
) -> list[Finding]:
    """Pairs of labels confused in many rows, ignoring rows with wrong labels."""
    right = np.ones(len(predictions.rows), np.bool_)
    right[errors] = False
    best = predictions.probabilities.argmax(axis=1)
    sizes = np.bincount(predictions.labels[right], minlength=len(predictions.names))
    mixed: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in np.flatnonzero(right & (best != predictions.labels)).tolist():
        one, two = sorted((int(predictions.labels[index]), int(best[index])))
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
        row = int(predictions.rows[indices[0]])
        pair = (predictions.names[one], predictions.names[two])
        says = (
            f"{named(pair[0])} and {named(pair[1])}: {percent(share)} of their"
            f" {sizes[one] + sizes[two]:,} rows"
            + ("; nothing separates them" if pair in baseline.inseparable else "")
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
                        "labels": [predictions.names[one], predictions.names[two]],
                        "mixed_up": len(indices),
                        "share": round(float(share), 4),
                        "inseparable": (predictions.names[one], predictions.names[two])
                        in baseline.inseparable,
                    }
                    for share, one, two, indices in pairs
                ]
            },
        )
    ]
