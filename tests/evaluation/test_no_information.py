"""Models that learned nothing are distinguished from informative ones and from too few rows."""

import json

import numpy as np
import pytest

from bertcnn.evaluation.no_information import (
    against_constant,
    against_constant_sets,
    fair_answers,
    most_frequent,
    saved_warning,
    usual_answer,
)

NAMES = ("a", "b", "c", "d", "e")


def drawn(rows, seed, shares=None):
    return np.random.default_rng(seed).choice(len(NAMES), rows, p=shares)


def test_random_answers_are_reported_as_uninformative_with_both_figures():
    actual = drawn(8000, 0)
    found = against_constant(NAMES, actual, drawn(8000, 1))
    assert found.verdict == "uninformative"
    assert found.rate == np.bincount(actual).max() / 8000
    assert found.describe() == (
        f"the text does not tell the label: {found.accuracy:.1%} right on held-out rows, where"
        f" always answering the most frequent one is right for {found.rate:.1%}"
    )
    metrics = json.loads(json.dumps({"no_information": found.to_json()}))
    assert usual_answer(metrics) == found.answer
    assert saved_warning(metrics) == f"{found.sentence()} {found.advice}"
    assert (usual_answer({}), saved_warning({})) == (None, "")


@pytest.mark.parametrize("labels", [2, 20])  # of 20 runs, many have no right answer
def test_chance_answers_rarely_pass_as_informative(labels):
    passed = []
    for seed in range(150):
        actual, predicted = np.random.default_rng(seed).integers(0, labels, (2, 300))
        passed.append(
            not against_constant(
                [str(one) for one in range(labels)], actual, predicted
            ).knows_nothing
        )
    assert np.mean(passed) <= 0.05


def test_too_few_rows_are_reported_as_inconclusive():
    found = against_constant(NAMES[:2], np.arange(12) % 2, np.arange(12) // 2 % 2)
    assert found.verdict == "unclear"
    assert found.describe().startswith("12 rows cannot show that the text predicts the label: ")


def test_a_model_that_finds_a_rare_label_is_informative():
    actual = (np.arange(1000) % 20 == 0).astype(int)  # 95 % of one label
    predicted = np.where(np.arange(1000) % 40 == 0, 1, np.arange(1000) % 33 == 0)
    found = against_constant(NAMES[:2], actual, predicted)
    assert found.low < 0 < found.balanced_low
    assert found.verdict == "informative"


def test_probabilities_that_rank_a_rare_label_are_informative_even_if_it_is_never_predicted():
    actual = (np.arange(1000) % 20 == 0).astype(int)
    rare = np.where(actual == 1, 0.2, 0.02)
    fair = fair_answers(np.stack([1 - rare, rare], axis=1), np.array([0.95, 0.05]))
    always = np.zeros(1000, int)
    assert against_constant(NAMES[:2], actual, always, fair=fair).verdict == "informative"
    assert against_constant(NAMES[:2], actual, always).verdict == "uninformative"


def test_the_baseline_is_the_most_frequent_training_label():
    actual = np.repeat([0, 1], [30, 70])
    assert against_constant(NAMES, actual, actual).rate == 0.7
    assert against_constant(NAMES, actual, actual, usual=("a",)).rate == 0.3
    assert most_frequent([3, 3, 7]) == ("3",)


def test_only_inseparable_label_pairs_are_named():
    actual = drawn(3000, 2)
    guess = drawn(3000, 3) % 2
    found = against_constant(NAMES, actual, np.where(actual < 2, guess, actual))
    assert found.verdict == "informative"
    assert found.inseparable == (("a", "b"),)
    assert found.describe_pairs() == "nothing separates 'a' from 'b'"
    half_right = np.where(drawn(3000, 4) % 2, guess, actual)
    separated = against_constant(NAMES, actual, np.where(actual < 2, half_right, actual))
    assert separated.inseparable == ()
    few = actual < 6 * (np.arange(3000) < 60)  # too few rows of the pair to prove it
    assert (
        against_constant(NAMES, actual[few], np.where(actual < 2, guess, actual)[few]).inseparable
        == ()
    )


def test_near_duplicates_count_as_one_row():
    actual = np.repeat(drawn(40, 5), 50)
    predicted = np.where(np.repeat(np.arange(40) % 3 > 0, 50), drawn(2000, 6), actual)
    alone = against_constant(NAMES, actual, predicted)
    together = against_constant(NAMES, actual, predicted, groups=np.arange(2000) // 50)
    assert together.high - together.low > 3 * (alone.high - alone.low)


@pytest.mark.parametrize(("knows", "verdict"), [(True, "informative"), (False, "uninformative")])
def test_a_set_of_labels_is_right_only_as_a_whole(knows, verdict):
    generator = np.random.default_rng(0)
    actual = generator.random((4000, 3)) < [0.7, 0.3, 0.2]
    given = actual if knows else generator.random((4000, 3)) < [0.7, 0.3, 0.2]
    found = against_constant_sets(NAMES[:3], actual, given)
    assert (found.verdict, found.answer) == (verdict, ("a",))
    assert against_constant_sets(NAMES[:3], actual, given, usual=("a", "b")).rate < found.rate
