"""Calibration, thresholds and decisions where a row may have several labels."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from bertcnn.evaluation.decisions import decide, held_out_sets
from bertcnn.evaluation.judging import Judgement, Truth
from bertcnn.evaluation.several import choose_thresholds, confidences, fit_temperature
from bertcnn.probabilities import chosen, sigmoid
from bertcnn.saved.bundle import Calibration
from bertcnn.settings import PrecisionTargets


def rows(count=600, labels=4, sharpness=2.5, seed=0):
    """Logits that are `sharpness` times too large, and which labels are true."""
    chance = np.random.default_rng(seed)
    logits = chance.normal(-0.5, 2.0, (count, labels))
    sets = chance.random((count, labels)) < 1 / (1 + np.exp(-logits))
    return (logits * sharpness).astype(np.float32), sets


def test_the_temperature_is_the_one_of_a_logistic_regression_on_the_logit_alone():
    logits, sets = rows()
    slope = LogisticRegression(C=1e9, fit_intercept=False).fit(logits.reshape(-1, 1), sets.ravel()).coef_[0, 0]
    assert fit_temperature(logits, sets) == pytest.approx(1 / slope, rel=5e-3)  # which has no doubt
    assert fit_temperature(logits, sets) == pytest.approx(2.5, rel=0.1)
    assert fit_temperature(np.empty((0, 3)), np.empty((0, 3), bool)) == 1.0


def test_labels_that_were_never_wrong_are_trusted_as_far_as_their_rows_go():
    sets = np.tile([[True, False, False], [False, True, True]], (10, 1))
    shares = sigmoid(np.where(sets, 4.0, -4.0) / fit_temperature(np.where(sets, 4.0, -4.0), sets))
    np.testing.assert_allclose(shares[sets], 61 / 62, atol=1e-3)


def best_f1(shares, has):
    return max(f1_score(has, shares >= threshold, zero_division=0.0) for threshold in np.unique(shares))


def test_a_threshold_is_half_of_the_best_f1_that_scikit_learn_knows():
    logits, sets = rows()
    shares = sigmoid(logits / 2.5)
    expected = [best_f1(shares[:, place], sets[:, place]) / 2 for place in range(4)]
    np.testing.assert_allclose(choose_thresholds(shares, sets), expected, rtol=1e-6)
    coarse = np.round(shares, 1)  # many rows of the same probability
    expected = [best_f1(coarse[:, place], sets[:, place]) / 2 for place in range(4)]
    np.testing.assert_allclose(choose_thresholds(coarse, sets), expected, rtol=1e-6)


def test_on_other_rows_it_is_nearly_the_best_there_is():
    logits, sets = rows(300, seed=1)
    thresholds = choose_thresholds(sigmoid(logits / 2.5), sets)
    logits, sets = rows(4000, seed=2)
    shares = sigmoid(logits / 2.5)
    for place, threshold in enumerate(thresholds):
        best = max(f1_score(sets[:, place], shares[:, place] >= other) for other in np.linspace(0.2, 0.6, 81))
        assert f1_score(sets[:, place], shares[:, place] >= threshold) > best - 0.01


def test_a_label_with_few_rows_has_the_threshold_of_all():
    logits, sets = rows(200, 3)
    sets[:, 2] = False
    sets[:19, 2] = True
    shares = sigmoid(logits / 2.5)
    assert choose_thresholds(shares, sets)[2] == pytest.approx(best_f1(shares.ravel(), sets.ravel()) / 2)
    assert choose_thresholds(np.empty((0, 2)), np.empty((0, 2), bool)).tolist() == [0.5, 0.5]
    assert choose_thresholds(shares, np.zeros_like(sets)).tolist() == [0.5] * 3


def test_the_confidence_of_calibrated_answers_is_the_share_of_right_ones():
    logits, sets = rows(4000)
    before, after, right = confidences(logits, sets, np.full(4, 0.5))
    assert abs(after.mean() - right.mean()) < 0.03 < before.mean() - right.mean()


def test_an_answer_is_right_if_all_its_labels_are_and_one_without_labels_goes_to_review():
    shares = np.array([[0.9, 0.8], [0.7, 0.1], [0.2, 0.3], [0.6, 0.9]], np.float32)
    given = chosen(shares, np.array([0.5, 0.5]))
    sets = np.array([[1, 1], [1, 1], [0, 0], [1, 1]], bool)
    found = held_out_sets(shares, given, sets)
    assert found.confidence == pytest.approx((0.72, 0.63, 0.54))
    assert (found.right, found.predicted, found.out_of_scope) == ((True, False, True), (0, 0, 1), 1)
    assert held_out_sets(shares, given, sets, np.array([True, False, False, False])).out_of_scope == 2


def test_thresholds_of_automatic_answers_come_from_whole_answers():
    logits, sets = rows(3000, sharpness=1.0)
    calibration = Calibration(temperature=1.0, fitted_on_rows=3000, label_thresholds=(0.5,) * 4)
    judged = Judgement(Truth(list("abcd"), sets.argmax(axis=1), sets), logits, calibration)
    decisions = decide(judged.held_out(), list("abcd"), PrecisionTargets(overall=0.6))
    automatic = (judged.confidence >= decisions.thresholds[0]) & judged.given.any(axis=1)
    assert 0.1 < automatic.mean() < 0.9
    assert judged.right[automatic].mean() >= 0.6 > judged.right.mean()
    assert judged.figures().accuracy == pytest.approx(judged.right.mean())
