"""Predictions compared with the true labels, for one label a row or several."""

import numpy as np
import pytest

from bertcnn.bundle.bundle import Calibration
from bertcnn.evaluation import scored_predictions
from bertcnn.evaluation.label_shift import fit_shift_calibration
from bertcnn.evaluation.scored_predictions import GroundTruth, ScoredPredictions

NAMES = ("billing", "hardware", "software")
LOGITS = np.array([[2, 0, -1], [-1, 3, 1], [1, 0, 0.5], [-1, 0, 2]], np.float32)
SINGLE = GroundTruth(NAMES, np.array([0, 1, 2, 3]), unknown=("sales",))
SEVERAL = GroundTruth(
    NAMES,
    np.array([0, 2, 0, 3]),
    np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 1, 1, 1]], bool),
    unknown=("sales",),
)
THRESHOLDS = (0.5, 0.5, 0.5)


def scored(truth, temperature=2.0):
    several = truth.multi_hot is not None
    calibration = Calibration(
        temperature=temperature,
        fitted_on_rows=4,
        label_thresholds=THRESHOLDS if several else (),
    )
    return ScoredPredictions(truth, LOGITS, calibration)


def test_with_single_labels_the_most_probable_is_right_or_wrong():
    found = scored(SINGLE)
    assert found.first.tolist() == [0, 1, 0, 2]
    assert found.right.tolist() == [True, True, False, False]
    shares = np.exp(LOGITS / 2) / np.exp(LOGITS / 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.confidence, shares.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(found.without_temperature(), scored(SINGLE, 1.0).confidence)
    assert (found.without_temperature() > found.confidence).all()


def test_with_several_labels_an_answer_is_right_if_all_are():
    found = scored(SEVERAL)
    assert found.predicted.tolist() == (LOGITS >= 0).tolist()
    assert found.right.tolist() == [True, True, False, False]  # the last one lacks an unknown label
    shares = 1 / (1 + np.exp(-LOGITS / 2))
    each = np.where(LOGITS >= 0, shares, 1 - shares)
    np.testing.assert_allclose(found.confidence, each.prod(axis=1), rtol=1e-5)


@pytest.mark.parametrize("truth", [SINGLE, SEVERAL])
def test_unknown_labels_are_never_predicted(truth):
    found = scored(truth)
    actual, given = found.indicators()
    assert actual.shape == given.shape == (4, 4)
    assert actual[:, 3].tolist() == [False, False, False, True]
    assert not given[:, 3].any()
    figures = found.figures()
    assert (figures.rows, figures.accuracy) == (4, 0.5)


def test_thresholds_are_chosen_for_several_labels_only():
    known = GroundTruth(NAMES, np.array([0, 1, 2, 2]))
    several = GroundTruth(NAMES, np.array([0, 2, 0, 2]), SEVERAL.multi_hot[:, :3])
    assert known.calibrate(LOGITS).label_thresholds == ()
    calibration = several.calibrate(LOGITS)
    assert (len(calibration.label_thresholds), calibration.fitted_on_rows) == (3, 4)


def test_label_shift_calibration_is_kept_for_single_labels():
    known = GroundTruth(NAMES, np.array([0, 1, 2, 2]))
    kept = known.calibrate(LOGITS).label_shift
    fitted = fit_shift_calibration(LOGITS, known.labels)
    assert (kept.temperature, kept.rows) == (fitted.temperature, 4)
    assert kept.bias == tuple(fitted.bias)
    assert kept.shares == tuple(fitted.shares)
    several = GroundTruth(NAMES, np.array([0, 2, 0, 2]), SEVERAL.multi_hot[:, :3])
    assert several.calibrate(LOGITS).label_shift is None
    assert GroundTruth(NAMES, np.empty(0, int)).calibrate(LOGITS[:0]).label_shift is None


def test_many_labels_are_fitted_on_some_of_the_rows(monkeypatch):
    monkeypatch.setattr(scored_predictions, "_MOST_CELLS", 6)
    known = GroundTruth(NAMES, np.array([0, 1, 2, 2]))
    assert known.calibrate(LOGITS).label_shift.rows == 2
    assert known.calibrate(LOGITS).fitted_on_rows == 4
