"""Answers and decisions, in a table of small cases."""

import numpy as np
import pytest

from bertcnn.bundle.scope import Strangeness
from bertcnn.data.hierarchy import Hierarchy
from bertcnn.inference.decide import decide, most_probable
from bertcnn.settings import DECISIONS

FLAT = Hierarchy(("a", "b"), ())
LEVELS = Hierarchy.of(("x > a", "x > b", "y"))  # index 3 is "x", the parent
NEVER = np.inf


def strangeness(*, outside=False, doubtful=False, parts=(0, 0, 0, 0, 0), nearest=-1):
    """The outlier scores of one text."""
    return Strangeness(
        np.array([parts], np.float32),
        np.array([outside]),
        np.array([doubtful]),
        np.array([nearest], np.int32),
        np.array([0.5], np.float32),
    )


def decided(
    hierarchy,
    limits,
    probabilities,
    *,
    blank=False,
    outside=False,
    doubtful=False,
    foreign=False,
    given=None,
    parents=(),
):
    found = decide(
        np.array([probabilities], np.float32),
        np.array([blank]),
        strangeness(outside=outside, doubtful=doubtful),
        np.array([foreign]),
        hierarchy=hierarchy,
        limits=np.array(limits, np.float32),
        parent_thresholds=parents,
        predicted=None if given is None else np.array([given]),
    )
    return (
        int(found.labels[0]),
        round(float(found.confidence[0]), 4),
        DECISIONS[found.decisions[0]],
    )


@pytest.mark.parametrize(
    ("limits", "probabilities", "flags", "expected"),
    [
        ((0.8, 0.8), (0.9, 0.1), {}, (0, 0.9, "auto")),
        ((0.9, 0.8), (0.9, 0.1), {}, (0, 0.9, "auto")),  # exactly at the limit is enough
        ((0.8, 0.8), (0.3, 0.7), {}, (1, 0.7, "review:ambiguous")),
        ((0.2, 0.8), (0.3, 0.7), {}, (1, 0.7, "review:ambiguous")),  # each label has its own limit
        ((NEVER, NEVER), (1.0, 0.0), {}, (0, 1.0, "review:ambiguous")),
        ((0.8, 0.8), (0.9, 0.1), {"outside": True}, (0, 0.9, "review:out_of_scope")),
        ((0.8, 0.8), (0.9, 0.1), {"doubtful": True}, (0, 0.9, "review:ambiguous")),
        ((0.8, 0.8), (0.9, 0.1), {"foreign": True}, (0, 0.9, "review:language")),
        ((0.8, 0.8), (0.9, 0.1), {"foreign": True, "outside": True}, (0, 0.9, "review:language")),
        ((0.8, 0.8), (0.0, 0.0), {"blank": True}, (-1, 0.0, "review:empty")),
        ((0.8, 0.0), (0.0, 0.0), {"blank": True, "outside": True}, (-1, 0.0, "review:empty")),
    ],
)
def test_a_label_is_automatic_from_its_limit_on(limits, probabilities, flags, expected):
    assert decided(FLAT, limits, probabilities, **flags) == expected


@pytest.mark.parametrize(
    ("probabilities", "outside", "parents", "expected"),
    [
        ((0.5, 0.45, 0.05), False, (0.9,), (3, 0.95, "auto")),
        ((0.5, 0.45, 0.05), False, (0.99,), (0, 0.5, "review:ambiguous")),
        ((0.5, 0.45, 0.05), False, (None,), (0, 0.5, "review:ambiguous")),
        ((0.5, 0.45, 0.05), False, (), (0, 0.5, "review:ambiguous")),
        ((0.5, 0.45, 0.05), True, (0.9,), (0, 0.5, "review:out_of_scope")),
        ((0.9, 0.05, 0.05), False, (0.1,), (0, 0.9, "auto")),  # the label alone is confident enough
    ],
)
def test_a_parent_is_answered_where_no_label_is_certain_enough(
    probabilities, outside, parents, expected
):
    limits = (0.8, 0.8, 0.8)
    assert decided(LEVELS, limits, probabilities, outside=outside, parents=parents) == expected


@pytest.mark.parametrize(
    ("given", "flags", "expected"),
    [
        ((True, True), {}, (0, 0.72, "auto")),
        ((True, False), {}, (0, 0.18, "review:ambiguous")),
        # however certain the absence of labels is
        ((False, False), {}, (0, 0.02, "review:out_of_scope")),
        ((True, True), {"outside": True}, (0, 0.72, "review:out_of_scope")),
        ((False, False), {"blank": True}, (-1, 0.0, "review:empty")),
    ],
)
def test_all_of_several_labels_must_be_certain(given, flags, expected):
    assert decided(FLAT, (0.5, 0.5), (0.9, 0.8), given=given, **flags) == expected


def test_parents_follow_the_labels_probabilities():
    found = decide(
        np.array([[0.5, 0.25, 0.25]], np.float32),
        np.array([False]),
        strangeness(),
        np.array([False]),
        hierarchy=LEVELS,
        limits=np.ones(3, np.float32),
    )
    np.testing.assert_allclose(found.probabilities, [[0.5, 0.25, 0.25, 0.75]])
    assert [each.dtype for each in (found.labels, found.decisions)] == [np.int32, np.int32]


def test_no_text_is_decided_without_an_error():
    empty = np.empty((0, 2), np.float32)
    nothing = np.empty(0, bool)
    assert most_probable(empty, nothing).shape == (0,)
    none = Strangeness(np.empty((0, 5)), nothing, nothing, np.empty(0, np.int32), np.empty(0))
    found = decide(empty, nothing, none, nothing, hierarchy=FLAT, limits=np.ones(2, np.float32))
    assert len(found.labels) == len(found.decisions) == 0
