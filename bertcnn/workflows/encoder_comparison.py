"""Compares classifiers from two encoders over several seeds, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from bertcnn.classifier import BertCNNClassifier
from bertcnn.data import AUTO, KnownLabels, check_labels, split_validation
from bertcnn.encoders import fetch_encoder
from bertcnn.errors import LabelError, SettingsError, one_line
from bertcnn.evaluation import describe_unknown
from bertcnn.progress import Progress, Silent
from bertcnn.settings import Recipe
from bertcnn.workflows.labelled import labelled_rows

_TESTED = 0.3
_MOST_TESTED = 3000
_CONFIDENCE = 0.95
_NOTICED = 0.005  # accuracy gains below half a point count as none

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Verdict:
    """The test accuracy of classifiers from two encoders.

    Attributes:
        trained_rows: rows passed to each classifier, including those it held out.
        old: accuracy of the old encoder for each seed, 0 to 1.
        difference: mean of new minus old; its 95% confidence interval is `low` to `high`.
    """

    rows: int
    trained_rows: int
    old: tuple[float, ...]
    new: tuple[float, ...]
    difference: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """The verdict: `helped`, `did not help` or `cannot tell`."""
        if self.low > 0:
            return "helped"
        return "did not help" if self.high < _NOTICED else "cannot tell"

    def describe(self) -> str:
        """The result in one line."""
        return (
            f"{self.word}: accuracy {np.mean(self.old):.1%} before, {np.mean(self.new):.1%} after,"
            f" {100 * self.difference:+.1f} points (95% interval {100 * self.low:+.1f} to"
            f" {100 * self.high:+.1f}; {len(self.old)} seeds, {self.trained_rows:,} rows to learn"
            f" from, {self.rows:,} to test on)"
        )


def compare_encoders(  # noqa: PLR0913 - a small experiment
    data: str | Path,
    old: str | Path,
    new: str | Path,
    *,
    test: str | Path | None = None,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    multi_label: str = AUTO,
    seeds: int = 5,
    rows_per_label: int | None = None,
    recipe: Recipe = "auto",
    progress: Progress | None = None,
) -> Verdict:
    """Train classifiers from two encoders with several seeds, and compare their accuracy.

    A seed decides the training rows and all randomness in training. Both encoders get the same
    seeds and test rows. The interval is Student's for paired differences; its variance is the
    variance between seeds plus the variance between test rows, so it holds for other seeds and for
    other rows of the same kind. If the new encoder was pretrained on the test texts, the result
    holds only for texts it was pretrained on.

    Args:
        data: a labelled file, as for training.
        old: an encoder, by name or folder.
        new: the other encoder.
        test: a labelled test file with the same columns; by default three tenths of the rows. At
            most 3,000 rows are used, evenly spaced.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        multi_label: "no" takes every cell as one label; by default multi-label files are refused.
        seeds: number of seeds, at least 2.
        rows_per_label: number of training rows per label; by default all.
        recipe: training recipe of both.
        progress: called for every classifier.

    Raises:
        SettingsError: fewer than two seeds, or no training row.
        LabelError: a label has fewer than `rows_per_label` rows, or no test label is trained.
        TableError: the file cannot be read, or lacks the columns.
        EncoderError: an encoder cannot be loaded.
    """
    progress = progress or Silent()
    if seeds < 2:
        raise SettingsError(
            f"{seeds} seeds",
            expected="at least 2, since chance is measured by their differences",
            fix="ask for 5",
        )
    read = partial(labelled_rows, text=text, label=label, multi_label=multi_label)
    learned, tested = _parts(read(data), None if test is None else read(test))
    unknown = describe_unknown([name for _, name in learned], [(name,) for _, name in tested])
    if unknown:
        progress.note(unknown)
    for encoder in (old, new):
        fetch_encoder(encoder, progress=progress)
    spread = np.linspace(0, len(tested) - 1, min(len(tested), _MOST_TESTED)).round().astype(int)
    tested = [tested[row] for row in np.unique(spread)]
    right = np.empty((2, seeds, len(tested)))
    for seed in range(seeds):
        drawn = learned if rows_per_label is None else _draw(learned, rows_per_label, seed)
        for index, encoder in enumerate((old, new)):
            classifier = BertCNNClassifier(encoder, recipe=recipe, seed=seed)
            classifier.fit([content for content, _ in drawn], [name for _, name in drawn])
            predicted = classifier.predict([content for content, _ in tested])
            right[index, seed] = predicted == np.array([name for _, name in tested])
        before, after = right[:, seed].mean(axis=1)
        progress.note(f"seed {seed}: accuracy {before:.1%} from {old}, {after:.1%} from {new}")
    return judge(right, trained_rows=len(drawn))


def judge(right: np.ndarray, trained_rows: int) -> Verdict:
    """The result for predictions, float [2, seeds, rows], 1 if right, the old encoder first."""
    differences = right[1].astype(float) - right[0].astype(float)  # [seeds, rows]
    seeds, rows = differences.shape
    by_seed, by_row = differences.mean(axis=1), differences.mean(axis=0)
    variance = by_seed.var(ddof=1) / seeds + by_row.var(ddof=1) / rows
    half = float(student.ppf((1 + _CONFIDENCE) / 2, seeds - 1)) * math.sqrt(variance)
    mean = float(by_seed.mean())
    old, new = (tuple(part.mean(axis=1).tolist()) for part in right.astype(float))
    return Verdict(rows, trained_rows, old, new, mean, mean - half, mean + half)


def _parts(rows: Rows, test: Rows | None) -> tuple[Rows, Rows]:
    texts, names = [content for content, _ in rows], [name for _, name in rows]
    check_labels(names)
    learned, tested = rows, test or []
    if test is None:
        kept, held_out = split_validation(texts, names, _TESTED)
        learned, tested = [rows[row] for row in kept], [rows[row] for row in held_out]
    known_labels = KnownLabels(name for _, name in learned)
    if not any(known_labels.find(name) for _, name in tested):
        like = f" with the label {one_line(tested[0][1])}" if tested else ""
        raise LabelError(
            f"{len(tested)} rows to test on{like}",
            expected="rows with labels that are learned",
            fix="correct the file to test on, or add rows to learn from",
        )
    return learned, [(content, known_labels.spelled(name)) for content, name in tested]


def _draw(rows: Rows, each: int, seed: int) -> Rows:
    names, generator = np.array([name for _, name in rows]), np.random.default_rng(seed)
    indices: list[int] = []
    for name, count in zip(*np.unique(names, return_counts=True), strict=True):
        if count < each:
            raise LabelError(
                f"{count} rows of the label {one_line(name)} to learn from",
                expected=f"at least {each}",
                fix="ask for fewer rows a label",
            )
        indices += generator.choice(np.flatnonzero(names == name), each, replace=False).tolist()
    return [rows[row] for row in indices]
