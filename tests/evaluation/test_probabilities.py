"""From logits to labels, compared with SciPy."""

import itertools

import numpy as np
from scipy import special

from bertcnn.bundle.schemas import Calibration
from bertcnn.evaluation.probabilities import (
    calibrated_probabilities,
    chosen,
    exact_match_probability,
    names_of,
    sigmoid,
    softmax,
)

LOGITS = np.array([[0.3, -2.0, 4.0], [800.0, -800.0, 0.0], [0.0, 0.0, 0.0]], np.float32)


def test_softmax_and_sigmoid_equal_scipys():
    np.testing.assert_allclose(
        softmax(LOGITS), special.softmax(LOGITS.astype(float), axis=1), atol=1e-7
    )
    np.testing.assert_allclose(sigmoid(LOGITS), special.expit(LOGITS.astype(float)), atol=1e-7)


def test_with_label_thresholds_each_label_is_decided_separately():
    one = Calibration(temperature=2.0, fitted_on_rows=9)
    several = Calibration(temperature=2.0, fitted_on_rows=9, label_thresholds=(0.5, 0.5, 0.5))
    np.testing.assert_allclose(
        calibrated_probabilities(LOGITS, one),
        special.softmax(LOGITS.astype(float) / 2, axis=1),
        atol=1e-7,
    )
    np.testing.assert_allclose(
        calibrated_probabilities(LOGITS, several),
        special.expit(LOGITS.astype(float) / 2),
        atol=1e-7,
    )


def test_probabilities_of_all_answers_sum_to_1():
    probabilities = np.array([[0.9, 0.2, 0.55]], np.float32)
    answers = [np.array([answer]) for answer in itertools.product([False, True], repeat=3)]
    sure = [float(exact_match_probability(probabilities, answer)[0]) for answer in answers]
    assert np.isclose(sum(sure), 1.0)
    assert (
        answers[int(np.argmax(sure))].tolist()
        == chosen(probabilities, np.full(3, 0.5)).tolist()
        == [[True, False, True]]
    )


def test_names_are_sorted_by_probability():
    probabilities = np.array([[0.6, 0.9, 0.7], [0.1, 0.2, 0.3]], np.float32)
    assert names_of(
        chosen(probabilities, np.array([0.5, 0.5, 0.8])), probabilities, ("a", "b", "c")
    ) == [("b", "a"), ()]
