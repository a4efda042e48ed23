"""The background texts in the package, and the detector features computed from them."""

import csv
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from bertcnn.bundle.scope import BACKGROUND, DetectorInputs, unit
from bertcnn.data.splits import duplicate_key
from bertcnn.evaluation.out_of_scope import (
    OutsideTexts,
    background_texts,
    fit_detector,
    refit_detector,
    with_limits,
)
from bertcnn.text.languages import language_of

DATA = Path(__file__).parents[2] / "data"
LABELS, WIDTH = 3, 16


def test_there_are_thousands_of_different_texts_in_many_languages():
    texts = background_texts()
    assert len(texts) > 2500
    assert len({duplicate_key(text) for text in texts}) > 0.99 * len(texts)
    assert all(text == text.strip() and len(text.splitlines()) == 1 for text in texts)
    languages = {language_of(text) for text in texts}
    assert {"en", "de", "fr", "es", "tr", "hi", "zh", "ru", "ar", "ja"} <= languages
    assert np.quantile([len(text) for text in texts], 0.9) > 80
    assert len(files("bertcnn.evaluation").joinpath("background.txt").read_bytes()) < 2e6


def test_none_of_them_is_in_the_sample_data():
    known = {duplicate_key(text) for text in background_texts()}
    for name in ("isp_tickets", "isp_inbox", "intents"):
        rows = csv.DictReader((DATA / f"{name}.csv").open())
        assert known.isdisjoint(
            duplicate_key(row["text"]) for row in rows if len(row["text"].split()) > 4
        )


def reading(means, labels=None):
    """Detector inputs with these means; each text is confidently assigned a label."""
    labels = np.zeros(len(means), int) if labels is None else labels
    logits = 5 * np.eye(LABELS, dtype=np.float32)[labels]
    words = np.empty((0, 2), np.int64)
    return DetectorInputs(logits, means.astype(np.float32), words, np.full(len(means), 5))


class World:
    """Known texts are a mixture along one axis; other texts share only part of it."""

    def __init__(self, seed=0):
        self.generator = np.random.default_rng(seed)

    def known(self, rows):
        labels = self.generator.integers(0, LABELS, rows)
        means = 2 * np.eye(WIDTH)[labels] + self.generator.normal(0, 1, (rows, WIDTH))
        means[:, 4] += 1.5
        return reading(means, labels), labels

    def other(self, rows):
        means = 2 * np.eye(WIDTH)[self.generator.integers(0, LABELS, rows)]
        means = means + self.generator.normal(0, 1, (rows, WIDTH))
        means[:, 5] += 1.5
        return reading(means)


def test_a_background_separates_texts_that_are_otherwise_near():
    world = World()
    (known, labels), (valid, _), (more, _) = world.known(300), world.known(200), world.known(500)
    strange = world.other(500)
    outside = OutsideTexts(world.other(600).means, np.empty((0, WIDTH)))
    areas = [
        roc_auc_score(
            np.repeat([0, 1], 500),
            np.concatenate([scope.outlier_score(more), scope.outlier_score(strange)]),
        )
        for scope in (
            fit_detector(known, labels, valid).detector,
            fit_detector(known, labels, valid, outside).detector,
        )
    ]
    assert areas[0] < 0.75
    assert areas[1] > 0.85


def test_its_direction_equals_scikit_learns_regression_on_all_known_rows():
    world = World()
    (known, labels), (valid, _) = world.known(1500), world.known(200)  # centres need 900
    background, own = world.other(300).means, world.other(5).means
    scope = fit_detector(known, labels, valid, OutsideTexts(background, own)).detector
    rows = unit(np.concatenate([background, own, known.means]))
    regression = LogisticRegression(C=10, class_weight="balanced", max_iter=500).fit(
        rows, np.repeat([1, 0], [305, 1500])
    )
    np.testing.assert_allclose(scope.background, regression.coef_[0], rtol=1e-3, atol=1e-3)


def test_the_fewer_labels_the_more_it_counts():
    world = World()
    (known, labels), (valid, _) = world.known(300), world.known(200)
    outside = OutsideTexts(world.other(300).means, np.empty((0, WIDTH)))
    shares = []
    for classes in (3, 20, 50):
        wide = [
            DetectorInputs(np.pad(one.logits, ((0, 0), (0, classes - 3))), *parts)
            for one in (known, valid)
            for parts in [(one.means, one.words, one.lengths)]
        ]
        scope = fit_detector(wide[0], labels, wide[1], outside).detector
        shares.append(scope.weights[BACKGROUND] * scope.features(wide[1])[:, BACKGROUND].std())
    np.testing.assert_allclose(shares, [3, 0.3, 0], rtol=1e-3)


def test_out_of_scope_rows_set_its_weight_and_the_limit():
    world = World()
    (known, labels), (valid, _), (more, _) = world.known(300), world.known(400), world.known(1000)
    background, strange = world.other(300).means, world.other(300)
    plain = fit_detector(known, labels, valid, OutsideTexts(background, background[:0])).detector
    told = fit_detector(
        known, labels, valid, OutsideTexts(background, strange.means, strange)
    ).detector
    asked = world.other(1000)
    assert told.outside(asked).mean() > plain.outside(asked).mean() + 0.05
    assert told.outside(more).mean() < 0.08
    assert told.auto_limit <= told.limit
    held = [one.judge(valid) for one in (plain, told)]
    plain_share, told_share = ((one.outside | one.doubtful).mean() for one in held)
    assert plain_share == pytest.approx(0.05, abs=0.01)
    assert plain_share < told_share <= 0.1


def test_limits_are_quantiles_of_the_held_out_scores():
    world = World()
    (known, labels), (valid, _) = world.known(300), world.known(200)
    scope = fit_detector(known, labels, valid).detector
    other, _ = world.known(999)
    moved = with_limits(scope, other)
    scores = np.sort(scope.outlier_score(other))
    assert moved.limit == pytest.approx(scores[979])  # 20 of 1,000 further rows lie above the 980th
    assert moved.auto_limit == pytest.approx(scores[949])
    np.testing.assert_array_equal(moved.weights, scope.weights)
    judged = moved.judge(other)
    assert (judged.outside.sum(), judged.doubtful.sum()) == (19, 30)


def test_a_refit_fits_the_direction_again():
    world = World()
    (known, labels), (valid, _) = world.known(300), world.known(200)
    outside = OutsideTexts(world.other(300).means, np.empty((0, WIDTH)))
    scope = fit_detector(known, labels, valid, outside).detector
    turned = np.roll(np.eye(WIDTH, dtype=np.float32), 3, axis=0)
    moved = refit_detector(
        scope,
        DetectorInputs(known.logits, known.means @ turned, known.words, known.lengths),
        labels,
        OutsideTexts(outside.background @ turned, outside.learned @ turned),
    )
    expected = scope.background @ turned
    cosine = moved.background @ expected / np.linalg.norm(moved.background)
    assert cosine / np.linalg.norm(expected) > 0.95
