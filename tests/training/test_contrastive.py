"""Contrastive training, compared with the formula and finite differences."""

import keras
import numpy as np
import pytest

from bertcnn.inference.keras_embeddings import keras_embed
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FEW_SHOT
from bertcnn.training import contrastive
from bertcnn.training.contrastive import contrastive_loss, tune_by_contrast

SETTINGS = FEW_SHOT.model_copy(update={"contrast_steps": 6, "contrast_learning_rate": 3e-3})


def by_the_formula(vectors, labels, temperature):
    """Khosla et al. 2020, equation 2, written out."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [row for row in range(len(labels)) if labels[row] >= 0]
    terms = []
    for row in rows:
        others = [other for other in rows if other != row]
        whole = sum(np.exp(vectors[row] @ vectors[other] / temperature) for other in others)
        alike = [other for other in others if labels[other] == labels[row]]
        if alike:
            terms.append(
                -np.mean(
                    [
                        np.log(np.exp(vectors[row] @ vectors[other] / temperature) / whole)
                        for other in alike
                    ]
                )
            )
    return np.mean(terms)


@pytest.mark.on_jax
@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2], [4, -1, 4, 4, -1, 0, 0, -1]])
def test_the_loss_is_the_papers(labels, temperature):
    vectors = np.random.default_rng(len(labels)).normal(size=(len(labels), 7)).astype(np.float32)
    found = contrastive_loss(
        keras.ops.convert_to_tensor(vectors), np.array(labels, np.int32), temperature
    )
    assert float(found) == pytest.approx(
        by_the_formula(vectors.astype(np.float64), labels, temperature), rel=1e-4
    )


def test_without_a_pair_there_is_nothing_to_lose():
    vectors = np.eye(3, dtype=np.float32)
    assert float(contrastive_loss(vectors, np.array([0, 1, -1], np.int32))) == 0.0


def means(encoder, rows):
    found = np.empty((len(rows.labels), encoder.settings.width), np.float32)

    def store(places, hidden):
        for one, place in enumerate(places):
            found[place] = hidden[one, : len(rows.token_ids[place])].mean(axis=0)

    keras_embed(encoder)(rows.token_ids, store)
    return found


def tuned(encoder, rows, settings=SETTINGS, seed=0):
    tune_by_contrast(encoder, rows, settings, seed=seed, progress=Silent())
    return encoder


@pytest.mark.on_jax
def test_texts_of_one_label_come_together(make_rows, tiny_encoder):
    rows, before = make_rows(40, 0), tiny_encoder()
    after = tuned(tiny_encoder(), rows, SETTINGS.model_copy(update={"contrast_steps": 30}))
    for given, share in ((rows, 0.9), (make_rows(40, 7), 1.0)):  # others of the same labels too
        labels = given.labels.astype(np.int32)
        lost = [float(contrastive_loss(means(one, given), labels)) for one in (before, after)]
        assert lost[1] < share * lost[0]


def test_pieces_that_do_not_occur_stay_as_they_are_and_the_same_seed_gives_the_same_weights(
    make_rows, tiny_encoder
):
    rows, untouched = make_rows(20, 0), extract(tiny_encoder().weights)["embeddings/tokens"]
    one, other, third = (
        extract(tuned(tiny_encoder(), rows, seed=seed).weights) for seed in (0, 0, 1)
    )
    used = np.unique(np.concatenate(rows.token_ids))
    moved = np.flatnonzero((one["embeddings/tokens"] != untouched).any(axis=1))
    assert set(moved) <= set(used)
    assert len(moved) > len(used) // 2
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
    assert any(not np.array_equal(value, third[name]) for name, value in one.items())


def test_of_long_texts_the_beginning_and_the_last_token_are_read():
    for length, expected in ((8, range(8)), (9, [*range(7), 8]), (300, [*range(7), 299])):
        assert contrastive.cut(np.arange(length), longest=8).tolist() == list(expected)
    assert len(contrastive.cut(np.arange(300))) == 128


def test_a_step_holds_whole_labels_within_its_limits_and_two_at_least():
    labels = np.repeat(np.arange(10), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12])

    def steps(length):
        lengths, chance = np.full(len(labels), length), np.random.default_rng(0)
        return contrastive.draw_steps(labels, lengths, 4096, chance, texts=30, rows_of_a_label=7)

    chosen, seen = steps(5), set()
    for _ in range(20):
        rows = next(chosen)
        counts = np.bincount(labels[rows], minlength=10)
        assert len(np.unique(rows)) == len(rows) <= 30
        assert all(
            count in (0, min(7, whole)) for count, whole in zip(counts, range(3, 13), strict=True)
        )
        seen |= set(rows)
    assert seen == set(range(len(labels)))
    long = steps(5000)
    assert [len(np.unique(labels[next(long)])) for _ in range(5)] == [2] * 5
