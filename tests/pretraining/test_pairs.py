"""Segment pairs: half true, half from another document, and documents without a pair."""

import math

import numpy as np
import pytest

from bertcnn.pretraining.pairs import Sentences, draw_pairs, pair_lengths
from bertcnn.settings import PretrainingDataSettings

T, V = 64, 50
CONTINUES = np.arange(V) >= 40  # pieces that continue a word


def documents(counts, seed=0, fewest=3, most=12, keys=None):
    """Documents with these sentence counts and `fewest` to `most` tokens a sentence; all tokens."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(fewest, most + 1, sum(counts))
    ends = np.cumsum(lengths)
    tokens = generator.integers(5, V, ends[-1]).astype(np.uint16)
    which = np.repeat(np.arange(len(counts)), counts)
    return (
        Sentences(ends - lengths, ends, which, np.array(keys or range(len(counts)), np.uint64)),
        tokens,
    )


def draw(sentences, tokens, seed=1, **changes):
    settings = PretrainingDataSettings(**{"sequence_length": T, "short_fraction": 0.0, **changes})
    return draw_pairs(sentences, tokens, CONTINUES, settings, np.random.default_rng(seed))


def document_of(sentences, places):
    return sentences.documents[np.searchsorted(sentences.ends, places, side="right")]


@pytest.fixture
def many():
    return documents(np.random.default_rng(5).integers(2, 20, 500).tolist())


def test_half_of_the_pairs_are_true_and_half_from_another_document(many):
    sentences, tokens = many
    pairs = draw(sentences, tokens)
    counted = pairs["next_weight"] > 0
    assert abs(int(pairs["next_label"][counted].sum()) * 2 - int(counted.sum())) <= 1
    first, second = (
        document_of(sentences, pairs[name][counted]) for name in ("first_start", "second_start")
    )
    assert np.array_equal(first != second, pairs["next_label"][counted] == 1)


def test_a_true_second_segment_follows_the_first_at_a_sentence_boundary(many):
    sentences, tokens = many
    pairs = draw(sentences, tokens)
    true = (pairs["next_label"] == 0) & (pairs["next_weight"] > 0)
    assert np.array_equal(pairs["first_end"][true], pairs["second_start"][true])
    assert np.isin(pairs["second_start"][pairs["next_weight"] > 0], sentences.starts).all()
    assert np.isin(pairs["first_end"], sentences.ends).all()


def test_every_pair_fits_a_row_and_rows_are_nearly_full(many):
    pairs = draw(*many)
    assert pair_lengths(pairs).max() == T
    sentences, tokens = documents([60] * 20)
    assert pair_lengths(draw(sentences, tokens)).mean() > 0.85 * T


def test_segment_lengths_do_not_reveal_true_pairs(many):
    pairs = draw(*many)
    counted = pairs["next_weight"] > 0
    for lengths in (
        pair_lengths(pairs),
        pairs["second_end"] - pairs["second_start"],
        pairs["first_end"] - pairs["first_start"],
    ):
        random, true = (lengths[counted & (pairs["next_label"] == label)] for label in (1, 0))
        error = math.sqrt(random.var() / len(random) + true.var() / len(true))
        assert abs(random.mean() - true.mean()) < 4 * error


def test_each_epoch_draws_different_pairs(many):
    first, again, other = draw(*many, seed=1), draw(*many, seed=1), draw(*many, seed=2)
    assert np.array_equal(first["second_start"], again["second_start"])
    assert not np.array_equal(first["second_start"], other["second_start"])
    labels = np.mean(first["next_label"][: len(other)] == other["next_label"][: len(first)])
    assert 0.4 < labels < 0.6


def test_short_single_sentences_stand_alone_without_next_sentence():
    pairs = draw(*documents([1] * 40))
    assert len(pairs) == 40
    assert np.array_equal(pairs["second_start"], pairs["second_end"])
    assert np.array_equal(pair_lengths(pairs), pairs["first_end"] - pairs["first_start"] + 2)
    for one in (pairs, draw(*documents([200]))):  # a single document has no other one
        assert not one["next_weight"].any()
        assert not one["next_label"].any()


def test_long_single_sentences_are_divided_at_a_word_in_their_middle():
    sentences, tokens = documents([1] * 40, fewest=32, most=60)
    pairs = draw(sentences, tokens)
    assert pairs["next_weight"].all()
    assert not CONTINUES[tokens[pairs["second_start"]]].any()
    shares = (pairs["first_end"] - pairs["first_start"]) / (sentences.ends - sentences.starts)
    assert shares.min() >= 0.2
    assert shares.max() <= 0.9
    assert not draw(sentences, tokens, halve_from=0)["next_weight"].any()


def test_duplicates_and_parts_do_not_count_as_another_document():
    sentences, tokens = documents([4] * 60, keys=[place // 20 for place in range(60)])
    pairs = draw(sentences, tokens)
    random = (pairs["next_label"] == 1) & (pairs["next_weight"] > 0)
    assert random.sum() >= 25
    keys = sentences.keys[document_of(sentences, pairs["first_start"][random])]
    assert (keys != sentences.keys[document_of(sentences, pairs["second_start"][random])]).all()


def test_half_of_the_pairs_are_true_even_if_one_document_dominates():
    pairs = draw(*documents([300, 12, 12]))
    counted = pairs["next_weight"] > 0
    assert 0 < counted.sum() < len(pairs)
    assert pairs["next_label"][counted].sum() * 2 == counted.sum()


def test_a_sentence_longer_than_a_row_is_cut_before_words_and_nothing_is_lost():
    sentences, tokens = documents([1], fewest=1000, most=1000)
    pairs = draw(sentences, tokens, next_sentence=False)
    assert pair_lengths(pairs).max() <= T
    assert pairs["first_start"][0] == 0
    assert pairs["first_end"][-1] == 1000
    assert np.array_equal(pairs["first_end"][:-1], pairs["first_start"][1:])
    assert not CONTINUES[tokens[pairs["first_start"][1:]]].any()


def test_without_next_sentence_segments_fill_the_row(many):
    pairs = draw(*many, next_sentence=False)
    assert np.array_equal(pairs["second_start"], pairs["second_end"])
    assert pair_lengths(pairs).max() == T
    assert np.sum(pairs["first_end"] - pairs["first_start"]) == len(many[1])


def test_some_segments_are_cut_short(many):
    assert len(draw(*many, short_fraction=0.5)) > 1.2 * len(draw(*many))


@pytest.mark.parametrize("next_sentence", [False, True])
def test_without_documents_there_are_no_pairs(next_sentence):
    empty = np.zeros(0, np.int64)
    sentences = Sentences(empty, empty, empty, empty.astype(np.uint64))
    assert len(draw(sentences, np.zeros(0, np.uint16), next_sentence=next_sentence)) == 0
