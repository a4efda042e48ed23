"""Pretraining batches: nothing is lost, and each depends on seed, epoch and step only."""

from collections import Counter
from copy import copy

import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.pretraining import batches as batches_module
from bertcnn.pretraining.batches import PretrainingBatches, Shuffle
from bertcnn.pretraining.corpus import open_corpus
from bertcnn.pretraining.loop import count_steps
from bertcnn.settings import PretrainingDataSettings, PretrainingSettings

from .conftest import write_documents

B, T = 8, 64
BOTH = pytest.mark.parametrize("pack", [False, True], ids=["one_a_row", "packed"])


def settings(**changes):
    return PretrainingDataSettings(
        **{"sequence_length": T, "batch_size": B, "held_out": 0.1, **changes}
    )


def unmasked(batch):
    """The token ids before masking."""
    tokens = batch["token_ids"].copy()
    rows, places = np.nonzero(batch["masked_weights"])
    tokens[rows, batch["masked_positions"][rows, places]] = batch["masked_labels"][rows, places]
    return tokens


def all_batches(source, epoch=0):
    return [source.batch(epoch, step) for step in range(source.steps_per_epoch(epoch))]


@BOTH
def test_a_batch_has_the_documented_shapes_and_types(corpus, pack):
    chosen = settings(pack=pack)
    shapes = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), (B, T))
    masked = ("masked_positions", "masked_labels", "masked_weights")
    shapes |= dict.fromkeys(masked, (B, chosen.masked_places))
    if pack:
        shapes |= dict.fromkeys(("document_ids", "position_ids"), (B, T))
    documents = (B, chosen.document_places) if pack else (B,)
    shapes |= dict.fromkeys(("next_labels", "next_weights"), documents)
    shapes |= {"document_starts": documents} if pack else {}
    batch = PretrainingBatches(corpus, chosen).batch(0, 0)
    assert {name: array.shape for name, array in batch.items()} == shapes
    for name, array in batch.items():
        assert array.dtype == (np.float32 if name.endswith("weights") else np.int32)


def test_documents_of_a_packed_row_are_laid_out_one_after_another(corpus):
    special = corpus.special
    for batch in all_batches(PretrainingBatches(corpus, settings())):
        tokens = unmasked(batch)
        for row in range(B):
            ids, starts = batch["document_ids"][row], batch["document_starts"][row]
            used = ids.max()
            assert np.array_equal(ids[ids > 0], np.sort(ids[ids > 0]))
            assert np.array_equal(ids > 0, batch["padding_mask"][row] == 1)
            for number in range(1, used + 1):
                places = np.flatnonzero(ids == number)
                one, segments = tokens[row, places], batch["segment_ids"][row, places]
                assert starts[number - 1] == places[0]
                assert batch["position_ids"][row, places].tolist() == list(range(len(places)))
                assert one[0] == special.classify
                assert one[-1] == special.separate
                ends = np.flatnonzero(one == special.separate)
                paired = len(ends) == 2
                assert np.array_equal(segments, (np.arange(len(one)) > ends[0]).astype(int))
                assert paired or batch["next_weights"][row, number - 1] == 0
            assert not starts[used:].any()
            assert not batch["next_weights"][row, used:].any()
            assert not batch["next_labels"][row, used:].any()


@BOTH
def test_an_epoch_shows_every_token_of_the_training_documents_once(corpus, pack):
    source = PretrainingBatches(corpus, settings(pack=pack, batch_size=1, short_fraction=0.0))
    seen = Counter(
        np.concatenate(
            [unmasked(batch)[batch["padding_mask"] == 1] for batch in all_batches(source)]
        ).tolist()
    )
    trained_on = corpus.part_keys >= int(0.1 * 2.0**64)
    first, last = np.append(0, corpus.part_ends[:-1]), corpus.part_ends
    starts = np.append(0, corpus.sentence_ends)
    wanted = Counter(
        np.concatenate(
            [corpus.tokens[starts[first[d]] : starts[last[d]]] for d in np.flatnonzero(trained_on)]
        ).tolist()
    )
    assert seen.pop(corpus.special.classify) == source.report().entries
    assert seen.pop(corpus.special.separate) == source.report().entries + source.report().pairs
    missing = (wanted - seen).total()  # the ends of swapped segments that did not fit
    assert (seen - wanted).total() == 0
    assert missing <= 0.01 * wanted.total()


@BOTH
def test_a_batch_does_not_depend_on_the_order_of_requests(corpus, pack, monkeypatch):
    monkeypatch.setattr(batches_module, "_WINDOW", 64)  # so that there are several
    whole = PretrainingBatches(corpus, settings(pack=pack), seed=3)
    epochs = {
        (epoch, step): whole.batch(epoch, step)
        for epoch in range(2)
        for step in range(whole.steps_per_epoch(epoch))
    }
    keys = list(epochs)
    for place in np.random.default_rng(1).permutation(len(keys))[:12]:
        resumed = PretrainingBatches(corpus, settings(pack=pack), seed=3).batch(*keys[place])
        assert all(
            np.array_equal(resumed[name], value) for name, value in epochs[keys[place]].items()
        )


def test_epochs_and_seeds_differ_in_order_and_masks(corpus):
    one = PretrainingBatches(corpus, settings(), seed=1)
    another = PretrainingBatches(corpus, settings(), seed=2)
    first = one.batch(0, 0)
    for other in (one.batch(1, 0), one.batch(0, 1), another.batch(0, 0)):
        assert not np.array_equal(unmasked(first), unmasked(other))
        assert not np.array_equal(first["masked_positions"], other["masked_positions"])


