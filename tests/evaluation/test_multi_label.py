"""Calibration, thresholds and decisions for rows with several labels."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_curve

from bertcnn.bundle.schemas import Calibration
from bertcnn.evaluation.decisions import HeldBack, decide, held_out_sets
from bertcnn.evaluation.multi_label import choose_thresholds, confidences, fit_temperature
from bertcnn.evaluation.probabilities import chosen, sigmoid
from bertcnn.evaluation.scored_predictions import GroundTruth, ScoredPredictions
from bertcnn.settings import PrecisionTargets


def rows(count=600, labels=4, sharpness=2.5, seed=0):
    """Logits that are too large by the factor `sharpness`, and the true labels."""
    chance = np.random.default_rng(seed)
    logits = chance.normal(-0.5, 2.0, (count, labels))
    multi_hot = chance.random((count, labels)) < 1 / (1 + np.exp(-logits))
    return (logits * sharpness).astype(np.float32), multi_hot


def test_the_temperature_equals_that_of_a_logistic_regression_on_the_logit():
    logits, multi_hot = rows()
    slope = (
        LogisticRegression(C=1e9, fit_intercept=False)
        .fit(logits.reshape(-1, 1), multi_hot.ravel())
        .coef_[0, 0]
    )
    # the regression has no doubt term
    assert fit_temperature(logits, multi_hot) == pytest.approx(1 / slope, rel=5e-3)
    assert fit_temperature(logits, multi_hot) == pytest.approx(2.5, rel=0.1)
    assert fit_temperature(np.empty((0, 3)), np.empty((0, 3), bool)) == 1.0


def test_labels_that_were_never_wrong_get_a_confidence_that_fits_their_rows():
    multi_hot = np.tile([[True, False, False], [False, True, True]], (10, 1))
    probabilities = sigmoid(
        np.where(multi_hot, 4.0, -4.0) / fit_temperature(np.where(multi_hot, 4.0, -4.0), multi_hot)
    )
    np.testing.assert_allclose(probabilities[multi_hot], 61 / 62, atol=1e-3)


def best_f1(probabilities, has):
    precision, recall, _ = precision_recall_curve(has, probabilities)
    return np.max(2 * precision * recall / np.maximum(precision + recall, 1e-12))


def test_a_threshold_is_half_of_scikit_learns_best_f1():
    logits, multi_hot = rows()
    probabilities = sigmoid(logits / 2.5)
    expected = [best_f1(probabilities[:, place], multi_hot[:, place]) / 2 for place in range(4)]
    np.testing.assert_allclose(choose_thresholds(probabilities, multi_hot), expected, rtol=1e-6)
    coarse = np.round(probabilities, 1)  # many rows of the same probability
    expected = [best_f1(coarse[:, place], multi_hot[:, place]) / 2 for place in range(4)]
    np.testing.assert_allclose(choose_thresholds(coarse, multi_hot), expected, rtol=1e-6)


def test_a_label_with_few_rows_gets_the_threshold_of_all_labels():
    logits, multi_hot = rows(200, 3)
    multi_hot[:, 2] = False
    multi_hot[:19, 2] = True
    probabilities = sigmoid(logits / 2.5)
    assert choose_thresholds(probabilities, multi_hot)[2] == pytest.approx(
        best_f1(probabilities.ravel(), multi_hot.ravel()) / 2
    )
    assert choose_thresholds(np.empty((0, 2)), np.empty((0, 2), bool)).tolist() == [0.5, 0.5]
    assert choose_thresholds(probabilities, np.zeros_like(multi_hot)).tolist() == [0.5] * 3


def test_calibrated_confidence_equals_the_share_of_right_answers():
    logits, multi_hot = rows(4000)
    before, after, right = confidences(logits, multi_hot, np.full(4, 0.5))
    assert abs(after.mean() - right.mean()) < 0.03 < before.mean() - right.mean()


def test_an_answer_is_right_if_all_its_labels_are_and_one_without_labels_goes_to_review():
    probabilities = np.array([[0.9, 0.8], [0.7, 0.1], [0.2, 0.3], [0.6, 0.9]], np.float32)
    given = chosen(probabilities, np.array([0.5, 0.5]))
    multi_hot = np.array([[1, 1], [1, 1], [0, 0], [1, 1]], bool)
    found = held_out_sets(probabilities, given, multi_hot)
    assert found.confidence == pytest.approx((0.72, 0.63, 0.54))
    assert (found.right, found.predicted, found.out_of_scope) == ((True, False, True), (0, 0, 1), 1)
    assert (
        held_out_sets(
            probabilities,
            given,
            multi_hot,
            HeldBack(np.array([True, False, False, False]), np.zeros(4, bool), np.zeros(4, bool)),
        ).out_of_scope
        == 2
    )


def test_thresholds_of_automatic_answers_come_from_whole_answers():
    logits, multi_hot = rows(3000, sharpness=1.0)
    calibration = Calibration(temperature=1.0, fitted_on_rows=3000, label_thresholds=(0.5,) * 4)
    judged = ScoredPredictions(
        GroundTruth(list("abcd"), multi_hot.argmax(axis=1), multi_hot), logits, calibration
    )
    decisions = decide(judged.held_out(), list("abcd"), PrecisionTargets(overall=0.6))
    automatic = (judged.confidence >= decisions.thresholds[0]) & judged.predicted.any(axis=1)
    assert 0.1 < automatic.mean() < 0.9
    assert judged.right[automatic].mean() >= 0.6 > judged.right.mean()
    assert judged.figures().accuracy == pytest.approx(judged.right.mean())
