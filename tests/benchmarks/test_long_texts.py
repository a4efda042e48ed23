"""Operation counts of the long-text benchmark."""

import math

import pytest

from benchmarks.long_texts import largest_batch, operations
from bertcnn.settings import EncoderSettings, HeadSettings
from bertcnn.shapes import classifier_shapes


class Config:
    encoder = EncoderSettings(
        vocabulary_size=50, width=16, layers=3, heads=2, feed_forward_width=32, max_positions=64
    )
    head = HeadSettings(window_sizes=(2, 3), filters=5)


def test_each_weight_of_a_product_is_multiplied_once_for_each_token():
    shapes = classifier_shapes(Config.encoder, Config.head, 4)
    weights = sum(
        math.prod(shape)
        for name, shape in shapes.items()
        if name.endswith("kernel") and not name.startswith("logits")
    )
    products, attention = operations(Config, 10)
    assert products == 2 * 10 * weights
    scores_and_sums = 2 * (10 * 10 * 16)
    assert attention == 2 * 3 * scores_and_sums


@pytest.mark.parametrize(("tokens", "rows"), [(128, 4), (256, 2), (512, 1)])
def test_a_batch_of_long_texts_is_full(tokens, rows):
    plan = largest_batch(tokens)
    assert (plan.slots.shape, plan.length) in [((rows, 1), tokens), ((rows, 4), tokens)]
