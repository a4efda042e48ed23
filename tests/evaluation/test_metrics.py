"""Metrics, compared with scikit-learn's."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix

from bertcnn.data.label_sets import indicators
from bertcnn.errors import LabelError
from bertcnn.evaluation.metrics import LARGEST_MATRIX, describe_unknown, evaluate, evaluate_sets

NAMES = ("billing", "hardware", "software", "never used")
PAIRS = st.lists(
    st.tuples(st.sampled_from(NAMES[:3]), st.sampled_from(NAMES[:3])), min_size=1, max_size=40
)


@given(PAIRS)
def test_the_figures_are_scikit_learns(pairs):
    actual, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = evaluate(NAMES, actual, predicted)
    expected = classification_report(
        actual, predicted, labels=NAMES, output_dict=True, zero_division=0.0
    )
    occurring = classification_report(actual, predicted, output_dict=True, zero_division=0.0)
    assert found.rows == len(pairs)
    assert found.accuracy == pytest.approx(np.mean(np.array(actual) == np.array(predicted)))
    assert found.macro_f1 == pytest.approx(occurring["macro avg"]["f1-score"])
    assert found.weighted_f1 == pytest.approx(occurring["weighted avg"]["f1-score"])
    assert [label.name for label in found.labels] == list(NAMES)
    for label in found.labels:
        figures = expected[label.name]
        assert (label.precision, label.recall, label.f1) == pytest.approx(
            (figures["precision"], figures["recall"], figures["f1-score"])
        )
        assert label.support == figures["support"]
    np.testing.assert_array_equal(
        found.confusion, confusion_matrix(actual, predicted, labels=NAMES)
    )


@given(PAIRS)
def test_the_most_confused_pairs_account_for_every_error(pairs):
    found = evaluate(NAMES, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    counts = [pair.count for pair in found.most_confused]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == sum(actual != predicted for actual, predicted in pairs)
    for pair in found.most_confused:
        assert pair.count == pairs.count((pair.actual, pair.predicted)) > 0
        assert pair.share == pytest.approx(
            pair.count / sum(actual == pair.actual for actual, _ in pairs)
        )


def test_the_json_has_the_documented_keys():
    found = json.loads(
        json.dumps(evaluate(NAMES[:2], ["billing", "hardware"], ["billing", "billing"]).to_json())
    )
    keys = "rows accuracy macro_f1 weighted_f1 labels confusion most_confused"
    assert list(found) == keys.split()
    assert found["confusion"] == [[1, 0], [1, 0]]
    assert found["labels"][0] == {
        "name": "billing",
        "precision": 0.5,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
        "support": 1,
    }
    assert found["most_confused"] == [
        {"actual": "hardware", "predicted": "billing", "count": 1, "share": 1.0}
    ]


def test_rows_with_unknown_labels_count_as_wrong_as_in_scikit_learn():
    actual, predicted = (
        ["billing", "HR", "Sales", "Sales"],
        [
            "billing",
            "hardware",
            "billing",
            "billing",
        ],
    )
    found = evaluate(NAMES, actual, predicted)
    expected = classification_report(
        actual, predicted, labels=[*NAMES, "HR", "Sales"], output_dict=True, zero_division=0.0
    )
    assert found.accuracy == 0.25
    assert found.unknown_labels == ("HR", "Sales")
    assert [label.name for label in found.labels] == [*NAMES, "HR", "Sales"]
    for label in found.labels:
        assert (label.precision, label.recall, label.f1) == pytest.approx(
            tuple(expected[label.name][name] for name in ("precision", "recall", "f1-score"))
        )
    np.testing.assert_array_equal(
        found.confusion, confusion_matrix(actual, predicted, labels=[*NAMES, "HR", "Sales"])
    )
    occurring = classification_report(actual, predicted, output_dict=True, zero_division=0.0)
    assert found.macro_f1 == pytest.approx(occurring["macro avg"]["f1-score"])
    assert json.loads(json.dumps(found.to_json()))["unknown_labels"] == ["HR", "Sales"]
    assert (
        describe_unknown(NAMES, [(label,) for label in actual])
        == "3 of 4 rows have a label that the model does not know and count as wrong: 'Sales' (2),"
        " 'HR' (1)"
    )


def test_a_label_set_with_an_unknown_label_is_wrong():
    found = evaluate_sets(NAMES, [("billing", "sales"), ("billing",)], [("billing",), ("billing",)])
    assert (found.accuracy, found.unknown_labels, found.confusion.shape) == (
        0.5,
        ("sales",),
        (5, 5),
    )
    assert [label.support for label in found.labels] == [2, 0, 0, 0, 1]


def test_no_rows_or_only_unknown_labels_are_refused_with_the_most_frequent_named():
    with pytest.raises(LabelError, match=r"^0 rows to evaluate on"):
        evaluate(NAMES, [], [])
    message = r"^3 of 3 rows have a label the model does not know, first of all 'Sales' \(2 rows\)"
    with pytest.raises(LabelError, match=message):
        evaluate(NAMES, ["HR", "Sales", "Sales"], ["billing"] * 3)
    # the column of the labels may be the wrong one
    with pytest.raises(LabelError, match="1001 of 1002 rows"):
        evaluate(NAMES, ["billing", *map(str, range(1001))], ["billing"] * 1002)


SETS = st.lists(
    st.tuples(*[st.sets(st.sampled_from(NAMES[:3])).map(sorted).map(tuple)] * 2),
    min_size=1,
    max_size=40,
)


@given(SETS)
def test_the_figures_of_several_labels_are_scikit_learns(pairs):
    actual, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = evaluate_sets(NAMES, actual, predicted)
    truth, given_ = indicators(actual, NAMES), indicators(predicted, NAMES)
    expected = classification_report(
        truth, given_, target_names=NAMES, output_dict=True, zero_division=0.0
    )
    assert found.accuracy == pytest.approx(accuracy_score(truth, given_))
    assert found.weighted_f1 == pytest.approx(expected["weighted avg"]["f1-score"])
    for label in found.labels:
        figures = expected[label.name]
        assert (label.precision, label.recall, label.f1) == pytest.approx(
            (figures["precision"], figures["recall"], figures["f1-score"])
        )
        assert label.support == figures["support"]
    occurring = [
        expected[name]["f1-score"]
        for place, name in enumerate(NAMES)
        if (truth | given_)[:, place].any()
    ]
    assert found.macro_f1 == pytest.approx(np.mean(occurring) if occurring else 0.0)


def test_a_confusion_is_a_missed_label_with_a_wrong_one():
    actual = [("billing", "hardware"), ("billing",), ("software",)]
    predicted = [("billing", "software"), (), ("software", "billing")]
    found = evaluate_sets(NAMES, actual, predicted)
    np.testing.assert_array_equal(
        found.confusion, [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    )
    assert [
        (pair.actual, pair.predicted, pair.count, pair.share) for pair in found.most_confused
    ] == [("hardware", "software", 1, 1.0)]
    assert found.to_json()["several_labels"] is True
    with pytest.raises(LabelError, match="first of all 'sales'"):
        evaluate_sets(NAMES, [("sales",)], [()])


@pytest.mark.parametrize("labels", [LARGEST_MATRIX, LARGEST_MATRIX + 1])
def test_matrix_and_confused_pairs_agree(labels):
    names, rng = [str(number) for number in range(labels)], np.random.default_rng(0)
    actual, predicted = (rng.choice(names, 500).tolist() for _ in range(2))
    found = evaluate(names, actual, predicted)
    wanted = confusion_matrix(actual, predicted, labels=names)
    np.testing.assert_array_equal(found.confusion, wanted)
    if labels <= LARGEST_MATRIX:
        assert found.to_json()["confusion"] == wanted.tolist()
        assert "confusion_pairs" not in found.to_json()
    else:
        assert [
            [one, other, wanted[one, other]] for one, other in np.argwhere(wanted)
        ] == found.to_json()["confusion_pairs"]
