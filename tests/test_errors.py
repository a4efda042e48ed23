"""The error classes, when they cross process boundaries."""

import pickle

import pytest

from bertcnn import errors
from bertcnn.scoring.run import ScoringInterrupted

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.BertCNNError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_can_be_pickled(kind):
    error = kind("0 rows in a.csv", expected="at least 1 row", fix="check the file")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(again) is kind
    assert (again.given, again.expected, again.fix, str(again)) == (
        error.given,
        error.expected,
        error.fix,
        str(error),
    )


def test_an_interruption_can_be_pickled():
    assert pickle.loads(pickle.dumps(ScoringInterrupted(1234))).rows == 1234  # noqa: S301 - our own
