"""Which texts are out of scope."""

import numpy as np
import pytest

from bertcnn.errors import BundleError
from bertcnn.evaluation.out_of_scope import learn_scope, moved_scope, rows_to_know
from bertcnn.scope import Scope, unit

LABELS, WIDTH = 4, 12


def texts(generator, labels, noise=0.3):
    """Logits and means of texts about their labels: each label points its own way."""
    logits = 5 * np.eye(LABELS)[labels] + generator.normal(0, noise, (len(labels), LABELS))
    means = np.eye(WIDTH)[labels] + generator.normal(0, noise / 4, (len(labels), WIDTH))
    return logits.astype(np.float32), means.astype(np.float32)


def foreign(generator, rows):
    """Those of texts about something else."""
    return generator.normal(0, 1, (rows, LABELS)).astype(np.float32), generator.normal(0, 1, (rows, WIDTH)).astype(np.float32)


def learned(rows=400, valid=300, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, LABELS, rows)
    return learn_scope(*texts(generator, labels), labels, *texts(generator, generator.integers(0, LABELS, valid)))


def test_texts_about_something_else_are_found_and_of_the_others_one_in_fifty():
    scope, generator = learned(), np.random.default_rng(9)
    assert scope
    assert scope.outside(*foreign(generator, 500)).mean() > 0.95
    assert scope.outside(*texts(generator, generator.integers(0, LABELS, 5000))).mean() == pytest.approx(0.02, abs=0.02)


def test_another_model_of_the_same_rows_gets_the_limit_around_its_own_centres():
    scope, generator = learned(), np.random.default_rng(5)
    labels = generator.integers(0, LABELS, 400)
    turned = np.roll(np.eye(WIDTH, dtype=np.float32), 6, axis=0)  # another encoder has other axes
    logits, means = texts(generator, labels)
    moved = moved_scope(scope, logits, means @ turned, labels)
    assert (moved.limit, moved.weights.tolist()) == (scope.limit, scope.weights.tolist())
    logits, means = texts(generator, generator.integers(0, LABELS, 5000))
    assert moved.outside(logits, means @ turned).mean() == pytest.approx(0.02, abs=0.02)
    assert scope.outside(logits, means @ turned).mean() > 0.9
    assert not moved_scope(Scope(), logits, means, np.zeros(len(logits), int))


def test_the_share_of_known_texts_beyond_the_limit_is_a_fiftieth_on_average():
    generator = np.random.default_rng(4)
    shares = [learned(seed=seed).outside(*texts(generator, generator.integers(0, LABELS, 500))).mean() for seed in range(20)]
    assert np.mean(shares) == pytest.approx(0.02, abs=0.005)


@pytest.mark.parametrize(("valid", "known"), [(48, False), (49, True)])
def test_without_49_held_out_rows_nothing_is_out_of_scope(valid, known):
    scope = learned(valid=valid)
    assert bool(scope) is known
    assert known or not scope.outside(*foreign(np.random.default_rng(1), 50)).any()


def test_no_centre_is_a_training_row():
    generator = np.random.default_rng(2)
    labels = np.concatenate([np.repeat(np.arange(LABELS - 1), 30), [LABELS - 1] * 2])  # a label with two rows gets none
    logits, means = texts(generator, labels)
    logits[0], means[0] = -logits[0] * 9, -means[0] * 9  # k-means would give this row a centre of its own
    scope = learn_scope(logits, means, labels, *texts(generator, labels))
    for centres, vectors in ((scope.directions, logits), (scope.places, means)):
        assert 0 < len(centres) <= 3 * 6
        assert (unit(vectors) @ centres.T).max() < 1 - 1e-6


def test_too_many_labels_for_the_memory_are_left_out():
    logits, means = np.zeros((6, 3000), np.float32), np.ones((6, WIDTH), np.float32)
    assert not learn_scope(logits, means, np.arange(6), np.zeros((60, 3000), np.float32), np.ones((60, WIDTH), np.float32))


def test_rows_that_are_all_the_same_do_no_harm():
    same, labels = (np.ones((60, 3), np.float32), np.ones((60, 5), np.float32)), np.zeros(60, int)
    scope = learn_scope(*same, labels, *same)
    assert not scope.outside(*same).any()
    assert np.isfinite(scope.strangeness(np.zeros((1, 3), np.float32), np.zeros((1, 5), np.float32))).all()


def test_many_rows_and_none_are_looked_at_alike(monkeypatch):
    scope, rows = learned(), foreign(np.random.default_rng(3), 50)
    whole = scope.strangeness(*rows)
    monkeypatch.setattr("bertcnn.scope._PRODUCTS", 100)
    np.testing.assert_allclose(scope.strangeness(*rows), whole, rtol=1e-5)
    assert scope.outside(np.empty((0, LABELS), np.float32), np.empty((0, WIDTH), np.float32)).shape == (0,)


def test_a_scope_comes_back_from_its_tensors():
    scope, rows = learned(), foreign(np.random.default_rng(3), 50)
    again = Scope.of_tensors(scope.tensors(), LABELS, WIDTH)
    np.testing.assert_array_equal(again.strangeness(*rows), scope.strangeness(*rows))
    assert again.limit == pytest.approx(scope.limit)
    assert not Scope.of_tensors(Scope().tensors(), LABELS, WIDTH)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"more": np.zeros(1, np.float32)}, "lacks 'more' or should not have it"),
        ({"limit": None}, "lacks 'limit'"),
        ({"directions": np.eye(LABELS + 1, dtype=np.float32)}, r"directions of shape \(5, 5\); expected rows of 4 numbers"),
        ({"places": np.zeros((0, WIDTH), np.float32)}, r"places of shape \(0, 12\)"),
        ({"places": np.ones(WIDTH, np.float32)}, r"places of shape \(12,\)"),
        ({"places": 2 * np.eye(WIDTH, dtype=np.float32)}, "places that are not of length 1"),
        ({"weights": np.array([1, 1, -1], np.float32)}, "none negative"),
        ({"limit": np.zeros(2, np.float32)}, r"a limit of shape \(2,\)"),
    ],
)
def test_a_scope_that_does_not_fit_the_model_is_refused(change, words):
    tensors = {name: tensor for name, tensor in {**learned().tensors(), **change}.items() if tensor is not None}
    with pytest.raises(BundleError, match=f"^out_of_scope.safetensors .*{words}"):
        Scope.of_tensors(tensors, LABELS, WIDTH)


def test_rows_to_know_are_different_and_of_every_label():
    token_ids = [np.array([1, row % 1500, 2], np.int32) for row in range(3000)] + [np.array([7], np.int32)]
    labels = np.array([row % 1500 % 2 for row in range(3000)] + [2])
    chosen = rows_to_know(token_ids, labels)
    assert np.bincount(labels[chosen]).tolist() == [300, 300, 1]
    assert len({token_ids[row].tobytes() for row in chosen}) == 601
    assert (np.diff(chosen) > 0).all()
    assert rows_to_know([], np.empty(0, int)).tolist() == []
