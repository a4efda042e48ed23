"""Masking as published: which tokens, how many, and their replacements."""

import math

import numpy as np
import pytest

from bertcnn.pretraining.masking import Vocabulary, mask_tokens
from bertcnn.settings import PretrainingDataSettings

PAD, UNKNOWN, CLASSIFY, SEPARATE, MASK, V = 0, 1, 2, 3, 4, 1000
FIRST_CONTINUING = 700  # pieces from here on continue a word
B, T = 400, 64


def vocabulary():
    special = np.arange(V) <= MASK
    return Vocabulary(MASK, special, np.arange(V) >= FIRST_CONTINUING)


def rows(seed=0):
    """`[CLS] tokens [SEP] tokens [SEP] [PAD] ...`, with some unknown tokens."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(MASK + 1, V, (B, T), dtype=np.int32)
    tokens[generator.random((B, T)) < 0.02] = UNKNOWN
    lengths = generator.integers(8, T + 1, B)
    tokens[:, 0] = CLASSIFY
    tokens[np.arange(B), lengths // 2] = tokens[np.arange(B), lengths - 1] = SEPARATE
    tokens[np.arange(T) >= lengths[:, None]] = PAD
    return tokens


def masked(tokens, seed=1, **changes):
    settings = PretrainingDataSettings(sequence_length=T, **changes)
    return mask_tokens(tokens, vocabulary(), settings, np.random.default_rng(seed))


def within(share, expected, count):
    """Whether a share of `count` draws is within 4 standard errors of the expected one."""
    return abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / count)


BY_WORDS = pytest.mark.parametrize("whole_words", [False, True], ids=["tokens", "words"])


@BY_WORDS
@pytest.mark.parametrize("length", [T, 8])
def test_15_percent_of_the_ordinary_tokens_are_chosen(whole_words, length):
    tokens = rows()
    tokens[:, length:] = PAD
    ordinary = 20 * np.count_nonzero(tokens > MASK)
    found = [masked(tokens, seed, whole_words=whole_words) for seed in range(20)]
    chosen = sum(one.masked_weights.sum() for one in found)
    assert within(chosen / ordinary, 0.15, ordinary)


@BY_WORDS
def test_80_percent_become_mask_10_another_piece_and_10_stay(whole_words):
    tokens = rows()
    result = masked(tokens, whole_words=whole_words)
    batch, places = np.nonzero(result.masked_weights)
    shown = result.token_ids[batch, result.masked_positions[batch, places]]
    labels = result.masked_labels[batch, places]
    same = np.mean(shown == labels)
    assert within(np.mean(shown == MASK), 0.8, len(shown))
    assert within(same, 0.1 + 0.1 / (V - 5), len(shown))
    assert within(np.mean((shown != MASK) & (shown != labels)), 0.1, len(shown))


def test_random_pieces_come_from_the_vocabulary_without_special_tokens():
    tokens = np.full((3000, T), MASK + 1, np.int32)
    result = masked(tokens)
    shown = result.token_ids[(result.token_ids != MASK) & (result.token_ids != MASK + 1)]
    counts = np.bincount(shown, minlength=V)
    assert not counts[:MASK].any()
    expected = len(shown) / (V - 5)
    statistic = np.sum((counts[MASK + 2 :] - expected) ** 2 / expected)
    assert abs(statistic - (V - 7)) < 4 * math.sqrt(2 * (V - 7))  # chi squared


@BY_WORDS
def test_special_tokens_are_never_chosen_and_unchosen_tokens_stay(whole_words):
    tokens = rows()
    result = masked(tokens, whole_words=whole_words)
    batch, places = np.nonzero(result.masked_weights)
    positions = result.masked_positions[batch, places]
    assert (tokens[batch, positions] > MASK).all()
    assert np.array_equal(tokens[batch, positions], result.masked_labels[batch, places])
    restored = result.token_ids.copy()
    restored[batch, positions] = result.masked_labels[batch, places]
    assert np.array_equal(restored, tokens)


def test_every_position_is_chosen_equally_often():
    tokens = np.full((B, T), MASK + 1, np.int32)
    counts = np.zeros(T)
    for seed in range(10):
        result = masked(tokens, seed)
        counts += np.bincount(result.masked_positions[result.masked_weights > 0], minlength=T)
    shares = counts / (10 * B)
    assert all(within(share, 0.15, 10 * B) for share in shares)


def test_positions_ascend_and_padding_is_0():
    result = masked(rows())
    used = result.masked_weights > 0
    assert (np.diff(result.masked_positions, axis=1)[used[:, 1:]] > 0).all()
    assert (np.diff(used.astype(int), axis=1) <= 0).all()
    assert not result.masked_positions[~used].any()
    assert not result.masked_labels[~used].any()


@BY_WORDS
def test_no_row_has_more_masked_tokens_than_the_maximum(whole_words):
    result = masked(rows(), whole_words=whole_words, mask_fraction=0.5, masked_limit=5)
    assert result.masked_positions.shape == (B, 5)
    assert result.masked_weights.sum(1).max() == 5


def test_whole_words_are_masked_together():
    tokens = rows()
    result = masked(tokens, whole_words=True)
    chosen = np.zeros((B, T), bool)
    batch, places = np.nonzero(result.masked_weights)
    chosen[batch, result.masked_positions[batch, places]] = True
    goes_on = (tokens[:, 1:] >= FIRST_CONTINUING) & (tokens[:, :-1] > MASK)
    assert np.array_equal(chosen[:, 1:][goes_on], chosen[:, :-1][goes_on])
    assert chosen[:, 1:][goes_on].any()
