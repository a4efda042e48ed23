"""Labels that cannot be learned from are refused, each with what is wrong with them."""

import numpy as np
import pandas as pd
import pytest

from bertcnn.data.labels import check_label_types, check_labels, check_one_type
from bertcnn.errors import LabelError


@pytest.mark.parametrize(
    "labels",
    [["a", "b"], (1, 2), [True, False], np.array([1, 2]), np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 9]), [np.bool_(True)]],
)
def test_strings_integers_and_truth_values_are_labels(labels):
    assert check_label_types(labels) == list(labels)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT, 1.0, b"a", ("a",)])
def test_a_missing_label_is_refused_with_its_place(missing):
    with pytest.raises(LabelError, match=r"as label number 2; expected a string or an integer"):
        check_label_types(["a", missing])


@pytest.mark.parametrize("labels", ["ab", None, 3, np.array([["a"], ["b"]]), pd.DataFrame({"label": ["a", "b"]})])
def test_what_is_no_list_of_labels_is_refused(labels):
    with pytest.raises(LabelError, match="expected one dimension: a label for each text"):
        check_label_types(labels)


@pytest.mark.parametrize(("labels", "types"), [([1, "1"], "integer and string"), ([True, 1], "bool and integer")])
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
