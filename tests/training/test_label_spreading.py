"""Label spreading: pseudo-labels from similar labelled rows."""

import numpy as np
from sklearn.datasets import make_moons
from sklearn.semi_supervised import LabelSpreading

from bertcnn.training.few_shot import PseudoLabels, spread_labels


def moons(rows=300, labelled=3):
    """Two half-moons that are not linearly separable, lifted to unit length.

    The first rows, a few of each moon, are labelled.
    """
    flat, labels = make_moons(rows, noise=0.05, random_state=0)
    order = np.argsort(labels, kind="stable")
    first = np.concatenate([order[:labelled], order[-labelled:]])
    order = np.concatenate([first, np.setdiff1d(order, first)])
    lifted = np.concatenate([flat, np.full((rows, 1), 2.0)], axis=1)[order].astype(np.float32)
    return lifted / np.linalg.norm(lifted, axis=1, keepdims=True), labels[order]


def test_labels_follow_the_rows_where_a_regression_cannot():
    rows, labels = moons()
    calls = spread_labels([rows], labels[:6], np.ones(6))
    by_regression, both = calls.right(labels[6:])
    assert both > by_regression + 30
    assert both / 294 > 0.95
    assert calls.sureness.min() > 0
    assert calls.sureness.max() <= 1


def test_without_the_regression_it_equals_scikit_learns_spreading():
    rows, labels = moons()
    kernel = LabelSpreading(kernel="knn", n_neighbors=8, alpha=0.9, max_iter=500).fit(
        rows, np.where(np.arange(300) < 6, labels, -1)
    )
    calls = spread_labels([rows], labels[:6], np.ones(6))
    # theirs joins neighbours in one direction, ours in both
    assert np.mean(calls.labels == kernel.transduction_[6:]) > 0.95


def blind_view(rows):
    """A view in which all rows are nearly equal."""
    same = np.tile(np.float32([1, 0, 0]), (rows, 1)) + 0.01 * np.random.default_rng(0).normal(
        size=(rows, 3)
    ).astype(np.float32)
    return same / np.linalg.norm(same, axis=1, keepdims=True)


def test_a_second_view_separates_what_the_first_does_not():
    rows, labels = moons()
    blind, weights = blind_view(300), np.ones(6)
    assert (
        spread_labels([blind, rows], labels[:6], weights).right(labels[6:])[1]
        > spread_labels([blind], labels[:6], weights).right(labels[6:])[1] + 30
    )


def test_labels_keep_their_numbers_and_few_rows_are_enough():
    rows = np.eye(4, dtype=np.float32)[[0, 1, 0]]
    calls = spread_labels([rows], np.array([7, 3]), np.ones(2))
    assert calls.labels.tolist() == [7]
    assert calls.labels.dtype == np.int64


def test_a_frequent_label_does_not_attract_rows_of_others():
    rows, labels = moons(400, labelled=20)
    rows, labels = (
        np.delete(rows, np.arange(22, 40), axis=0),
        np.delete(labels, np.arange(22, 40)),
    )  # 20 of one moon and 2 of the other
    # so that the moons touch
    rows += 0.12 * np.random.default_rng(0).normal(size=rows.shape).astype(np.float32)
    alike, rare_more = np.ones(22), np.where(labels[:22] == 0, 0.1, 1.0)

    def right(views):
        return np.subtract(
            spread_labels(views, labels[:22], rare_more).right(labels[22:]),
            spread_labels(views, labels[:22], alike).right(labels[22:]),
        )

    by_regression, both = right([rows])
    assert min(by_regression, both) > 60
    by_regression, both = right([blind_view(382), rows])
    assert by_regression < 5
    assert both > 60


def test_harm_on_held_out_rows_counts_only_if_significant():
    truth = np.zeros(6, np.int64)

    def harm(lost, won):
        before = np.array([0] * lost + [1] * won + [0] * (6 - lost - won))
        after = np.array([1] * lost + [0] * won + [0] * (6 - lost - won))
        return PseudoLabels(after, np.ones(6), before).harm(truth)

    assert not harm(0, 0)
    assert not harm(4, 0)  # chance: once in 16
    assert harm(5, 0)  # chance: once in 32
    assert not harm(5, 1)
    assert not harm(0, 5)
