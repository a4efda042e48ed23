"""Limits on automatic answers are found by relaxing each constraint."""

import numpy as np
import pytest

from bertcnn.bundle.schemas import Calibration
from bertcnn.evaluation.decisions import HeldBack
from bertcnn.evaluation.limit_analysis import automation_limits, saved_limits
from bertcnn.evaluation.scored_predictions import GroundTruth, ScoredPredictions
from bertcnn.evaluation.thresholds import find_threshold

NAMES = ("access", "billing", "cables", "devices", "email")


def scored(true, said, confidence):
    """Predictions with this confidence; the other labels share the rest."""
    probabilities = np.repeat((1 - np.asarray(confidence))[:, None] / 4, 5, axis=1)
    probabilities[np.arange(len(said)), said] = confidence
    truth = GroundTruth(NAMES, np.asarray(true))
    calibration = Calibration(temperature=1.0, fitted_on_rows=len(true))
    return ScoredPredictions(truth, np.log(probabilities).astype(np.float32), calibration)


def limits(true, said, confidence, back=None):
    rows = len(true)
    held_back = HeldBack.none(rows) if back is None else HeldBack(back, ~back & back, ~back & back)
    return automation_limits(scored(true, said, confidence), held_back, 0.9)


def test_too_few_rows_are_named_as_the_limit():
    true = said = np.arange(15) % 3
    found = limits(true, said, np.linspace(0.99, 0.6, 15))
    assert (found.limit, found.share, found.possible, found.gain) == ("rows", 0.0, 1.0, 1.0)
    assert found.rows == 15  # twice as many rows would show it: 30, and 22 are needed
    assert found.describe() == (
        "Automatic at 90%: 0% of tickets, limited by too few rows to show it: with about 15 more"
        " labelled rows 100% would be automatic"
    )


def test_two_mixed_up_labels_are_named_as_the_limit():
    true = np.arange(300) % 3
    said = np.where((true < 2) & (np.arange(300) % 2 == 0), 1 - true, true)
    confidence = np.where(true == 2, 0.99, 0.8)
    found = limits(true, said, confidence)
    assert (found.limit, found.labels, found.gain) == ("pair", ("access", "billing"), 1.0)
    assert found.share == pytest.approx(1 / 3)
    assert "limited by 'access' and 'billing', which are mixed up" in found.describe()


def test_a_label_mistaken_for_all_others_is_named_as_the_limit():
    true = np.arange(600) % 5
    lost = (true == 0) & (np.arange(600) % 100 < 70)
    said = np.where(lost, 1 + np.arange(600) // 5 % 4, true)
    confidence = np.linspace(0.99, 0.7, 600)
    found = limits(true, said, confidence)
    assert (found.limit, found.labels) == ("label", ("access",))
    assert found.share < found.gain
    wrong = np.flatnonzero(true != said)
    mended = true == said
    mended[wrong[::2]] = True
    threshold = find_threshold(confidence, mended, 0.9)
    assert found.gain == pytest.approx((confidence >= threshold).mean(), abs=0.01)


def test_no_limit_is_named_without_a_possible_gain():
    true = said = np.arange(300) % 3
    found = limits(true, said, np.linspace(0.99, 0.6, 300))
    assert (found.limit, found.share, found.possible) == ("nothing", 1.0, 1.0)
    assert saved_limits({"automation_limits": found.to_json()}) == found
    assert saved_limits({}) is None
    assert limits([], np.array([], int), []).share == 0
