"""Macro-F1, compared with scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from bertcnn.evaluation.metrics import macro_f1_score


def test_with_single_labels_it_equals_scikit_learns():
    actual, predicted = np.random.default_rng(0).integers(0, 7, (2, 200))
    expected = f1_score(actual, predicted, average="macro")
    assert macro_f1_score(actual, predicted) == expected
    names = np.array(["ab", "cd", "ef", "gh", "ij", "kl", "mn"])
    assert macro_f1_score(names[actual], names[predicted]) == expected


def test_with_several_labels_it_equals_scikit_learns_over_occurring_labels():
    actual, predicted = np.random.default_rng(0).random((2, 200, 7)) < 0.3
    expected = f1_score(actual, predicted, average="macro")
    wider = np.pad(actual, ((0, 0), (0, 3))), np.pad(predicted, ((0, 0), (0, 3)))
    assert macro_f1_score(*wider) == pytest.approx(expected)
    assert macro_f1_score(np.zeros((4, 3), bool), np.zeros((4, 3), bool)) == 0.0
