"""The detector for out-of-scope texts."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from bertcnn.bundle.scope import DetectorInputs, OutOfScopeDetector, unit
from bertcnn.errors import BundleError
from bertcnn.evaluation.out_of_scope import (
    FoldInputs,
    fit_detector,
    label_words,
    refit_detector,
    rows_to_know,
)

LABELS, WIDTH = 4, 12
COMMON, FIRST = 7, 20  # the word in all texts, and the first of the others


def texts(generator, labels, noise=0.3):
    """Detector inputs for these labels; each label has its own direction and two words."""
    logits = 5 * np.eye(LABELS)[labels] + generator.normal(0, noise, (len(labels), LABELS))
    means = np.eye(WIDTH)[labels] + generator.normal(0, noise / 4, (len(labels), WIDTH))
    own = 2 * labels + generator.integers(0, 2, len(labels))
    return readings(logits, means, np.stack([np.full(len(labels), COMMON), FIRST + own], axis=1))


def foreign(generator, rows):
    """Detector inputs for texts about something else, in unknown words."""
    words = np.stack([np.full(rows, COMMON), generator.integers(100, 200, rows)], axis=1)
    return readings(
        generator.normal(0, 1, (rows, LABELS)), generator.normal(0, 1, (rows, WIDTH)), words
    )


def readings(logits, means, words):
    """Detector inputs; `words` is int [rows, words of a text]."""
    pairs = np.stack([np.repeat(np.arange(len(words)), words.shape[1]), words.ravel()], axis=1)
    lengths = np.full(len(words), words.shape[1] + 2)
    return DetectorInputs(logits.astype(np.float32), means.astype(np.float32), pairs, lengths)


def turned(text, axes):
    """The same inputs in rotated embedding axes."""
    return replace(text, means=text.means @ axes)


def learned(rows=400, valid=300, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, LABELS, rows)
    return fit_detector(
        texts(generator, labels), labels, texts(generator, generator.integers(0, LABELS, valid))
    ).detector


def test_another_model_of_the_same_rows_gets_a_limit_from_its_own_centroids():
    scope, generator = learned(), np.random.default_rng(5)
    labels = generator.integers(0, LABELS, 400)
    axes = np.roll(np.eye(WIDTH, dtype=np.float32), 6, axis=0)
    moved = refit_detector(scope, turned(texts(generator, labels), axes), labels)
    assert (moved.limit, moved.weights.tolist()) == (scope.limit, scope.weights.tolist())
    others = turned(texts(generator, generator.integers(0, LABELS, 5000)), axes)
    assert moved.outside(others).mean() == pytest.approx(0.02, abs=0.02)
    assert scope.outside(others).mean() > 0.9
    assert not refit_detector(OutOfScopeDetector(), others, np.zeros(5000, int))


def test_the_share_of_known_texts_beyond_the_limit_is_a_fiftieth_on_average():
    generator = np.random.default_rng(4)
    shares = [
        learned(seed=seed).outside(texts(generator, generator.integers(0, LABELS, 500))).mean()
        for seed in range(40)
    ]
    assert np.mean(shares) == pytest.approx(0.02, abs=0.007)
    assert learned().outside(foreign(generator, 500)).mean() > 0.95


@pytest.mark.parametrize(("valid", "known"), [(23, False), (24, True)])
def test_without_24_held_out_rows_nothing_is_out_of_scope(valid, known):
    scope = learned(valid=valid)
    assert bool(scope) is known
    assert known or not scope.outside(foreign(np.random.default_rng(1), 50)).any()


def test_limits_come_from_held_out_rows_each_scored_by_its_own_fold():
    generator = np.random.default_rng(6)
    labels = generator.integers(0, LABELS, 400)
    whole = texts(generator, labels)
    axes = np.roll(np.eye(WIDTH, dtype=np.float32), 4, axis=0)  # each fold's model has its own axes
    parts = [np.arange(fold, 400, 4) for fold in range(4)]
    folds = [
        FoldInputs(
            turned(whole.of(np.setdiff1d(np.arange(400), part)), axes),
            np.delete(labels, part),
            turned(whole.of(part), axes),
        )
        for part in parts
    ]
    few = texts(generator, generator.integers(0, LABELS, 10))  # too few on their own for limits
    fit = fit_detector(whole, labels, few, folds=folds)
    held_back = [
        one.outside(fold.held_out).sum() for one, fold in zip(fit.folds, folds, strict=True)
    ]
    assert 4 <= sum(held_back) + fit.detector.outside(few).sum() <= 8  # 2 % of 410
    assert fit.detector.outside(folds[0].held_out).mean() > 0.9
    others = texts(generator, generator.integers(0, LABELS, 5000))
    assert fit.detector.outside(others).mean() == pytest.approx(0.02, abs=0.02)
    assert not fit_detector(whole, labels, few).detector


def test_a_less_certain_model_than_the_folds_models_sends_no_more_to_review():
    generator = np.random.default_rng(16)
    labels = generator.integers(0, LABELS, 400)
    whole, valid = texts(generator, labels), texts(generator, generator.integers(0, LABELS, 200))
    certain = replace(whole, logits=4 * whole.logits)
    folds = [
        FoldInputs(
            certain.of(np.setdiff1d(np.arange(400), part)),
            np.delete(labels, part),
            certain.of(part),
        )
        for part in (np.arange(0, 400, 2), np.arange(1, 400, 2))
    ]
    detector = fit_detector(whole, labels, valid, folds=folds).detector
    others = texts(generator, generator.integers(0, LABELS, 5000))
    assert detector.outside(others).mean() == pytest.approx(0.02, abs=0.01)


def test_no_centroid_is_a_training_row():
    generator = np.random.default_rng(2)
    # a label with two rows gets no centre
    labels = np.concatenate([np.repeat(np.arange(LABELS - 1), 30), [LABELS - 1] * 2])
    known = texts(generator, labels)
    known.logits[0], known.means[0] = (
        -known.logits[0] * 9,
        -known.means[0] * 9,
    )  # k-means would put a centre on this row
    scope = fit_detector(known, labels, texts(generator, labels)).detector
    for centres, vectors in (
        (scope.logit_centroids, known.logits),
        (scope.embedding_centroids, known.means),
    ):
        assert 0 < len(centres) <= 3 * 6
        assert (unit(vectors) @ centres.T).max() < 1 - 1e-6


def test_a_text_with_other_words_than_its_label_scores_higher():
    scope, generator = learned(), np.random.default_rng(8)
    labels = generator.integers(0, LABELS, 200)
    own = texts(generator, labels)
    others = replace(own, words=texts(generator, (labels + 1) % LABELS).words)
    unknown = replace(own, words=np.empty((0, 2), np.int64))
    outlier_score = [scope.outlier_score(text).mean() for text in (own, unknown, others)]
    assert outlier_score == sorted(outlier_score)
    np.testing.assert_array_equal(scope.features(own)[:, :3], scope.features(others)[:, :3])


def test_word_evidence_is_naive_bayes_with_smoothing():
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1] * 10)
    words = np.where(np.arange(80) % 8 < 4, 30, 31)[
        :, None
    ]  # word 30 is in all rows of label 0 and in one of five of label 1
    text = readings(np.eye(2)[labels] * 5, np.ones((80, 3)), words)
    scope = fit_detector(text, labels, text).detector
    share = 40.5 / 81
    expected = np.log(
        (np.array([[30, 10], [0, 40]]) + 5 * share) / (np.array([30, 50]) + 5) / share
    )
    assert scope.words.tolist() == [30, 31]
    np.testing.assert_allclose(scope.log_odds, expected, rtol=1e-5)
    asked = DetectorInputs(
        *np.float32([[[0, 9], [9, 0], [0, 9]], np.ones((3, 3))[:, :2]]),
        np.array([[0, 30], [0, 31], [0, 99], [1, 31]]),
        np.array([5, 3, 2]),
    )
    np.testing.assert_allclose(
        scope.words_for(asked), [expected[:, 1].sum(), expected[1, 0], 0], rtol=1e-5
    )


def test_words_of_fewer_than_three_rows_are_not_kept():
    generator = np.random.default_rng(3)
    labels = generator.integers(0, LABELS, 200)
    known = texts(generator, labels)
    rare = np.array([[0, 900], [1, 900], [2, 901], [3, 901], [4, 901]])
    scope = fit_detector(
        replace(known, words=np.concatenate([known.words, rare])), labels, texts(generator, labels)
    ).detector
    assert scope.words.tolist() == [COMMON, *range(FIRST, FIRST + 2 * LABELS), 901]


def test_with_few_labels_directions_and_words_count_less(monkeypatch):
    few = learned().weights
    monkeypatch.setattr("bertcnn.evaluation.out_of_scope._ENOUGH_LABELS", LABELS)
    enough = learned().weights
    share = np.log(LABELS) / np.log(50)
    np.testing.assert_allclose((few / enough)[:4], [share, 1, 1, share], rtol=1e-5)


def test_the_most_frequent_words_are_kept_if_memory_does_not_hold_all(monkeypatch):
    monkeypatch.setattr("bertcnn.evaluation.out_of_scope._NUMBERS", 2 * LABELS * 3)
    text = texts(np.random.default_rng(0), np.repeat([0, 1, 2, 3], [5, 60, 10, 20]))
    words, log_odds = label_words(text.words, np.repeat([0, 1, 2, 3], [5, 60, 10, 20]), LABELS)
    assert words.tolist() == [COMMON, FIRST + 2, FIRST + 3]
    assert log_odds.shape == (3, LABELS)


def test_many_words_of_one_row_cost_no_memory_per_label():
    rows, classes = np.arange(4000), 800
    rare, common = (
        np.arange(10 * len(rows)),
        10 * len(rows) + rows % 100,
    )  # ten words that only this row has, and one of forty rows
    pairs = np.stack(
        [np.concatenate([rows.repeat(10), rows]), np.concatenate([rare, common])], axis=1
    )
    tracemalloc.start()
    kept, _ = label_words(pairs, rows % classes, classes)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept.tolist() == sorted(set(common.tolist()))
    assert most < 20e6  # bytes; a count for each word and label took 128 MB


def test_too_many_labels_for_the_memory_are_left_out():
    known, valid = (
        readings(np.zeros((rows, 3000)), np.ones((rows, WIDTH)), np.ones((rows, 1), int))
        for rows in (6, 60)
    )
    assert not fit_detector(known, np.arange(6), valid).detector


def test_identical_rows_do_no_harm():
    same = readings(np.ones((60, 3)), np.ones((60, 5)), np.ones((60, 1), int))
    scope = fit_detector(same, np.zeros(60, int), same).detector
    assert not scope.outside(same).any()
    assert np.isfinite(
        scope.outlier_score(readings(np.zeros((1, 3)), np.zeros((1, 5)), np.ones((1, 0), int)))
    ).all()


def test_a_detector_can_be_restored_from_its_tensors():
    scope, rows = learned(), foreign(np.random.default_rng(3), 50)
    again = OutOfScopeDetector.of_tensors(scope.tensors(), LABELS, WIDTH)
    np.testing.assert_array_equal(again.outlier_score(rows), scope.outlier_score(rows))
    assert again.limit == pytest.approx(scope.limit)
    np.testing.assert_array_equal(again.words, scope.words)
    assert not OutOfScopeDetector.of_tensors(OutOfScopeDetector().tensors(), LABELS, WIDTH)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": np.zeros(1, np.float32)}, "lacks 'more' or should not have it"),
        ({"words": None}, "lacks 'words'"),
        (
            {"logit_centroids": np.eye(LABELS + 1, dtype=np.float32)},
            r"logit_centroids of shape \(5, 5\)",
        ),
        (
            {"embedding_centroids": np.zeros((0, WIDTH), np.float32)},
            r"embedding_centroids of shape \(0, 12\)",
        ),
        (
            {"embedding_centroids": 2 * np.eye(WIDTH, dtype=np.float32)},
            "embedding_centroids that are not of length 1",
        ),
        ({"weights": np.array([1, 1, -1, 1, 1], np.float32)}, "none negative"),
        ({"limit": np.zeros(2, np.float32)}, r"limit of shape \(2,\)"),
        ({"weights": np.ones(3, np.float32)}, r"weights of shape \(3,\)"),
        ({"words": np.zeros((1, 2), np.float32)}, r"words of shape \(1, 2\)"),
        (
            {"log_odds": np.zeros((9, LABELS + 1), np.float32)},
            r"log_odds of shape \(9, 5\)",
        ),
        ({"words": np.arange(9, dtype=np.float32) + 0.5}, "wrong words"),
        ({"words": np.arange(9, dtype=np.float32)[::-1].copy()}, "words out of order"),
        ({"words": np.arange(9, dtype=np.float32) - 1}, "wrong words"),
        ({"words": np.float32(5e8) + 64 * np.arange(9, dtype=np.float32)}, "wrong words"),
    ],
)
def test_a_detector_that_does_not_fit_the_model_is_refused(change, words):
    tensors = {
        name: tensor
        for name, tensor in {**learned().tensors(), **change}.items()
        if tensor is not None
    }
    with pytest.raises(BundleError, match=f"^out_of_scope.safetensors .*{words}"):
        OutOfScopeDetector.of_tensors(tensors, LABELS, WIDTH)


def test_rows_chosen_for_the_detector_are_distinct_and_cover_every_label(monkeypatch):
    token_ids = [np.array([1, row % 1500, 2], np.int32) for row in range(3000)] + [
        np.array([7], np.int32)
    ]
    labels = np.array([row % 1500 % 2 for row in range(3000)] + [2])
    assert rows_to_know(token_ids, labels).tolist() == [*range(1500), 3000]
    monkeypatch.setattr("bertcnn.evaluation.out_of_scope._LEARNED", 10)
    chosen = rows_to_know(token_ids, labels)
    assert (np.bincount(labels[chosen]) - [300, 300, 1]).max() <= 10
    assert len({token_ids[row].tobytes() for row in chosen}) == len(chosen)
    assert (np.diff(chosen) > 0).all()
    assert rows_to_know([], np.empty(0, int)).tolist() == []
