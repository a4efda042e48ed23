"""Rows of tokens: each token is predicted once, with enough tokens before it."""

import numpy as np
import pytest

from bertcnn.data import BatchPlan
from bertcnn.tasks.language_model.model import NextTokens

START, PAD, CONTEXT = 2, 0, 8


def rows_of(*lengths):
    """Texts of ids that tell their position, and the rows made of them."""
    texts = [np.arange(10, 10 + length, dtype=np.int32) for length in lengths]
    return texts, NextTokens.of(texts, CONTEXT, start_id=START, pad_id=PAD)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 12, 13, 40])
def test_each_token_counts_in_exactly_one_row_after_the_tokens_before_it(length):
    (text,), examples = rows_of(length)
    rows = np.arange(len(examples.rows))
    inputs, targets = examples.batch(BatchPlan(rows, CONTEXT, len(rows) + 1))
    counted = targets["weights"].astype(bool)
    assert targets["target_ids"][counted].tolist() == text.tolist()
    before = inputs["token_ids"][counted].tolist()
    assert before == [START, *text[:-1].tolist()]
    assert not counted[-1].any()  # the filler row


def test_a_token_after_the_first_window_sees_at_least_half_a_window():
    (text,), examples = rows_of(40)
    for row, new in zip(examples.rows, examples.new, strict=True):
        old = len(row) - new
        assert old >= CONTEXT // 2 or row[0] == text[0]
        assert len(row) <= CONTEXT


def test_short_texts_have_a_row_each():
    texts, examples = rows_of(3, 8, 1)
    assert [row.tolist() for row in examples.rows] == [text.tolist() for text in texts]
    assert examples.first.tolist() == [START] * 3
    assert examples.lengths.tolist() == examples.new.tolist() == [3, 8, 1]
