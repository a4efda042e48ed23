"""Initialising the head from a logistic regression, compared with scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bertcnn.models import CnnHead, extract
from bertcnn.settings import HeadSettings
from bertcnn.training.linear_probe import start_from_probe

WIDTH = 6


def regression(means, labels, weights):
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    return (
        LogisticRegression(C=10.0, max_iter=1000).fit(means / norms, labels, sample_weight=weights),
        norms.mean(),
    )


@pytest.mark.parametrize("classes", [2, 5])
def test_a_text_gets_the_probabilities_of_the_regression_on_its_mean(classes):
    chance = np.random.default_rng(classes)
    labels = np.arange(40) % classes
    means = (
        3.0 * chance.normal(size=(classes, WIDTH))[labels] + chance.normal(size=(40, WIDTH))
    ).astype(np.float32)
    weights = chance.uniform(0.5, 2.0, size=40)
    head = CnnHead(WIDTH, classes, HeadSettings(window_sizes=(1, 2), filters=3))
    start_from_probe(head, means, labels, weights)
    hidden = np.repeat(means[:, None], 4, axis=1)  # four equal tokens, so that their mean is known
    logits = head.predict_on_batch(
        {"sequence_output": hidden, "padding_mask": np.ones((40, 4), np.int32)}
    ).astype(float)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    theirs, scale = regression(means, labels, weights)
    np.testing.assert_allclose(
        shares / shares.sum(axis=1, keepdims=True), theirs.predict_proba(means / scale), atol=1e-4
    )


def test_the_filters_are_left_as_they_were_and_say_nothing_yet():
    head = CnnHead(WIDTH, 3, HeadSettings(window_sizes=(2,), filters=4))
    before = extract(head.weights)
    start_from_probe(
        head,
        np.random.default_rng(0).normal(size=(9, WIDTH)).astype(np.float32),
        np.arange(9) % 3,
        np.ones(9),
    )
    after = extract(head.weights)
    for name in ("convolution_2/kernel", "convolution_2/bias"):
        np.testing.assert_array_equal(after[name], before[name])
    assert not after["logits/kernel"][:4].any()
    assert after["logits/kernel"][4:].all()


def test_of_several_labels_each_has_its_own_regression():
    chance = np.random.default_rng(4)
    means = chance.normal(size=(60, WIDTH)).astype(np.float32)
    labels = np.stack(
        [means[:, 0] > 0.3, means[:, 1] + means[:, 2] > 0, np.zeros(60, bool)], axis=1
    )
    weights = chance.uniform(0.5, 2.0, size=(60, 3))
    head = CnnHead(WIDTH, 3, HeadSettings(window_sizes=(1,), filters=2))
    start_from_probe(head, means, labels, weights)
    logits = head.predict_on_batch(
        {"sequence_output": means[:, None], "padding_mask": np.ones((60, 1), np.int32)}
    )
    for place in range(2):
        theirs, scale = regression(means, labels[:, place], weights[:, place])
        np.testing.assert_allclose(
            logits[:, place], theirs.decision_function(means / scale), atol=1e-4
        )
    assert not logits[:, 2].any()  # a label without rows is left alone