def test_windows_give_every_document_once_and_batches_may_cross_them(corpus, monkeypatch):
    wide = PretrainingBatches(corpus, settings(pack=False))
    monkeypatch.setattr(batches_module, "_WINDOW", 50)
    narrow = PretrainingBatches(corpus, settings(pack=False))
    assert (
        narrow.report().documents
        == wide.report().documents
        == np.count_nonzero(corpus.part_keys >= int(0.1 * 2.0**64))
    )
    assert all((batch["padding_mask"].sum(1) > 3).all() for batch in all_batches(narrow))


def test_held_out_documents_stay_the_same_and_are_never_trained_on(corpus, tokenizer, tmp_path):
    training, held_out = (
        PretrainingBatches(corpus, settings(), part=part) for part in ("training", "held_out")
    )
    assert training.report().documents + held_out.report().documents == len(corpus)
    assert 30 <= held_out.report().documents <= 90  # of 600, 10%: more than 4 standard errors away
    # the first 300 of the same documents
    more = write_documents(tmp_path / "more.txt", 300, seed=0)
    smaller = open_corpus([more], tokenizer, cache=tmp_path)
    below = int(0.1 * 2.0**64)
    assert set(smaller.part_keys[smaller.part_keys < below]) <= set(
        corpus.part_keys[corpus.part_keys < below]
    )


def test_the_last_held_out_batch_is_padded_with_rows_of_weight_zero(corpus):
    source = PretrainingBatches(corpus, settings(batch_size=7), part="held_out")
    rows = source.report().rows
    last = source.batch(0, source.steps_per_epoch(0) - 1)
    filler = rows % 7
    assert filler
    assert (last["padding_mask"][filler:].sum(1) == 1).all()
    assert not last["masked_weights"][filler:].any()
    assert not last["next_weights"][filler:].any()


class Reads:
    """Tokens that record which of them were read."""

    def __init__(self, tokens):
        self.tokens, self.read = tokens, set()

    def __getitem__(self, places):
        self.read.update(places.tolist())
        return self.tokens[places]


@BOTH
def test_processes_read_disjoint_tokens(corpus, pack):
    source = PretrainingBatches(corpus, settings(pack=pack, batch_size=32))
    whole, read = source.batch(0, 1), []
    for own in (range(16), range(16, 32)):
        source.corpus = copy(corpus)
        source.corpus.tokens = Reads(corpus.tokens)
        for name, values in source.batch(0, 1, own).items():
            np.testing.assert_array_equal(values, whole[name][own.start : own.stop], name)
        read.append(source.corpus.tokens.read)
    assert read[0]
    assert read[1]
    assert not read[0] & read[1]
    few = source.batch(0, 1, range(3, 5))
    np.testing.assert_array_equal(few["token_ids"], whole["token_ids"][3:5])
    assert source.tokens(0, 1) == whole["padding_mask"].sum()


def test_tickets_packed_into_rows_of_128_leave_less_than_5_percent_padding(tokenizer, tmp_path):
    path = write_documents(tmp_path / "tickets.txt", 400, fewest=1, most=6)
    corpus = open_corpus([path], tokenizer, cache=tmp_path)
    source = PretrainingBatches(corpus, PretrainingDataSettings(batch_size=8, held_out=0.0))
    mean = source.report().tokens / source.report().entries
    assert 15 <= mean <= 60
    real = sum(batch["padding_mask"].sum() for batch in all_batches(source))
    assert real / (source.steps_per_epoch(0) * 8 * 128) >= 0.95
    assert source.report().efficiency >= 0.95


def test_a_corpus_smaller_than_a_batch_and_a_step_out_of_range_are_refused(corpus):
    with pytest.raises(SettingsError, match="expected at least the 5,000 rows of one batch"):
        PretrainingBatches(corpus, settings(batch_size=5000))
    with pytest.raises(SettingsError, match="step 9999 of epoch 0; expected one of its"):
        PretrainingBatches(corpus, settings()).batch(0, 9999)


def test_the_steps_of_a_run_are_counted_without_planning_its_epochs(corpus, monkeypatch):
    source = PretrainingBatches(corpus, settings())
    first = source.steps_per_epoch(0)
    monkeypatch.setattr(source, "_window", lambda *place: pytest.fail(f"{place} was planned"))
    assert count_steps(source, PretrainingSettings(epochs=1000)) == 1000 * first
    assert count_steps(source, PretrainingSettings(epochs=1000, accumulate=3)) == 1000 * first // 3
    assert count_steps(source, PretrainingSettings(epochs=1, accumulate=first + 1)) == 1
    assert count_steps(source, PretrainingSettings(steps=7)) == 7


# === The order: a permutation of any size that needs no memory ===


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000, 4096, 5000])
def test_the_permutation_has_every_number_once(size):
    assert np.array_equal(
        np.sort(Shuffle(size, np.random.default_rng(4))(np.arange(size))), np.arange(size)
    )


def test_positions_can_be_computed_one_by_one():
    order = Shuffle(1000, np.random.default_rng(1))
    whole = order(np.arange(1000))
    assert [int(order(np.array([place]))[0]) for place in (0, 7, 999)] == whole[
        [0, 7, 999]
    ].tolist()


def test_every_number_is_equally_often_first_and_neighbours_separate():
    counts, steps = np.zeros(20), []
    for seed in range(4000):
        first = Shuffle(20, np.random.default_rng(seed))(np.arange(2))
        counts[first[0]] += 1
        steps.append(abs(first[0] - first[1]))
    assert np.abs(counts - 200).max() < 4.5 * np.sqrt(200)
    assert abs(np.mean(steps) - 7) < 0.4  # (20 + 1) / 3
