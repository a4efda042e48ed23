"""Near duplicates are found, other texts are left alone, and a large file takes little time."""

import time
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.data.splits import assign_folds
from bertcnn.doctor.similar import SIMILAR, similar_groups


def test_texts_that_share_some_words_are_not_the_same():
    texts = ["how do I change my pin", "how do I change my name", "my card was lost", ""]
    assert similar_groups(texts).tolist() == [0, 1, 2, 3]


@settings(max_examples=60)
@given(st.lists(st.text("ab cd", min_size=1, max_size=40), min_size=1, max_size=12, unique=True))
def test_pairs_are_grouped_by_their_jaccard_index(texts):
    groups = similar_groups(texts)
    assert all(groups[group] == group and group <= place for place, group in enumerate(groups))
    plain = [" ".join(text.split()) for text in texts]
    for one, two in combinations(range(len(texts)), 2):
        if jaccard(plain[one], plain[two]) >= SIMILAR + 0.1:
            assert groups[one] == groups[two]


def jaccard(one, other):
    """The Jaccard similarity of two texts' sets of 4-grams."""
    first, second = (
        {text[place : place + 4] for place in range(max(1, len(text) - 3))} for text in (one, other)
    )
    return len(first & second) / len(first | second)


def test_many_texts_of_one_template_take_no_quadratic_time():
    def seconds(rows):
        texts = [
            "dear customer your order"
            f" {chr(97 + row % 26)}{chr(97 + row // 26 % 26)}{chr(97 + row // 676)} is on its way"
            for row in range(rows)
        ]
        started = time.process_time()
        assert len(set(similar_groups(texts))) == 1
        return time.process_time() - started

    seconds(500)
    assert seconds(8000) < 12 * seconds(2000) + 1


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=1, max_size=60))
def test_folds_divide_no_group_and_are_even(rows):
    groups, labels = [group for group, _ in rows], [label for _, label in rows]
    folds = assign_folds(groups, labels, [str(group) for group in groups], 5)
    assert all(
        len({fold for fold, group in zip(folds, groups, strict=True) if group == wanted}) == 1
        for wanted in set(groups)
    )
    used = [
        len({group for fold, group in zip(folds, groups, strict=True) if fold == wanted})
        for wanted in range(5)
    ]
    assert max(used) - min(used) <= 1
