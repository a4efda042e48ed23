"""Finds wrong or missing labels in rows with several labels, one label at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bertcnn.data import LabelSet, assign_folds, join_labels, rarest
from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.mislabelled import label_errors, no_information, self_confidence
from bertcnn.doctor.out_of_fold import FOLDS, out_of_fold
from bertcnn.doctor.report import Example, Finding, named, shortened
from bertcnn.evaluation import NoInformation
from bertcnn.progress import Progress, Silent
from bertcnn.wording import count, percent

_EXAMPLES = 6
_HAS, _HAS_NOT = "yes", "no"


def examine_sets(
    dataset: LabelledDataset,
    sets: dict[int, LabelSet],
    features: np.ndarray,
    groups: np.ndarray,
    suspicion: np.ndarray,
    progress: Progress,
) -> tuple[list[Finding], dict[int, str]]:
    """Findings and suggestions for wrong or missing labels; fills `suspicion`.

    `sets` has the labels of each row with a text and a label. `features` are float32 [sets, D];
    `groups` int [sets], equal for texts that stay in the same fold. `suspicion`, float [rows],
    receives the highest of each row's labels. `progress` advances by label.
    """
    rows, texts = list(sets), [dataset.texts[row] for row in sets]
    fold_of = assign_folds(groups.tolist(), rarest(list(sets.values())), texts, FOLDS)
    counts = Counter(name for label_set in sets.values() for name in label_set)
    names = [name for name, number in counts.items() if FOLDS <= number <= len(rows) - FOLDS]
    doubts: dict[
        int, list[tuple[float, str, bool]]
    ] = {}  # row -> probability of the other answer, label, whether the row has it
    comparisons: dict[str, NoInformation] = {}
    progress.stage("looking for label errors", len(names), "labels")
    for name in sorted(names):
        predictions = out_of_fold(
            features,
            [_HAS if name in label_set else _HAS_NOT for label_set in sets.values()],
            fold_of,
            Silent(),
        )
        progress.advance(1)
        if predictions is None:
            continue
        comparisons[name] = no_information(predictions, groups[predictions.rows])
        if comparisons[name].knows_nothing:
            continue
        doubt = 1 - self_confidence(predictions)
        of_file = np.array(rows)[predictions.rows]
        suspicion[of_file] = np.fmax(suspicion[of_file], doubt)
        for index in label_errors(predictions).tolist():
            row = int(of_file[index])
            doubts.setdefault(row, []).append((float(doubt[index]), name, name in sets[row]))
    findings, suggestions = _label_set_doubts(dataset, sets, doubts)
    return _unpredictable(comparisons) + findings, suggestions


def _unpredictable(comparisons: dict[str, NoInformation]) -> list[Finding]:
    """The finding that some labels cannot be predicted, or not well enough."""
    useless = [name for name, one in comparisons.items() if one.verdict == "uninformative"]
    if not useless:
        return []
    every = all(one.knows_nothing for one in comparisons.values())
    shown = ", ".join(named(name) for name in useless[:_EXAMPLES])
    more = f" and {len(useless) - _EXAMPLES} more" if len(useless) > _EXAMPLES else ""
    return [
        Finding(
            "no_information",
            "problem" if every else "look",
            "the text does not tell any of the labels: whether a row has one is guessed no better"
            " than by chance"
            if every
            else f"the text does not tell {count(len(useless), 'label')} of {len(comparisons)}:"
            f" {shown}{more}",
            "Choose another label column (--label) or other text columns (--text)."
            if every
            else "Such a label is never reported as wrong, since it cannot be predicted.",
            figures={"labels": {name: one.to_json() for name, one in comparisons.items()}},
        )
    ]


def _label_set_doubts(
    dataset: LabelledDataset,
    sets: dict[int, LabelSet],
    doubts: dict[int, list[tuple[float, str, bool]]],
) -> tuple[list[Finding], dict[int, str]]:
    """The finding and the suggestions, from the doubtful labels of each row."""
    if not doubts:
        return [], {}
    affected: dict[int, str] = {}
    suggestions: dict[int, str] = {}
    examples: list[Example] = []
    for row in sorted(doubts, key=lambda row: -max(doubts[row])[0]):
        wrong, missing = (
            {name for _, name, has in doubts[row] if has is present} for present in (True, False)
        )
        better = sorted(set(sets[row]) - wrong | missing)
        if better:
            suggestions[row] = join_labels(better, str(dataset.separator))
        said = [
            f"label probably {'wrong' if has else 'missing'}: {named(name)} has"
            f" {percent(1 - doubt if has else doubt)}"
            for doubt, name, has in sorted(doubts[row], reverse=True)
        ]
        affected[row] = "; ".join(said)
        if len(examples) < _EXAMPLES:
            examples.append(
                Example(dataset.lines[row], affected[row], shortened(dataset.texts[row]))
            )
    moves = Counter(
        (name, "") if has else ("", name) for of_row in doubts.values() for _, name, has in of_row
    )
    finding = Finding(
        "label_errors",
        "problem",
        f"{count(len(doubts), 'row')} of {len(sets):,} ({percent(len(doubts) / len(sets))}) with"
        " labels that are probably wrong or missing",
        "Read them, the most suspicious first; --fix writes them down with better labels. Not every"
        " one is an error.",
        affected,
        examples,
        {
            "judged": len(sets),
            "moves": [[label, better, number] for (label, better), number in moves.most_common(10)],
        },
    )
    return [finding], suggestions
