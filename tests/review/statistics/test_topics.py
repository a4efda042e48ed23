"""Topics: groups of texts without a label, and their names."""

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from bertcnn.errors import SettingsError
from bertcnn.review.statistics.topics import class_tf_idf, find_topics, name_groups, suggest_labels

GOLDEN = Path(__file__).parents[2] / "golden" / "topics_golden.json"
WIDTH = 32
WORDS = ["router", "invoice", "password", "antenna", "contract", "webmail"]


def texts_about(sizes, strange=0, seed=0, noise=0.08):
    """Clusters in random directions with one word each, mixed with random points."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(len(sizes), WIDTH))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.full(strange, -1)])
    truth = generator.permutation(truth)
    points = np.where(
        (truth >= 0)[:, np.newaxis],
        centres[truth] + noise * generator.normal(size=(len(truth), WIDTH)),
        generator.normal(size=(len(truth), WIDTH)),
    )
    texts = [
        f"please help with the {WORDS[one]} number {place}" if one >= 0 else f"hello {place}"
        for place, one in enumerate(truth)
    ]
    return points.astype(np.float32), texts, truth


def test_class_tf_idf_is_that_of_bertopic():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found = class_tf_idf(np.array(golden["counts"]))
    assert found == pytest.approx(np.array(golden["class_tf_idf"]), abs=1e-9)


def test_topics_are_found_among_texts_about_anything():
    embeddings, texts, truth = texts_about([30, 20, 15], strange=120)
    found = find_topics(embeddings, texts)
    assert [one.name.split(", ")[0] for one in found] == WORDS[:3]
    for group, topic in enumerate(found):
        own = np.flatnonzero(truth == group)
        right = len(set(topic.rows) & set(own.tolist()))
        assert right >= 0.85 * len(own)
        assert right >= 0.85 * len(topic.rows)


@pytest.mark.parametrize("strange", [12, 60, 200])
def test_texts_about_anything_are_no_topic(strange):
    embeddings, texts, _ = texts_about([1], strange=strange)
    assert find_topics(embeddings, texts) == []


def test_a_topic_has_enough_texts():
    embeddings, texts, _ = texts_about([30, 12], strange=60)
    assert len(find_topics(embeddings, texts)) == 2
    assert len(find_topics(embeddings, texts, fewest_texts=20)) == 1
    assert find_topics(embeddings[:9], texts[:9]) == []
    assert find_topics(np.empty((0, WIDTH), np.float32), []) == []


def test_a_topic_comes_on_enough_days():
    embeddings, texts, truth = texts_about([25, 20], strange=60)
    start = date(2026, 4, 1)
    days = [
        start + timedelta(days=place % (5 if one == 1 else 2)) for place, one in enumerate(truth)
    ]
    found = find_topics(embeddings, texts, days)
    assert [(one.name.split(", ")[0], one.days) for one in found] == [("invoice", 5)]
    assert len(find_topics(embeddings, texts, days, fewest_days=2)) == 2
    assert [one.days for one in find_topics(embeddings, texts)] == [None, None]


def test_the_nearest_to_the_centre_comes_first():
    embeddings, texts, _ = texts_about([30, 20], strange=40)
    rows = np.array(find_topics(embeddings, texts)[0].rows)
    directions = embeddings[rows] / np.linalg.norm(embeddings[rows], axis=1, keepdims=True)
    assert (np.diff(directions @ directions.mean(axis=0)) <= 1e-6).all()


def test_candidate_labels_cover_every_text():
    embeddings, texts, truth = texts_about([90, 70, 60, 50, 40], noise=0.1)
    found = suggest_labels(embeddings, texts)
    assert sorted(row for one in found for row in one.rows) == list(range(len(texts)))
    groups = np.empty(len(texts), int)
    for group, topic in enumerate(found):
        groups[list(topic.rows)] = group
    assert adjusted_rand_score(truth, groups) == 1
    assert [one.name.split(", ")[0] for one in found] == WORDS[:5]


def test_no_more_candidates_than_asked_for_or_than_texts_allow():
    embeddings, texts, _ = texts_about([40] * 6, strange=60)
    assert len(suggest_labels(embeddings, texts, most=7)) <= 7
    assert len(suggest_labels(embeddings, texts, most=3)) == 3
    assert len(suggest_labels(embeddings[:25], texts[:25])) == 2
    assert len(suggest_labels(embeddings[:9], texts[:9])) == 1
    assert suggest_labels(embeddings[:0], []) == []


def test_equal_texts_are_one_candidate():
    same = np.ones((60, WIDTH), np.float32)
    found = suggest_labels(same, ["where is my parcel"] * 60)
    assert [(len(one.rows), one.name) for one in found] == [(60, "is, my, parcel")]


def test_words_of_all_texts_name_no_group():
    texts = ["my router is off"] * 3 + ["my bill is high"] * 3 + ["my mail is gone"] * 3
    names = name_groups(texts, np.repeat([0, 1, 2], 3))
    assert [set(name.split(", ")) for name in names.values()] == [
        {"off", "router", "is"},
        {"bill", "high", "is"},
        {"gone", "mail", "is"},
    ]
    assert all(name.endswith("is") for name in names.values())


def test_a_name_needs_words_of_three_texts():
    texts = ["router of Mrs Smith", "router off", "router dead", "bill", "bill", "mail", "mail"]
    names = name_groups(texts, np.array([0, 0, 0, 1, 1, -1, -1]))
    assert names == {0: "router", 1: "group 2"}


def test_forms_of_a_word_are_one():
    texts = ["invoice invoices wrong 42", "invoice invoices wrong 43", "invoice invoices wrong 44"]
    assert name_groups(texts, np.zeros(3, int)) == {0: "invoice, wrong"}


def test_a_topic_without_embeddings_is_refused():
    embeddings, texts, _ = texts_about([12])
    with pytest.raises(SettingsError, match="12 texts, 11 embeddings; expected one for each text"):
        find_topics(embeddings[1:], texts)
    with pytest.raises(SettingsError, match="12 texts, 12 embeddings, 1 day"):
        find_topics(embeddings, texts, [date(2026, 4, 1)])
    with pytest.raises(SettingsError, match="11 texts, 12 embeddings"):
        suggest_labels(embeddings, texts[1:])
