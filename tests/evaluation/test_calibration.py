"""The temperature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from bertcnn.evaluation.calibration import fit_temperature


def loss(logits, labels, temperature):
    return -np.mean(log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 60), st.floats(0.1, 30))
def test_no_temperature_of_a_fine_grid_is_better(seed, classes, rows, scale):
    generator = np.random.default_rng(seed)
    logits, labels = generator.normal(0, scale, (rows, classes)).astype(np.float32), generator.integers(0, classes, rows)
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


def test_a_model_that_is_never_wrong_gets_a_finite_temperature():
    assert 0.05 <= fit_temperature(np.eye(3) * 5, np.arange(3)) < 0.2
