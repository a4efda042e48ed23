"""Tests whether a model is better than always giving the most frequent label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from bertcnn.data import LabelSet
from bertcnn.errors import one_line
from bertcnn.evaluation.intervals import wilson
from bertcnn.evaluation.paired import TWO_SIDED, PairedDifference, paired_difference

Verdict = Literal["informative", "uninformative", "unclear"]

# share of the possible gain over the best constant answer; a smaller gain counts as useless
_LITTLE = 0.1
# balanced share of right answers between two labels; guessing gives a half
_APART = 0.6
_FEWEST_CONFUSED = 10  # rows of an inseparable pair; fewer prove nothing
_PAIRS = 3  # pairs named in a message


@dataclass(frozen=True)
class NoInformation:
    """A model compared with the best constant answer on the same held-out rows.

    The no-information rate is the accuracy of always giving the most frequent answer. Accuracy
    alone would be unfair to models of rare labels, so balanced accuracy is compared too: mean
    recall of the labels, or mean of recall and specificity of each label if rows may have several.

    Attributes:
        answer: the constant answer: the most frequent label, or label set, of the training rows.
        rate: the no-information rate.
        low: lower end of the 95 % confidence interval of `accuracy` - `rate`.
        high: upper end.
        balanced_accuracy: of the model, with equally frequent labels.
        balanced_rate: of any constant answer.
        balanced_low: lower end of the interval of `balanced_accuracy` - `balanced_rate`.
        balanced_high: upper end.
        inseparable: label pairs that the model cannot separate, most rows first.
    """

    rows: int
    answer: LabelSet
    accuracy: float
    rate: float
    low: float
    high: float
    balanced_accuracy: float
    balanced_rate: float
    balanced_low: float
    balanced_high: float
    inseparable: tuple[tuple[str, str], ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether the model beats the constant answer.

        "informative" if either interval lies above 0, "uninformative" if both gains are negligible,
        "unclear" if there are too few rows.
        """
        if max(self.low, self.balanced_low) > 0:
            return "informative"
        little = self.high <= _LITTLE * (1 - self.rate) and self.balanced_high <= _LITTLE * (
            1 - self.balanced_rate
        )
        return "uninformative" if little else "unclear"

    @property
    def knows_nothing(self) -> bool:
        """Whether no gain is shown."""
        return self.verdict != "informative"

    def describe(self, subject: str = "text") -> str:
        """A sentence without a full stop; `subject` is the text, or one model of it."""
        figures = (
            f"{self.accuracy:.1%} right on held-out rows, where always answering the most frequent"
            f" one is right for {self.rate:.1%}"
        )
        if self.verdict == "informative":
            return figures
        if self.verdict == "unclear":
            return (
                f"{self.rows:,} rows cannot show that the {subject} predicts the label: {figures}"
            )
        return f"the {subject} does not tell the label: {figures}"

    def sentence(self, subject: str = "text") -> str:
        """`describe` with the model's gain, as a whole sentence."""
        words = self.describe(subject)
        return f"{words[0].upper()}{words[1:]} ({self.describe_gain()})."

    def describe_gain(self) -> str:
        """The gain in accuracy with its interval, as part of a sentence."""
        gain = 100 * (self.accuracy - self.rate)
        return f"{gain:+.1f} points, 95% interval {100 * self.low:+.1f} to {100 * self.high:+.1f}"

    @property
    def advice(self) -> str:
        """The advice, as a sentence; "" if the model is informative."""
        if self.verdict == "informative":
            return ""
        if self.verdict == "unclear":
            return "More labelled rows can show it."
        return "Choose another label column (--label) or other text columns (--text)."

    def describe_pairs(self) -> str:
        """The inseparable pairs, as a sentence without a full stop; "" if there are none."""
        return "; ".join(
            f"nothing separates {one_line(one, 40)} from {one_line(other, 40)}"
            for one, other in self.inseparable[:_PAIRS]
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object, with `verdict`, and sentences in `message`."""
        return {
            **asdict(self),
            "answer": list(self.answer),
            "inseparable": [list(pair) for pair in self.inseparable],
            "verdict": self.verdict,
            "message": f"{self.sentence()} {self.advice}".rstrip(),
        }


def most_frequent(labels: Iterable[Any]) -> LabelSet:
    """The most frequent label, or label set, of the rows.

    `labels` has a label, or a tuple of labels, for each row.

    Example:
        >>> most_frequent(["sales", "billing", "billing"]), most_frequent([("a", "b"), ("a",)])
        (('billing',), ('a', 'b'))
    """
    counts = Counter(
        tuple(sorted(label)) if isinstance(label, tuple) else (str(label),) for label in labels
    )
    return counts.most_common(1)[0][0] if counts else ()


def usual_answer(metrics: Mapping[str, Any]) -> LabelSet | None:
    """The most frequent training answer, from a saved model's metrics; None in older models."""
    saved = metrics.get("no_information")
    return tuple(map(str, saved["answer"])) if isinstance(saved, Mapping) else None


def saved_warning(metrics: Mapping[str, Any]) -> str:
    """The warning about an uninformative model, from its saved metrics; otherwise "".

    Example:
        >>> saved_warning({"no_information": {"verdict": "informative", "message": "50% right"}})
        ''
    """
    saved = metrics.get("no_information")
    if not isinstance(saved, Mapping) or saved.get("verdict") == "informative":
        return ""
    return str(saved.get("message", ""))


def fair_answers(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The most probable labels under equal priors, int [rows].

    `probabilities` are float [rows, C], `shares` float [C] in training or calibration.
    """
    answers: np.ndarray = (probabilities / np.maximum(shares, 1e-6)).argmax(axis=1)
    return answers


def against_constant(
    names: Sequence[str],
    actual: np.ndarray,
    predicted: np.ndarray,
    *,
    fair: np.ndarray | None = None,
    usual: LabelSet | None = None,
    groups: np.ndarray | None = None,
) -> NoInformation:
    """Compare a single-label model with the best constant answer.

    `actual` and `predicted` are int [rows], indices into the C `names`. `fair` is from
    `fair_answers`, for balanced accuracy; by default `predicted`. `usual` is the most frequent
    training answer; by default the most frequent of these rows. `groups` are int [rows], equal for
    near duplicates, which count as one row; by default all differ.
    """
    fair = predicted if fair is None else fair
    sizes = np.bincount(actual, minlength=len(names))
    answer = usual if usual and usual[0] in names else (names[int(sizes.argmax())],)
    constant = actual == list(names).index(answer[0])
    hits = np.bincount(actual[fair == actual], minlength=len(names))
    present = sizes > 0
    chance = 1 / int(present.sum())
    balanced = _mean_share(hits[present], sizes[present], chance)
    difference = paired_difference(constant, predicted == actual, groups=groups)
    result = _compared(answer, predicted == actual, constant, difference, balanced, chance)
    if result.knows_nothing:
        return result
    return _with_pairs(result, names, actual, fair, sizes)


def against_constant_sets(
    names: Sequence[str],
    actual: np.ndarray,
    predicted: np.ndarray,
    *,
    usual: LabelSet | None = None,
) -> NoInformation:
    """Compare a multi-label model with the best constant answer, by exact label sets.

    `actual` and `predicted` are bool [rows, C]; `usual` is as in `against_constant`.
    """
    if usual is None:
        rows, counts = np.unique(actual, axis=0, return_counts=True)
        usual = tuple(name for name, has in zip(names, rows[counts.argmax()], strict=True) if has)
    constant = (actual == np.isin(names, usual)).all(axis=1)
    right = (actual == predicted).all(axis=1)
    hits = np.concatenate([(actual & predicted).sum(axis=0), (~actual & ~predicted).sum(axis=0)])
    sizes = np.concatenate([actual.sum(axis=0), (~actual).sum(axis=0)])
    both = np.tile((sizes.reshape(2, -1) > 0).all(axis=0), 2)
    balanced = _mean_share(hits[both], sizes[both], 0.5) if both.any() else (0.5, 0.5, 0.5)
    return _compared(usual, right, constant, paired_difference(constant, right), balanced, 0.5)


def _compared(
    answer: LabelSet,
    right: np.ndarray,
    constant: np.ndarray,
    difference: PairedDifference,
    balanced: tuple[float, float, float],
    chance: float,
) -> NoInformation:
    mean, low, high = balanced
    return NoInformation(
        rows=len(right),
        answer=answer,
        accuracy=float(right.mean()),
        rate=float(constant.mean()),
        low=difference.low,
        high=difference.high,
        balanced_accuracy=mean,
        balanced_rate=chance,
        balanced_low=low - chance,
        balanced_high=high - chance,
    )


def _mean_share(right: np.ndarray, rows: np.ndarray, chance: float) -> tuple[float, float, float]:
    """The mean of independent proportions with its 95 % interval, from Wilson intervals.

    Zou and Donner 2008, "Construction of confidence limits about effect measures", equation 3
    (MOVER). The lower end is at least as far away as for guesses: with few rows of many labels,
    proportions are skewed, and proportions of 0 seem certain.

    `right` and `rows` are int [K]; `chance` is each proportion under guessing.
    """
    shares = right / rows
    bounds = np.array([wilson(int(one), int(of)) for one, of in zip(right, rows, strict=True)])
    mean = float(shares.mean())
    below, above = (
        float(np.sqrt(((shares - bounds[:, side]) ** 2).sum())) / len(rows) for side in (0, 1)
    )
    guessed = TWO_SIDED * float(np.sqrt((chance * (1 - chance) / rows).sum())) / len(rows)
    return mean, mean - max(below, guessed), mean + above


def _with_pairs(
    result: NoInformation,
    names: Sequence[str],
    actual: np.ndarray,
    fair: np.ndarray,
    sizes: np.ndarray,
) -> NoInformation:
    """Add the label pairs that the answers do not separate.

    Counts rows of two labels that are predicted as either, at least half of each label's rows.
    """
    counts = Counter(zip(actual.tolist(), fair.tolist(), strict=True))
    pairs = []
    for one, other in {tuple(sorted(pair)) for pair in counts if pair[0] != pair[1]}:
        confused = counts[one, other] + counts[other, one]
        right = np.array([counts[one, one], counts[other, other]])
        rows = right + np.array([counts[one, other], counts[other, one]])
        if confused < _FEWEST_CONFUSED or (2 * rows < sizes[[one, other]]).any():
            continue
        _, low, high = _mean_share(right, rows, 0.5)
        if low <= 0.5 and high <= _APART:
            pairs.append((-int(rows.sum()), names[one], names[other]))
    return replace(result, inseparable=tuple((one, other) for _, one, other in sorted(pairs)))
