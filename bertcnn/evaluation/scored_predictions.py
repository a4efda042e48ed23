"""Evaluates a model's logits on labelled rows, for one or several labels per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np

from bertcnn.bundle import Calibration, HeldOut, LabelShiftCalibration
from bertcnn.data import Hierarchy, LabelSet
from bertcnn.evaluation import multi_label
from bertcnn.evaluation.calibration import (
    CalibrationFigures,
    confidences,
    fit_temperature,
    measure_calibration,
)
from bertcnn.evaluation.decisions import HeldBack, held_out_answers, held_out_sets
from bertcnn.evaluation.label_shift import fit_shift_calibration
from bertcnn.evaluation.metrics import Evaluation, evaluate, evaluate_sets
from bertcnn.evaluation.no_information import (
    NoInformation,
    against_constant,
    against_constant_sets,
    fair_answers,
)
from bertcnn.evaluation.probabilities import (
    calibrated_probabilities,
    chosen,
    exact_match_probability,
    sigmoid,
)

_MOST_CELLS = 4_000_000  # logits for the label shift calibration, which takes some seconds


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """The true labels of rows that were not trained on.

    Attributes:
        names: the model's labels, in its order.
        labels: int [rows], each row's label, or its rarest one; C and above for `unknown`.
        multi_hot: bool [rows, C + U], true labels, if rows may have several.
        unknown: U labels that the model does not have.
    """

    names: Sequence[str]
    labels: np.ndarray
    multi_hot: np.ndarray | None = None
    unknown: Sequence[str] = ()

    def calibrate(self, logits: np.ndarray) -> Calibration:
        """Fit the calibration on logits [rows, C]; with several labels, also the thresholds."""
        if self.multi_hot is None:
            return Calibration(
                temperature=fit_temperature(logits, self.labels),
                fitted_on_rows=len(self.labels),
                label_shift=_label_shift(logits, self.labels),
            )
        calibration = Calibration(
            temperature=multi_label.fit_temperature(logits, self.multi_hot),
            fitted_on_rows=len(self.labels),
        )
        probabilities = sigmoid(logits / calibration.temperature)
        return calibration.model_copy(
            update={
                "label_thresholds": tuple(
                    multi_label.choose_thresholds(probabilities, self.multi_hot).tolist()
                )
            }
        )


@dataclass(frozen=True, eq=False)
class ScoredPredictions:
    """Logits with the true labels.

    Attributes:
        logits: float32 [rows, C].
    """

    truth: GroundTruth
    logits: np.ndarray
    calibration: Calibration

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Calibrated probabilities, float32 [rows, C]."""
        return calibrated_probabilities(self.logits, self.calibration)

    @cached_property
    def predicted(self) -> np.ndarray:
        """The predicted labels, if a row may have several, bool [rows, C]."""
        return chosen(self.probabilities, np.array(self.calibration.label_thresholds, np.float32))

    @property
    def first(self) -> np.ndarray:
        """The index of each row's most probable label, int [rows]."""
        return self.probabilities.argmax(axis=1)

    @property
    def confidence(self) -> np.ndarray:
        """The probability that the answer is right, float32 [rows]."""
        return (
            self.probabilities.max(axis=1)
            if self.truth.multi_hot is None
            else exact_match_probability(self.probabilities, self.predicted)
        )

    @property
    def right(self) -> np.ndarray:
        """Whether the answer is exactly right, bool [rows]."""
        if self.truth.multi_hot is None:
            right: np.ndarray = self.first == self.truth.labels
            return right
        return np.equal(*self.indicators()).all(axis=1)

    def indicators(self) -> tuple[np.ndarray, np.ndarray]:
        """True labels and predicted labels, both bool [rows, C + U]."""
        if self.truth.multi_hot is not None:
            return self.truth.multi_hot, np.pad(
                self.predicted, ((0, 0), (0, len(self.truth.unknown)))
            )
        columns = np.arange(len(self.truth.names) + len(self.truth.unknown))
        return self.truth.labels[:, None] == columns, self.first[:, None] == columns

    def without_temperature(self) -> np.ndarray:
        """The confidence of the same answers before calibration, float32 [rows]."""
        plain = self.calibration.model_copy(update={"temperature": 1.0})
        probabilities = calibrated_probabilities(self.logits, plain)
        return (
            probabilities.max(axis=1)
            if self.truth.multi_hot is None
            else exact_match_probability(probabilities, self.predicted)
        )

    def of(self, rows: slice) -> ScoredPredictions:
        """Some of the rows."""
        truth, multi_hot = self.truth, self.truth.multi_hot
        labels, several = truth.labels[rows], None if multi_hot is None else multi_hot[rows]
        truth = replace(truth, labels=labels, multi_hot=several)
        return replace(self, truth=truth, logits=self.logits[rows])

    def with_strange(self, logits: np.ndarray) -> ScoredPredictions:
        """Append out-of-scope rows with logits [S, C]; for `held_out` only."""
        truth, rows = self.truth, len(logits)
        multi_hot = truth.multi_hot
        if multi_hot is not None:
            multi_hot = np.pad(multi_hot, ((0, rows), (0, 0)))
        labels = np.pad(truth.labels, (0, rows))
        return replace(
            self,
            truth=replace(truth, labels=labels, multi_hot=multi_hot),
            logits=np.concatenate([self.logits, logits]),
        )

    def figures(self, usual: LabelSet | None = None) -> Evaluation:
        """Figures by label and overall, compared with the best constant answer.

        `usual` is the most frequent training answer; by default the most frequent of these rows.
        """
        names = list(self.truth.names)
        every = [*names, *self.truth.unknown]
        if self.truth.multi_hot is None:
            evaluation = evaluate(
                names,
                [every[index] for index in self.truth.labels],
                [names[index] for index in self.first],
            )
            return replace(evaluation, no_information=self.no_information(usual))
        actual, predicted = (
            [tuple(compress(every, row)) for row in rows] for rows in self.indicators()
        )
        evaluation = evaluate_sets(names, actual, predicted)
        return replace(evaluation, no_information=self.no_information(usual))

    def no_information(self, usual: LabelSet | None = None) -> NoInformation:
        """The comparison with the best constant answer; `usual` is as in `figures`."""
        every = [*self.truth.names, *self.truth.unknown]
        if self.truth.multi_hot is not None:
            return against_constant_sets(every, *self.indicators(), usual=usual)
        fair = fair_answers(self.probabilities, label_shares(self.calibration))
        return against_constant(every, self.truth.labels, self.first, fair=fair, usual=usual)

    def calibration_figures(self) -> CalibrationFigures:
        """The calibration error before and after calibration."""
        if self.truth.multi_hot is None:
            return measure_calibration(self.logits, self.truth.labels)
        return multi_label.measure_calibration(
            self.logits, self.truth.multi_hot, np.array(self.calibration.label_thresholds)
        )

    def confidences(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Confidences before and after calibration, float64 [rows]; correctness, bool [rows]."""
        if self.truth.multi_hot is None:
            return *confidences(self.logits, self.truth.labels), self.right
        return multi_label.confidences(
            self.logits, self.truth.multi_hot, np.array(self.calibration.label_thresholds)
        )

    def held_out(
        self, held_back: HeldBack | None = None, hierarchy: Hierarchy | None = None
    ) -> HeldOut:
        """The held-out answers for thresholds.

        By default no rows are held back, and labels have no parents.
        """
        if self.truth.multi_hot is None:
            return held_out_answers(self.probabilities, self.truth.labels, held_back, hierarchy)
        return held_out_sets(self.probabilities, self.predicted, self.truth.multi_hot, held_back)


def label_shares(calibration: Calibration) -> np.ndarray:
    """The label shares in the calibration rows, float [C]; [1] in older models."""
    shift = calibration.label_shift
    return np.ones(1) if shift is None else np.array(shift.shares)


def _label_shift(logits: np.ndarray, labels: np.ndarray) -> LabelShiftCalibration | None:
    if not len(labels):
        return None
    every = slice(None, None, 1 + logits.size // _MOST_CELLS)
    fit = fit_shift_calibration(logits[every], labels[every])
    return LabelShiftCalibration(
        temperature=fit.temperature,
        bias=tuple(fit.bias.tolist()),
        shares=tuple(np.clip(fit.shares, 0, 1).tolist()),
        rows=fit.rows,
    )
