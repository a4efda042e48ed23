"""The best of many: told from the luckiest."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from bertcnn.evaluation.reality_check import chance_of_best, macro_f1_of_draws


def answers(labels, share, generator):
    """Right answers at this share, others at random."""
    wrong = generator.random(len(labels)) >= share
    return np.where(wrong, generator.integers(0, 4, len(labels)), labels)


def candidates(shares, rows=400, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, rows)
    return labels, [answers(labels, share, generator) for share in shares]


def test_the_figures_are_those_of_scikit_learn():
    labels, predictions = candidates([0.5, 0.9])
    drawn = np.random.default_rng(1).multinomial(400, np.full(400, 1 / 400), 3)
    figures = macro_f1_of_draws(labels, predictions, drawn.astype(np.float32), 6)
    for predicted, row in zip(predictions, figures, strict=True):
        peers = [
            f1_score(labels, predicted, average="macro", sample_weight=weights) for weights in drawn
        ]
        assert row == pytest.approx(peers, abs=1e-6)


def test_a_real_gain_is_told_from_many_equals():
    assert chance_of_best(*candidates([0.8, 0.8, 0.9]), np.arange(400)) < 0.01
    assert chance_of_best(*candidates([0.8, 0.8]), np.arange(400)) > 0.05


def test_one_more_right_row_may_well_be_luck():
    labels, predictions = candidates([0.8])
    lucky = predictions[0].copy()
    lucky[np.flatnonzero(lucky != labels)[0]] = labels[np.flatnonzero(lucky != labels)[0]]
    assert 0.05 < chance_of_best(labels, [predictions[0], lucky], np.arange(400)) < 1


def test_nothing_above_the_first_is_no_gain():
    labels, predictions = candidates([0.9, 0.5])
    assert chance_of_best(labels, [*predictions, predictions[0]], np.arange(400)) == 1.0


def test_of_twenty_equals_the_best_is_seldom_believed():
    believed = 0
    for seed in range(25):
        labels, predictions = candidates([0.8] * 20, rows=200, seed=seed)
        believed += chance_of_best(labels, predictions, np.arange(200)) <= 0.05
    assert believed <= 4  # 5% are 1.25; five or more would happen once in 100 times


def test_duplicates_count_for_one():
    labels, predictions = candidates([0.7, 0.78], rows=150)
    alone = chance_of_best(labels, predictions, np.arange(150))
    repeated = chance_of_best(
        np.tile(labels, 4), [np.tile(one, 4) for one in predictions], np.tile(np.arange(150), 4)
    )
    assert repeated == alone
