"""Selection of the texts to label next."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.review.statistics.selection import cold_start_order, review_order

GOLDEN = Path(__file__).parents[2] / "golden" / "topics_golden.json"
WIDTH = 16


def clusters(sizes, noise=0.1):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    points = np.eye(WIDTH)[groups]
    points += noise * np.random.default_rng(0).normal(size=points.shape)
    return points.astype(np.float32), groups


def test_the_order_of_one_group_is_that_of_apricot():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    embeddings = np.array(golden["embeddings"], np.float32)
    found = cold_start_order(embeddings, np.zeros(len(embeddings), int), per_group=25)
    assert found.tolist() == golden["order"][:25]
    lengths = np.linspace(1, 9, len(embeddings))[:, np.newaxis]  # only directions matter
    found = review_order(np.ones(len(embeddings)), lengths * embeddings, size=10)
    assert found.tolist() == golden["order"][:10]


def test_a_cold_start_takes_turns_the_largest_group_first():
    embeddings, groups = clusters([5, 9, 2])
    found = cold_start_order(embeddings, groups, per_group=4)
    assert groups[found].tolist() == [1, 0, 2, 1, 0, 2, 1, 0, 1, 0]
    assert len(set(found.tolist())) == 10


def test_texts_without_a_group_are_left_out():
    embeddings, groups = clusters([5, 9])
    groups[groups == 0] = -1
    assert set(groups[cold_start_order(embeddings, groups)]) == {1}
    assert cold_start_order(embeddings, np.full(14, -1)).tolist() == []


def test_review_prefers_what_is_more_uncertain():
    embeddings, groups = clusters([20, 20])
    uncertainty = np.where(groups == 1, 0.9, 0.2)
    assert groups[review_order(uncertainty, embeddings, size=2)].tolist() == [1, 0]


def test_review_leaves_what_is_like_labelled_texts_for_later():
    embeddings, groups = clusters([30, 30])
    uncertainty = np.where(groups == 0, 0.9, 0.6)
    assert groups[review_order(uncertainty, embeddings, size=1)].tolist() == [0]
    labelled = embeddings[groups == 0][:10]
    found = review_order(uncertainty, embeddings, size=1, labelled=labelled)
    assert groups[found].tolist() == [1]
    nothing = review_order(uncertainty, embeddings, size=1, labelled=embeddings[:0])
    assert groups[nothing].tolist() == [0]


def test_no_label_has_more_than_a_third_of_a_batch():
    embeddings, groups = clusters([60, 20, 20, 20])
    uncertainty = np.where(groups == 0, 0.9, 0.3)
    found = review_order(uncertainty, embeddings, size=40, predicted=groups)
    for first in (0, 20):
        assert np.bincount(groups[found[first : first + 20]]).max() <= 6
    free = review_order(uncertainty, embeddings, size=40)
    assert np.bincount(groups[free[:20]]).max() > 6


def test_the_limit_gives_way_where_there_is_no_other_label():
    embeddings, groups = clusters([10])
    found = review_order(np.ones(10), embeddings, size=10, predicted=groups)
    assert sorted(found) == list(range(10))


@pytest.mark.parametrize(("doubtful", "chosen"), [(900, {0, 1}), (1000, {1})])
def test_only_the_thousand_most_uncertain_texts_are_compared(doubtful, chosen):
    embeddings, groups = clusters([100, doubtful])
    uncertainty = np.where(groups == 1, 0.9, 0.8)
    assert set(groups[review_order(uncertainty, embeddings, size=2)]) == chosen


def test_more_than_there_is_gives_all():
    embeddings, _ = clusters([4])
    assert sorted(review_order(np.zeros(4), embeddings, size=9)) == [0, 1, 2, 3]
    assert review_order(np.empty(0), np.empty((0, WIDTH)), size=9).tolist() == []


def test_arrays_of_different_lengths_are_refused():
    embeddings, groups = clusters([4])
    with pytest.raises(SettingsError, match="arrays of 4, 3 rows; expected a row for each text"):
        cold_start_order(embeddings, groups[:3])
    with pytest.raises(SettingsError, match="arrays of 4, 4, 2 rows"):
        review_order(np.ones(4), embeddings, size=2, predicted=groups[:2])
