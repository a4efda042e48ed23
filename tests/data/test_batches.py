"""Padding: each row once, few shapes, little waste, and no influence of neighbouring rows."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.data.batches import (
    BatchPlan,
    choose_lengths,
    pad,
    plan_compiled,
    plan_scoring,
    plan_training,
)

LENGTHS = st.lists(st.integers(2, 130), min_size=1, max_size=60).map(np.array)


def round_up(lengths, longest):
    return np.minimum(-(-lengths // 4) * 4, longest)


def padded_tokens(lengths, padded_lengths):
    return int(np.array(padded_lengths)[np.searchsorted(padded_lengths, lengths)].sum())


# === Lengths ===


@given(LENGTHS, st.integers(1, 6))
def test_lengths_are_few_ascending_and_hold_every_row(lengths, most):
    chosen = choose_lengths(lengths, most)
    assert 1 <= len(chosen) <= most
    assert list(chosen) == sorted(set(chosen))
    assert chosen[-1] == lengths.max()
    assert all(length % 4 == 0 for length in chosen[:-1])


@given(st.lists(st.integers(2, 70), min_size=1, max_size=30).map(np.array), st.integers(1, 4))
def test_no_other_lengths_waste_fewer_tokens(lengths, most):
    edges = np.unique(round_up(lengths, lengths.max()))
    least = min(
        padded_tokens(lengths, (*others, lengths.max()))
        for count in range(min(most, len(edges)))
        for others in combinations(edges[:-1].tolist(), count)
    )
    assert padded_tokens(lengths, choose_lengths(lengths, most)) == least


# === Plans ===


def assert_every_row_once(plans, lengths):
    assert sorted(row for plan in plans for row in plan.rows) == list(range(len(lengths)))
    assert all(
        0 < len(plan.rows) <= plan.size and lengths[plan.rows].max() <= plan.length
        for plan in plans
    )


@given(LENGTHS, st.integers(1, 9), st.integers(0, 3))
def test_an_epoch_holds_every_row_once_in_at_most_six_shapes(lengths, batch_size, seed):
    padded_lengths = choose_lengths(lengths)
    plans = plan_training(lengths, padded_lengths, batch_size, np.random.default_rng(seed))
    assert_every_row_once(plans, lengths)
    assert len({(plan.size, plan.length) for plan in plans}) <= 6
    assert {plan.length for plan in plans} <= set(padded_lengths)
    assert {plan.size for plan in plans} == {batch_size}
    assert len(plans) == -(-len(lengths) // batch_size)
    assert sum(len(plan.rows) < batch_size for plan in plans) <= 1


def test_an_epochs_order_is_the_generators():
    lengths = np.random.default_rng(0).integers(2, 100, 200)

    def order(seed):
        plans = plan_training(lengths, choose_lengths(lengths), 8, np.random.default_rng(seed))
        return [plan.rows.tolist() for plan in plans]

    assert order([1, 1]) == order([1, 1])
    assert order([1, 1]) != order([1, 2])


@given(LENGTHS, st.integers(1, 500))
def test_scoring_without_fixed_lengths_fills_its_budget_with_every_row_once(lengths, budget):
    plans = plan_scoring(lengths, budget)
    assert_every_row_once(plans, lengths)
    for plan in plans:
        assert (plan.size, plan.length) == (len(plan.rows), lengths[plan.rows].max())
        assert plan.size == 1 or plan.size * plan.length <= budget
    for plan, after in pairwise(plans):  # one more row would exceed the budget
        assert lengths[after.rows[0]] * (len(plan.rows) + 1) > budget


@given(LENGTHS, st.integers(1, 500))
def test_scoring_with_fixed_lengths_has_one_shape_for_each(lengths, budget):
    padded_lengths = (16, 32, 64, 130)
    plans = plan_scoring(lengths, budget, padded_lengths)
    assert_every_row_once(plans, lengths)
    assert {plan.length for plan in plans} <= set(padded_lengths)
    assert len({(plan.size, plan.length) for plan in plans}) <= len(padded_lengths)
    assert all(plan.size == 1 or plan.size * plan.length <= budget for plan in plans)


def test_no_rows_make_no_batches():
    none = np.empty(0, int)
    assert plan_scoring(none) == plan_scoring(none, 100, (8, 16)) == []
    assert plan_training(none, (8,), 4, np.random.default_rng(0)) == []
    assert plan_compiled(none) == plan_compiled(none, 512) == []


@given(
    st.lists(st.integers(1, 512), min_size=1, max_size=300).map(np.array),
    st.sampled_from([None, 512]),
)
def test_a_compiled_engine_sees_few_numbers_of_tokens(lengths, longest):
    plans = plan_compiled(lengths, longest)
    assert_every_row_once(plans, lengths)
    limit = longest or lengths.max()
    assert all(plan.size >= len(plan.rows) > 0 and plan.length <= limit for plan in plans)
    assert all(plan.size * plan.length <= 512 for plan in plans)
    assert len({plan.length for plan in plans}) <= 25


def test_many_texts_make_full_batches_and_few_one_that_is_not():
    lengths = np.random.default_rng(0).poisson(12, 3000) + 3
    assert {plan.size * plan.length for plan in plan_compiled(lengths, 512)} == {480}
    few = plan_compiled(lengths[:50], 512)
    assert len(few) > 1
    # filling up the last batch would take as long as running the others
    assert few[-1].size == len(few[-1].rows) < len(few[0].rows)


def test_of_many_batches_those_that_lack_rows_are_filled_up():
    lengths = np.concatenate([np.full(4000, 12), [90, 290]])
    found = [(plan.length, plan.size, len(plan.rows)) for plan in plan_compiled(lengths, 512)]
    assert found[-3:] == [(12, 40, 40), (96, 5, 1), (320, 1, 1)]


def test_a_short_text_is_not_padded_to_a_long_one():
    plans = plan_compiled(np.array([9, 10, 300, 10]), 512)
    assert [(plan.rows.tolist(), plan.length) for plan in plans] == [([0, 1, 3], 10), ([2], 320)]


@pytest.mark.parametrize(
    ("length", "padded"), [(1, 16), (16, 16), (17, 32), (100, 100), (513, 640)]
)
def test_a_text_alone_is_padded_to_a_multiple_of_sixteen_if_the_encoder_reads_so_many(
    length, padded
):
    (plan,) = plan_compiled(np.array([length]), 100 if length == 100 else 2000)
    assert (plan.rows.tolist(), plan.size, plan.length) == ([0], 1, padded)


def test_texts_of_more_than_512_tokens_stand_alone():
    plans = plan_compiled(np.array([600, 700, 1500, 2000]), 2000)
    found = [(plan.size, plan.length) for plan in plans]
    assert found == [(1, 640), (1, 768), (1, 1536), (1, 2000)]


def test_texts_in_one_batch_are_of_similar_length():
    lengths = np.random.default_rng(0).integers(5, 40, 3000)
    padded = sum(plan.size * plan.length for plan in plan_compiled(lengths, 512))
    assert padded < 1.13 * lengths.sum()


# === Padding ===


@given(LENGTHS, st.integers(0, 3), st.integers(0, 5))
def test_padding_keeps_each_row_and_masks_the_rest(lengths, fillers, extra):
    token_ids = [np.arange(1, length + 1, dtype=np.int32) for length in lengths]
    rows = np.arange(len(lengths))[::-1]
    plan = BatchPlan(rows, int(lengths.max()) + extra, len(rows) + fillers)
    batch = pad(token_ids, plan, pad_id=99)
    for array in batch.inputs().values():
        assert (array.dtype, array.shape) == (np.int32, (plan.size, plan.length))
    assert not batch.segment_ids.any()  # no id occurs twice in a text
    for place, row in enumerate(rows):
        own, rest = np.split(batch.token_ids[place], [lengths[row]])
        assert own.tolist() == token_ids[row].tolist()
        assert (rest == 99).all()
        assert batch.padding_mask[place].tolist() == [1] * len(own) + [0] * len(rest)
    assert (batch.token_ids[len(rows) :] == 99).all()
    assert (batch.padding_mask[len(rows) :].sum(axis=1) == 1).all()


# === Through the network ===

LONGEST = 40


@pytest.fixture(scope="module")
def logits_of():
    """Logits of rows in one batch padded to `LONGEST`; the tiny classifier has random weights."""
    from bertcnn.models.classifier import build_classifier
    from bertcnn.settings import HeadSettings
    from tests.tiny import noisy, tiny_settings

    encoder = tiny_settings(heads=2)
    model = noisy(build_classifier(encoder, HeadSettings(filters=8), classes=3, seed=1))
    return lambda token_ids, plan: model.predict_on_batch(pad(token_ids, plan).inputs())[
        : len(plan.rows)
    ]


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(1, 49), min_size=2, max_size=LONGEST), min_size=2, max_size=6))
def test_neighbours_and_fillers_change_no_logit(logits_of, rows):
    token_ids = [np.array(row, np.int32) for row in rows]
    together = logits_of(token_ids, BatchPlan(np.arange(len(rows)), LONGEST, 6))
    for row in range(len(rows)):
        alone = logits_of(token_ids, BatchPlan(np.array([row]), LONGEST, 6))
        np.testing.assert_allclose(alone[0], together[row], rtol=0, atol=1e-6)


@pytest.mark.parametrize("length", [2, 9])
def test_more_padding_changes_no_logit(logits_of, length):
    token_ids = [np.random.default_rng(length).integers(1, 50, length).astype(np.int32)]
    expected = logits_of(token_ids, BatchPlan(np.array([0]), length, 1))
    for longer in (length + 1, LONGEST):
        found = logits_of(token_ids, BatchPlan(np.array([0]), longer, 1))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert np.abs(expected).max() > 0.1


def test_tokens_after_a_separator_are_the_second_segment():
    mark = 3
    token_ids = [np.array(ids, np.int32) for ids in ([2, 7, mark, 8, mark], [2, 7, mark])]
    batch = pad(token_ids, BatchPlan(np.array([1, 0]), 6, 3))
    assert batch.segment_ids.tolist() == [[0] * 6, [0, 0, 0, 1, 1, 0], [0] * 6]
