"""The data profile of a report."""

import numpy as np

from bertcnn.reports.profile import profile_rows


def test_repeats_conflicts_and_lengths_are_counted():
    texts = ["router", "router ", "router", "bill", "bill", "app"]
    profile = profile_rows(
        texts, ["a", "a", "b", "c", "c", "a"], np.array([3, 3, 3, 90, 90, 7]), truncated=2, limit=90
    )
    assert (profile.rows, profile.labels, profile.truncated) == (6, 3, 2)
    assert (profile.repeated, profile.conflicting) == (3, 1)
    assert profile.tokens == (3, 3, 90, 90)
    assert sum(bar.texts for bar in profile.lengths) == 6
    assert [profile.lengths[place].texts for place in (0, -1)] == [4, 2]
    assert profile.lengths[-1].first <= 90 <= profile.lengths[-1].last
