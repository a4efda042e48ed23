"""Batches with few fixed shapes: each text once, and only known shapes."""

import numpy as np
import pytest

from bertcnn.data.shape_buckets import fixed_shapes, plan_fixed

LONGEST = (4, 30, 64, 100, 160, 512, 700)


@pytest.mark.parametrize("longest", LONGEST)
def test_every_text_is_in_a_batch_of_a_known_shape(longest):
    generator, shapes = np.random.default_rng(longest), set(fixed_shapes(longest))
    for texts in (1, 2, 3, 5, 8, 13, 34, 60, 300):
        for most in {longest, max(3, longest // 3), min(longest, 9)}:
            lengths = generator.integers(2, most, texts, endpoint=True)
            plans = plan_fixed(lengths, longest)
            assert {(*plan.slots.shape, plan.length) for plan in plans} <= {
                (rows, places, length) for rows, length, places in shapes
            }
            held = np.concatenate([plan.slots.ravel() for plan in plans])
            assert sorted(held[held >= 0]) == list(range(texts))
            for plan in plans:
                tokens = np.where(plan.slots < 0, 0, lengths[plan.slots]).sum(axis=1)
                assert tokens.max() <= plan.length <= max(longest, 128)


@pytest.mark.parametrize("longest", LONGEST)
def test_the_shapes_are_few(longest):
    shapes = fixed_shapes(longest)
    assert len(set(shapes)) == len(shapes) <= 35


def test_long_texts_share_batches():
    plans = plan_fixed(np.array([150, 160, 155, 140, 150]), 160)
    assert sorted((*plan.slots.shape, plan.length) for plan in plans) == [
        (1, 1, 160),
        (1, 1, 160),
        (3, 1, 160),
    ]
