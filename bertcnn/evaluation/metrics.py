"""Accuracy, precision, recall, F1 and confusion of a classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from bertcnn.data import LabelSet, indicators
from bertcnn.errors import LabelError, one_line
from bertcnn.evaluation.no_information import NoInformation
from bertcnn.wording import count

# most labels for a full confusion matrix; otherwise only occurring pairs are written
LARGEST_MATRIX: Final = 100
_MOST_CONFUSED = 10
_NAMED = 5
# number of unknown labels; with more, the column is probably not the label column
_MOST_UNKNOWN = 1000


def macro_f1_score(
    actual: np.ndarray | Sequence[str], predicted: np.ndarray | Sequence[str]
) -> float:
    """The mean F1 of the labels that occur, true or predicted; rows may have several labels.

    scikit-learn omits labels that do not occur for single-label rows, but counts them as 0 for
    multi-label rows. Labels are int or str [rows], or bool [rows, C]. The score is 0 if no label
    occurs.

    Example:
        >>> round(macro_f1_score(np.array([0, 0, 2]), np.array([0, 2, 2])), 4)
        0.6667
        >>> perfect = np.array([[True, False, False], [True, True, False]])
        >>> macro_f1_score(perfect, perfect)
        1.0
    """
    if np.ndim(actual) == 1:
        return float(f1_score(actual, predicted, average="macro", zero_division=0.0))
    occurring = (np.asarray(actual) | np.asarray(predicted)).any(axis=0)
    if not occurring.any():
        return 0.0
    return float(np.mean(f1_score(actual, predicted, average=None, zero_division=0.0)[occurring]))


@dataclass(frozen=True)
class LabelFigures:
    """Precision, recall and F1 of one label, and its number of rows."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Confusion:
    """`count` rows of `actual` were predicted as `predicted`, a `share` of the rows of `actual`."""

    actual: str
    predicted: str
    count: int
    share: float


@dataclass(frozen=True)
class OutOfScopeRows:
    """How rows without any of the labels were answered.

    Attributes:
        called: predicted as out of scope or in another language.
        automatic: answered automatically, wrongly.
    """

    rows: int
    called: int
    automatic: int

    def describe(self) -> str:
        """The counts in a sentence."""
        return (
            f"{count(self.rows, 'row')} out of scope: {self.called:,} called so,"
            f" {self.rows - self.called - self.automatic:,} others for review,"
            f" {self.automatic:,} answered automatically"
        )


