"""Labels that cannot be learned are refused, each with the reason."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from sklearn.exceptions import DataConversionWarning

from bertcnn.data.labels import check_label_types, check_labels, check_one_type, checked_labels
from bertcnn.errors import LabelError


@pytest.mark.parametrize(
    "labels", [["a", "b"], (1, 2), [True, False], np.array([1, 2]), pd.Series(["a"], index=[7])]
)
def test_strings_integers_and_truth_values_are_labels(labels):
    assert check_label_types(labels) == list(labels)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT, 1.0, b"a", ("a",)])
def test_a_missing_label_is_refused_with_its_place(missing):
    with pytest.raises(LabelError, match=r"as label number 2; expected a string or an integer"):
        check_label_types(["a", missing])


@pytest.mark.parametrize(
    "labels", ["ab", None, 3, np.array([["a"], ["b"]]), pd.DataFrame({"label": ["a", "b"]})]
)
def test_labels_that_are_not_a_list_are_refused(labels):
    with pytest.raises(LabelError, match="expected one dimension: a label for each text"):
        check_label_types(labels)


@pytest.mark.parametrize(
    ("labels", "types"), [([1, "1"], "integer and string"), ([True, 1], "bool and integer")]
)
def test_labels_that_would_become_one_are_refused(labels, types):
    with pytest.raises(LabelError, match=f"labels of the types {types}"):
        check_one_type(labels)


def test_too_few_labels_and_rows_are_refused_by_name():
    with pytest.raises(LabelError, match="0 labelled rows"):
        check_labels([])
    with pytest.raises(LabelError, match=r"1 label \('a'\)"):
        check_labels(["a", "a"])
    with pytest.raises(LabelError, match="2 of 3 labels with a single row: 'b, c'"):
        check_labels(["a", "a", "c", "b"])
    check_labels([1, 1, 2, 2])


@pytest.mark.parametrize(
    "column",
    [
        np.array([["a"], ["b"]]),
        pd.DataFrame({"label": ["a", "b"]}),
        pd.DataFrame({"label": pd.Categorical(["a", "b"])}),
        [("a",), {"b"}],
    ],
)
def test_a_column_vector_is_single_labels_as_scikit_learn_has_it(column):
    with pytest.warns(DataConversionWarning, match="are single labels"):
        assert checked_labels(column) == ["a", "b"]
    assert checked_labels(column, several=True) == [("a",), ("b",)]


@pytest.mark.parametrize("kind", [int, float, bool])
def test_numbers_in_a_column_vector_are_single_labels_too(kind):
    with pytest.warns(DataConversionWarning):
        assert checked_labels(np.array([[0], [1]], kind)) == [kind(0), kind(1)]
    assert checked_labels(np.array([0.0, 1.0, 2.0])) == [0, 1, 2]
    with pytest.raises(LabelError, match=r"'0\.5' of type float"):
        checked_labels([0.5, 1.0])


def test_a_table_of_ones_and_zeros_is_read_as_label_sets():
    table = pd.DataFrame({"billing": [1, 0, 1], "network": [False, False, True]})
    assert checked_labels(table) == [("billing",), (), ("billing", "network")]
    with pytest.raises(LabelError, match="columns 'label, other'; expected one column, or columns"):
        checked_labels(pd.DataFrame({"label": ["a"], "other": ["b"]}))
    with pytest.raises(LabelError, match=r"shape \(2, 2\) and type int64; .*give the names"):
        checked_labels(np.eye(2, dtype=np.int64))


def test_labels_of_pandas_and_pyarrow_are_labels():
    assert checked_labels(pd.Series(["a", "b"], dtype="category")) == ["a", "b"]
    assert checked_labels(pd.Series([[], ["a", "b"]])) == [(), ("a", "b")]
    assert checked_labels(pd.DataFrame({"labels": [[], ["a", "b"]]})) == [(), ("a", "b")]
    assert checked_labels(pyarrow.array(["a", "b"])) == ["a", "b"]
    assert checked_labels(np.array([["a", "b"], ["c", ""]])) == [("a", "b"), ("c",)]
    with pytest.raises(LabelError, match="type dict"):
        checked_labels([{"a": 1}])
