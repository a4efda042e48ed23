"""Weights of rows in the loss."""

import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.training.examples import checked_weights
from tests.test_classifier import quick
from tests.tickets import tickets


def contradicting(count):
    """Texts, each twice: once with its own label, once with another."""
    texts, labels = tickets(count)
    names = sorted(set(labels))
    other = [names[(names.index(label) + 1) % len(names)] for label in labels]
    return texts * 2, [*labels, *other], len(texts)


@pytest.mark.parametrize("recipe", ["full", "frozen"])
def test_rows_of_weight_zero_are_not_learned_from(encoder_folder, recipe):
    texts, labels, half = contradicting(12)
    held_out = tickets(6)
    answers = []
    for weight in ([1.0] * half + [0.0] * half, [0.0] * half + [1.0] * half):
        classifier = quick(encoder_folder, recipe=recipe)
        classifier.fit(texts, labels, valid=held_out, sample_weight=weight)
        answers.append(classifier.predict(texts[:half]))
    own, other = (np.mean(one == np.array(labels[:half])) for one in answers)
    assert own > 0.9
    assert other < 0.5


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"sample_weight of shape \(1,\) for 2 rows"),
        ([1.0, -1.0], "expected one number of 0 or more for each row"),
        ([1.0, np.nan], "expected one number of 0 or more for each row"),
        (["a", "b"], "expected one number of 0 or more for each row"),
        ([0, 0], "sample_weight of zeros only"),
    ],
)
def test_unusable_weights_are_refused_in_one_line(weights, message):
    with pytest.raises(SettingsError, match=message) as caught:
        checked_weights(weights, 2)
    assert "\n" not in str(caught.value)


def test_only_ratios_of_weights_count():
    assert checked_weights([1, 3], 2).tolist() == checked_weights([5, 15], 2).tolist() == [0.5, 1.5]
