"""BIO tags of words, and decoding compared with trying all sequences."""

from itertools import product

import numpy as np
import pytest

from bertcnn.tasks.token_labels.labelled_texts import Span
from bertcnn.tasks.token_labels.tags import decode, log_probabilities, tags_of_spans

LABELS = ("A", "B")
WORDS = np.array([[0, 4], [5, 8], [8, 9], [10, 12]])


def valid(tags):
    pairs = zip((0, *tags), tags, strict=False)
    return all(tag == 0 or tag % 2 or before in (tag, tag - 1) for before, tag in pairs)


def spans_in(tags):
    found = []
    for word, tag in enumerate(tags):
        if tag % 2:
            found.append([word, word, LABELS[tag // 2]])
        elif tag:
            found[-1][1] = word
    return [tuple(span) for span in found]


@pytest.mark.parametrize("seed", range(30))
def test_the_best_valid_sequence_is_chosen_and_probabilities_are_sums_over_all(seed):
    logs = log_probabilities(np.random.default_rng(seed).standard_normal((4, 5)) * 2, 1.3)
    sequences = [tags for tags in product(range(5), repeat=4) if valid(tags)]
    weights = np.exp([logs[range(4), tags].sum() for tags in sequences])
    best = spans_in(sequences[int(np.argmax(weights))])
    found = decode(logs, WORDS, LABELS)
    places = [(int(WORDS[a, 0]), int(WORDS[b, 1]), label) for a, b, label in best]
    assert [(one.start, one.end, one.label) for one in found] == places
    for span, one in zip(best, found, strict=True):
        share = sum(w for w, tags in zip(weights, sequences, strict=True) if span in spans_in(tags))
        assert one.probability == pytest.approx(share / weights.sum())


def test_an_inside_tag_never_begins_a_span_or_changes_its_label():
    scores = np.full((3, 5), -9.0)
    scores[[0, 1, 2], [2, 2, 4]] = 9.0  # I-A I-A I-B is forbidden
    for span in decode(log_probabilities(scores), WORDS[:3], LABELS):
        assert span.probability <= 1
    assert decode(np.empty((0, 5)), WORDS[:0], LABELS) == []


def test_spans_take_whole_words_and_what_they_lose_is_counted():
    tags, widened, lost = tags_of_spans(WORDS, [Span(0, 8, "A"), Span(10, 12, "B")], LABELS)
    assert (tags.tolist(), widened, lost) == ([1, 2, 0, 3], 0, 0)
    tags, widened, lost = tags_of_spans(WORDS, [Span(6, 7, "B")], LABELS)
    assert (tags.tolist(), widened, lost) == ([0, 3, 0, 0], 1, 0)
    tags, widened, lost = tags_of_spans(WORDS, [Span(0, 6, "A"), Span(6, 9, "B")], LABELS)
    assert (tags.tolist(), widened, lost) == ([1, 2, 3, 0], 1, 1)
    tags, widened, lost = tags_of_spans(WORDS, [Span(4, 5, "A")], LABELS)
    assert (tags.tolist(), widened, lost) == ([0, 0, 0, 0], 0, 1)
