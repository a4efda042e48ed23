"""The best answers, compared with an exhaustive search."""

import numpy as np
import pytest

from bertcnn.tasks.question_answering.spans import Span, SpanScores, best_spans
from bertcnn.tasks.windows import Window

FIRST = 3  # tokens before the context: [CLS], a question of one token and [SEP]


def window(row, start, tokens):
    """A window onto a context whose tokens have 2 characters and a space each."""
    spans = np.array([[3 * place, 3 * place + 2] for place in range(start, start + tokens)])
    return Window(row, np.ones(FIRST + tokens + 1, np.int32), FIRST, spans.astype(np.int32))


def random_case(generator, most_tokens=9):
    """Overlapping windows of up to 4 questions, and scores, some of them equal."""
    rows = int(generator.integers(1, 5))
    windows = []
    for row in range(rows):
        for number in range(generator.integers(0, 4)):
            windows.append(window(row, 2 * number, int(generator.integers(1, most_tokens))))
    scores = [generator.normal(0, 3, (len(one.token_ids), 2)) for one in windows]
    if generator.integers(2):
        scores = [np.rint(one) for one in scores]
    return rows, windows, [one.astype(np.float32) for one in scores]


def search(row, windows, scores, longest, most):
    """Every answer to a question with its score, the best first, by exhaustive search."""
    found = {}
    for one, both in zip(windows, scores, strict=True):
        if one.row != row:
            continue
        for start, (first, _) in enumerate(one.spans.tolist()):
            for end, (_, last) in enumerate(one.spans.tolist()):
                if start <= end and end - start + 1 <= longest:
                    score = float(both[FIRST + start, 0]) + float(both[FIRST + end, 1])
                    found[first, last] = max(score, found.get((first, last), -np.inf))
    return sorted(found.items(), key=lambda item: -item[1])[:most]


def test_they_equal_an_exhaustive_search():
    generator = np.random.default_rng(0)
    for _ in range(1000):
        rows, windows, scores = random_case(generator)
        longest, most = int(generator.integers(1, 10)), int(generator.integers(1, 8))
        found = best_spans(windows, scores, rows, longest=longest, most=most)
        assert len(found) == rows
        for row, answers in enumerate(found):
            expected = search(row, windows, scores, longest, most)
            np.testing.assert_allclose(
                [span.score for span in answers.spans], [score for _, score in expected]
            )
            every = dict(search(row, windows, scores, longest, 1000))
            places = [(span.start, span.end) for span in answers.spans]
            assert len(set(places)) == len(places)
            for span in answers.spans:
                assert every[span.start, span.end] == pytest.approx(span.score)
                assert 0 <= span.start < span.end
                assert span.end - span.start <= 3 * longest - 1
            none = [
                both[0].sum() for one, both in zip(windows, scores, strict=True) if one.row == row
            ]
            assert answers.none == pytest.approx(min(none) if none else 0.0)
            if expected:
                assert answers.margin == pytest.approx(expected[0][1] - answers.none)


def only(windows, scores, longest=30, most=5):
    (found,) = best_spans(windows, scores, 1, longest=longest, most=most)
    return found


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_a_long_window_always_has_an_answer_with_the_score_of_its_tokens(longest):
    """In a long window, only some starts and ends are combined."""
    tokens = 100
    generator = np.random.default_rng(2)
    for _ in range(20):
        both = generator.normal(size=(FIRST + tokens + 1, 2)).astype(np.float32)
        found = only([window(0, 0, tokens)], [both], longest=longest)
        every = dict(search(0, [window(0, 0, tokens)], [both], longest, 10_000))
        assert len(found.spans) > 0
        for span in found.spans:
            assert every[span.start, span.end] == pytest.approx(span.score)


def test_a_window_whose_high_ends_all_come_before_its_high_starts_has_an_answer_too():
    tokens = 50
    rising = np.arange(FIRST + tokens + 1, dtype=np.float32)
    found = only([window(0, 0, tokens)], [np.stack([rising, -rising], axis=1)])
    assert found.spans
    assert found.spans[0].score == 0.0  # an answer of one token


def test_probabilities_sum_to_one_in_the_order_of_the_answers():
    spans = (Span(0, 2, 3.0), Span(3, 5, 1.0))
    scores = SpanScores(spans, none=2.0)
    for threshold in (-4.0, 0.0, 2.5):
        for temperature in (0.05, 1.0, 7.0):
            shares = scores.probabilities(threshold, temperature)
            assert shares.shape == (3,)
            assert shares.sum() == pytest.approx(1.0)
            assert (shares >= 0).all()
            assert shares[0] >= shares[1]
            assert (shares[2] > shares[0]) == (2.0 + threshold > 3.0)
            odds = np.exp((3.0 - 2.0 - threshold) / temperature)
            assert shares[0] / max(shares[2], 1e-300) == pytest.approx(odds)
    assert SpanScores((), 0.0).probabilities(1.0, 2.0).tolist() == [1.0]
    large = SpanScores((Span(0, 2, 5e4), Span(3, 5, -5e4)), -1e4).probabilities(0.0, 0.2)
    assert large.tolist() == [1.0, 0.0, 0.0]


def test_without_windows_there_are_no_answers():
    found = best_spans([], [], 2, longest=5)
    assert found == [SpanScores((), 0.0)] * 2
    assert found[0].margin == -np.inf
    assert best_spans([], [], 0, longest=5) == []
    some = best_spans([window(1, 0, 3)], [np.zeros((FIRST + 4, 2), np.float32)], 3, longest=5)
    assert [bool(one.spans) for one in some] == [False, True, False]
