"""Temperature scaling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from bertcnn.evaluation.calibration import (
    calibration_error,
    compare_calibration,
    fit_temperature,
    measure_calibration,
)


def loss(logits, labels, temperature):
    """The mean loss over the rows.

    Each row counts as its label and, with weight 1 / (rows + 2), as the best other label.
    """
    costs = -log_softmax(logits / temperature, axis=1)
    rivals = [
        max(set(range(logits.shape[1])) - {label}, key=lambda one: logits[row, one])
        for row, label in enumerate(labels)
    ]
    doubt, rows = 1 / (len(labels) + 2), np.arange(len(labels))
    return np.mean((1 - doubt) * costs[rows, labels] + doubt * costs[rows, rivals])


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 60), st.floats(0.1, 30))
def test_no_temperature_of_a_fine_grid_is_better(seed, classes, rows, scale):
    generator = np.random.default_rng(seed)
    logits, labels = (
        generator.normal(0, scale, (rows, classes)).astype(np.float32),
        generator.integers(0, classes, rows),
    )
    best = min(loss(logits, labels, temperature) for temperature in np.geomspace(0.05, 20, 300))
    assert loss(logits, labels, fit_temperature(logits, labels)) <= best + 1e-4


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_that_made_the_labels_is_found(temperature):
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (5000, 4))
    labels = np.array([generator.choice(4, p=row) for row in softmax(logits / temperature, axis=1)])
    assert fit_temperature(logits, labels) == pytest.approx(temperature, rel=0.1)


def test_without_rows_confidence_stays_as_it_is():
    assert fit_temperature(np.empty((0, 3)), np.empty(0, int)) == 1.0


@pytest.mark.parametrize("rows", [3, 20, 300])
def test_a_model_that_was_never_wrong_gets_a_confidence_that_fits_its_rows(rows):
    logits, labels = np.tile([[5.0, 0.0], [0.0, 5.0]], (rows, 1))[:rows], np.arange(rows) % 2
    confidence = softmax(logits / fit_temperature(logits, labels), axis=1).max(axis=1)
    np.testing.assert_allclose(confidence, (rows + 1) / (rows + 2), atol=1e-3)


def test_the_error_equals_a_calculation_by_hand():
    confidence = np.array([0.9, 0.55, 0.8, 0.95, 0.7, 0.6])
    right = np.array([True, False, True, True, False, True])
    # pairs by confidence: (0.55, 0.6) half right, (0.7, 0.8) half right, (0.9, 0.95) right
    expected = (abs(0.575 - 0.5) + abs(0.75 - 0.5) + abs(0.925 - 1)) / 3
    assert calibration_error(confidence, right, bins=3) == pytest.approx(expected)
    assert calibration_error(confidence, right, bins=1) == pytest.approx(
        abs(confidence.mean() - 4 / 6)
    )
    assert calibration_error(confidence, right, bins=99) == pytest.approx(
        np.abs(confidence - right).mean()
    )


def overconfident(rows, seed=0):
    """Logits three times too large, and labels."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (rows, 4))
    labels = np.array([generator.choice(4, p=row) for row in softmax(logits, axis=1)])
    return 3 * logits, labels


def test_the_temperature_removes_most_of_the_error_and_the_intervals_show_it():
    figures = measure_calibration(*overconfident(2000))
    assert figures.before > 0.15 > 0.03 > figures.after
    assert figures.after_interval[0] <= figures.after_interval[1] < figures.before_interval[0]
    assert figures.before_interval[0] < figures.before < figures.before_interval[1]
    low, high = figures.after_interval
    assert f"off by {100 * low:.1f} to {100 * high:.1f}% on average" in figures.describe()
    assert measure_calibration(*overconfident(2000)) == figures


def test_the_calibrated_error_uses_a_temperature_fitted_on_other_rows():
    logits, labels = overconfident(40, seed=3)
    own = softmax(logits / fit_temperature(logits, labels), axis=1)
    assert measure_calibration(logits, labels).after != pytest.approx(
        calibration_error(own.max(axis=1), own.argmax(axis=1) == labels)
    )


def test_the_interval_of_a_well_calibrated_model_includes_zero():
    generator, reached = np.random.default_rng(0), 0
    for _ in range(60):
        confidence = generator.uniform(0.5, 1, 200)
        figures = compare_calibration(confidence, confidence, generator.random(200) < confidence)
        assert figures.after_interval[0] <= figures.after
        reached += figures.after_interval[0] == 0
    assert reached > 10  # the draws' own percentiles are biased upwards and never reach 0


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_very_few_rows_give_figures_too(rows):
    figures = measure_calibration(*overconfident(rows))
    assert 0 <= figures.after <= 1
    assert 0 <= figures.after_interval[0] <= figures.after_interval[1] <= 1
    doubtful = np.full(3, 0.9), np.array([True, False, False])
    assert compare_calibration(doubtful[0], *doubtful).after_interval[1] == 1.0


def test_a_sample_of_very_many_logits_is_used(monkeypatch):
    labels = np.random.default_rng(1).integers(0, 50, 3000)
    logits = np.random.default_rng(0).normal(size=(3000, 50))
    logits[np.arange(3000), labels] += 2
    every = fit_temperature(logits, labels)
    logits[1::2] = np.nan
    monkeypatch.setattr("bertcnn.evaluation.calibration._MOST_CELLS", 100_000)
    assert fit_temperature(logits, labels) == pytest.approx(every, rel=0.1)
