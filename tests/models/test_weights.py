"""Weights by name."""

import numpy as np
import pytest

from bertcnn.errors import BundleError
from bertcnn.models.bert import Bert
from bertcnn.models.weights import assign, extract
from bertcnn.settings import EncoderSettings

SETTINGS = EncoderSettings(
    vocabulary_size=9, width=4, layers=1, heads=1, feed_forward_width=4, max_positions=4
)


@pytest.fixture
def encoder():
    return Bert(SETTINGS)


def test_weights_are_copied_by_name_to_another_model(encoder):
    other = Bert(SETTINGS, seed=3)
    assign(other.weights, extract(encoder.weights), error=BundleError)
    for name, value in extract(other.weights).items():
        np.testing.assert_array_equal(value, extract(encoder.weights)[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda values: values.pop("pooler/bias"),
            r"'pooler/bias' has the shape none, it is missing; expected \(4,\)",
        ),
        (
            lambda values: values.update(extra=np.zeros(2)),
            r"'extra' has the shape \(2,\); expected no weight of that name",
        ),
        (
            lambda values: values.update({"pooler/bias": np.zeros(5)}),
            r"'pooler/bias' has the shape \(5,\); expected \(4,\)",
        ),
    ],
)
def test_mismatched_weights_are_named_and_nothing_changes(encoder, change, message):
    before = extract(encoder.weights)
    values = {name: value + 1 for name, value in before.items()}
    change(values)
    with pytest.raises(
        BundleError, match=f"{message}.* use weights and settings that belong together"
    ):
        assign(encoder.weights, values, error=BundleError)
    for name, value in extract(encoder.weights).items():
        np.testing.assert_array_equal(value, before[name])
