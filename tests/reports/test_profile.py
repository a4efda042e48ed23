"""The data profile of a report."""

import numpy as np

from bertcnn.reports.profile import profile_rows


def test_repeats_conflicts_and_lengths_are_counted():
    texts = ["router", "router ", "router", "bill", "bill", "app"]
    profile = profile_rows(
        texts, ["a", "a", "b", "c", "c", "a"], np.array([3, 3, 3, 90, 90, 7]), truncated=2, limit=90
    )
    assert (
        profile.rows,
        profile.labels,
        profile.repeated,
        profile.conflicting,
        profile.truncated,
    ) == (6, 3, 3, 1, 2)
    assert profile.tokens == (3, 3, 90, 90)
    assert sum(bar.texts for bar in profile.lengths) == 6
    assert (profile.lengths[0].first, profile.lengths[0].texts, profile.lengths[-1].texts) == (
        3,
        4,
        2,
    )
    assert profile.lengths[-1].first <= 90 <= profile.lengths[-1].last


def test_texts_of_one_length_make_one_bar():
    (bar,) = profile_rows(["a", "b"], ["x", "y"], np.array([4, 4]), truncated=0, limit=8).lengths
    assert (bar.first, bar.last, bar.texts) == (4, 4, 2)