@dataclass(frozen=True)
class Evaluation:
    """The figures of one evaluation.

    Attributes:
        accuracy: share of rows with the right label, or exactly the right labels.
        macro_f1: mean F1 of the labels that occur, true or predicted (as in scikit-learn).
        weighted_f1: the same, weighted by support.
        labels: figures of the model's labels in its order, then of `unknown_labels`.
        confusion_pairs: int [N, 3], sorted: indices of true and predicted label, and number of
            rows; only pairs that occur.
        most_confused: the most frequent confusions, most frequent first.
        several_labels: whether a row may have several labels; see `evaluate_sets`.
        unknown_labels: labels of rows that the model does not have, so never predicts.
        out_of_scope: further rows without any of the labels; None if there are none.
        no_information: comparison with the best constant answer; None if not done.
    """

    rows: int
    accuracy: float
    macro_f1: float
    weighted_f1: float
    labels: tuple[LabelFigures, ...]
    confusion_pairs: np.ndarray
    most_confused: tuple[Confusion, ...]
    several_labels: bool = False
    unknown_labels: tuple[str, ...] = ()
    out_of_scope: OutOfScopeRows | None = None
    no_information: NoInformation | None = None

    @property
    def confusion(self) -> np.ndarray:
        """The confusion matrix, int [C, C]: true labels in rows, predicted labels in columns."""
        matrix = np.zeros((len(self.labels), len(self.labels)), int)
        actual, predicted, rows = self.confusion_pairs.T
        matrix[actual, predicted] = rows
        return matrix

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object.

        Omits `several_labels`, `unknown_labels`, `out_of_scope` and `no_information` if empty. With
        more than `LARGEST_MATRIX` labels, `confusion` is None and `confusion_pairs` replaces it.
        """
        record = asdict(replace(self, confusion_pairs=np.empty((0, 3), int), no_information=None))
        del record["confusion_pairs"], record["no_information"]
        last = {
            name: record.pop(name)
            for name in ("most_confused", "several_labels", "unknown_labels", "out_of_scope")
        }
        if len(self.labels) <= LARGEST_MATRIX:
            record["confusion"] = self.confusion.tolist()
        else:
            record |= {"confusion": None, "confusion_pairs": self.confusion_pairs.tolist()}
        record |= {name: value for name, value in last.items() if value or name == "most_confused"}
        if self.no_information is not None:
            record["no_information"] = self.no_information.to_json()
        return record


def evaluate(names: Sequence[str], actual: Sequence[str], predicted: Sequence[str]) -> Evaluation:
    """Compare predictions with the truth; rows with a label unknown to the model count as wrong.

    Raises:
        LabelError: there are no rows, or none with a known label.
    """
    unknown = find_unknown(names, actual, len(actual))
    order = [*names, *unknown]
    precision, recall, f1, support = precision_recall_fscore_support(
        actual, predicted, labels=order, zero_division=0.0
    )
    pairs = _pairs(order, actual, predicted)
    return Evaluation(
        rows=len(actual),
        accuracy=float(accuracy_score(actual, predicted)),
        macro_f1=macro_f1_score(actual, predicted),
        weighted_f1=float(f1_score(actual, predicted, average="weighted", zero_division=0.0)),
        labels=tuple(
            LabelFigures(name, float(p), float(r), float(f), int(s))
            for name, p, r, f, s in zip(order, precision, recall, f1, support, strict=True)
        ),
        confusion_pairs=pairs,
        most_confused=_most_confused(order, pairs, support),
        unknown_labels=unknown,
    )


def evaluate_sets(
    names: Sequence[str], actual: Sequence[LabelSet], predicted: Sequence[LabelSet]
) -> Evaluation:
    """Compare predictions with the truth if rows may have several labels.

    Accuracy is subset accuracy. In the confusion matrix a row counts on the diagonal for each label
    found, and off the diagonal for each pair of a missed and a wrongly predicted label. `names` are
    the model's labels.

    Raises:
        LabelError: there are no rows, or none with a known label.
    """
    unknown = find_unknown(names, [label for labels in actual for label in labels], len(actual))
    order = [*names, *unknown]
    truth, predictions = indicators(actual, order), indicators(predicted, order)
    precision, recall, f1, support = precision_recall_fscore_support(
        truth, predictions, zero_division=0.0
    )
    missed, wrong = truth & ~predictions, predictions & ~truth
    # without rows on the diagonal
    matrix = csr_array(missed, dtype=int).T @ csr_array(wrong, dtype=int)
    matrix = coo_array(matrix + diags_array((truth & predictions).sum(axis=0), dtype=int))
    pairs = _in_order(np.stack([*matrix.coords, matrix.data], axis=1))
    return Evaluation(
        rows=len(actual),
        accuracy=float((truth == predictions).all(axis=1).mean()),
        macro_f1=macro_f1_score(truth, predictions),
        weighted_f1=float(f1_score(truth, predictions, average="weighted", zero_division=0.0)),
        labels=tuple(
            LabelFigures(name, float(p), float(r), float(f), int(s))
            for name, p, r, f, s in zip(order, precision, recall, f1, support, strict=True)
        ),
        confusion_pairs=pairs,
        most_confused=_most_confused(order, pairs, support),
        several_labels=True,
        unknown_labels=unknown,
    )


def find_unknown(names: Sequence[str], actual: Sequence[str], rows: int) -> tuple[str, ...]:
    """The labels of rows that the model does not have, sorted.

    `actual` are the labels of all `rows` in one sequence, `names` the model's labels.

    Raises:
        LabelError: there are no rows, or too few known labels for this to be the label column.
    """
    if not rows:
        raise LabelError(
            "0 rows to evaluate on",
            expected="at least 1 row with a label",
            fix="check the file and its label column",
        )
    known = set(names)
    unknown = Counter(label for label in actual if label not in known)
    if unknown and (unknown.total() == len(actual) or len(unknown) > _MOST_UNKNOWN):
        name, count = unknown.most_common(1)[0]
        raise LabelError(
            f"{unknown.total()} of {rows} rows have a label the model does not know, first of all"
            f" {one_line(name)} ({count} rows)",
            expected="one of " + one_line(", ".join(names), 200),
            fix=(
                "correct the labels, name another column with --label, or train again with the new"
                " label"
            ),
        )
    return tuple(sorted(unknown))


def describe_unknown(names: Sequence[str], actual: Sequence[LabelSet]) -> str:
    """A sentence about rows with labels unknown to the model; "" if there are none.

    Example:
        >>> describe_unknown(["billing"], [("billing",), ("sales",)])
        "1 of 2 rows have a label that the model does not know and count as wrong: 'sales' (1)"
    """
    known = set(names)
    counts = Counter(label for labels in actual for label in labels if label not in known)
    if not counts:
        return ""
    rows = sum(not known.issuperset(labels) for labels in actual)
    shown = ", ".join(
        f"{one_line(name, 40)} ({number:,})" for name, number in counts.most_common(_NAMED)
    )
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    return (
        f"{rows:,} of {len(actual):,} rows have a label that the model does not know and count as"
        f" wrong: {shown}{more}"
    )


def _pairs(names: Sequence[str], actual: Sequence[str], predicted: Sequence[str]) -> np.ndarray:
    index_of = {name: index for index, name in enumerate(names)}
    counts = Counter(
        (index_of[one], index_of[other])
        for one, other in zip(actual, predicted, strict=True)
        if other in index_of
    )
    return _in_order(np.array([(*pair, rows) for pair, rows in counts.items()], int).reshape(-1, 3))


def _in_order(pairs: np.ndarray) -> np.ndarray:
    kept = pairs[pairs[:, 2] > 0].astype(int)
    return kept[np.lexsort((kept[:, 1], kept[:, 0]))]


def _most_confused(
    names: list[str], pairs: np.ndarray, support: np.ndarray
) -> tuple[Confusion, ...]:
    confusions = [
        Confusion(names[actual], names[predicted], rows, float(rows / support[actual]))
        for actual, predicted, rows in pairs.tolist()
        if actual != predicted
    ]
    return tuple(
        sorted(
            confusions, key=lambda pair: (-pair.count, -pair.share, pair.actual, pair.predicted)
        )[:_MOST_CONFUSED]
    )
