"""The threshold between an answer and none, compared with an exhaustive search and by hand."""

import numpy as np
import pytest

from bertcnn.tasks.question_answering.metrics import f1
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.spans import Span, SpanScores
from bertcnn.tasks.question_answering.threshold import (
    answer_of,
    best_temperature,
    best_threshold,
)

CONTEXT = "red green blue lamp"
WORDS = {"red": (0, 3), "green": (4, 9), "blue": (10, 14), "lamp": (15, 19)}
PHRASES = {**WORDS, "red green": (0, 9), "green blue": (4, 14), "blue lamp": (10, 19)}


def question(*answers):
    return Question("which?", CONTEXT, answers, tuple(map(CONTEXT.index, answers)))


def scores(none, **answers):
    """Scores of no answer and of answers by their words."""
    ranked = sorted(answers.items(), key=lambda item: -item[1])
    spans = (Span(*PHRASES[text.replace("_", " ")], score) for text, score in ranked)
    return SpanScores(tuple(spans), none)


def random_case(generator, ties):
    found, questions = [], []
    for _ in range(generator.integers(1, 12)):
        values = generator.normal(0, 3, 4)
        if ties:
            values = np.rint(values)
        texts = generator.choice(sorted(PHRASES), 3, replace=False)
        one = scores(float(values[0]), **dict(zip(texts, map(float, values[1:]), strict=True)))
        if generator.random() < 0.1:
            one = SpanScores((), 0.0)
        found.append(one)
        questions.append(
            question(*generator.choice(sorted(PHRASES), generator.integers(3), replace=False))
        )
    return found, questions


def mean_f1(found, questions, threshold):
    return np.mean(
        [
            f1(answer_of(one, CONTEXT, threshold), asked.answers)
            for one, asked in zip(found, questions, strict=True)
        ]
    )


def highest_f1(found, questions):
    """The highest mean F1 over all margins, where answers change, and one below them all."""
    margins = [one.margin for one in found if one.spans]
    return max(mean_f1(found, questions, at) for at in (-1e9, *margins))


@pytest.mark.parametrize("ties", [False, True])
def test_no_threshold_gives_a_higher_f1(ties):
    generator = np.random.default_rng(0)
    for _ in range(500):
        found, questions = random_case(generator, ties)
        if not any(one.spans for one in found):
            continue
        threshold = best_threshold(found, questions)
        assert isinstance(threshold, float)
        assert np.isfinite(threshold)
        assert mean_f1(found, questions, threshold) == pytest.approx(highest_f1(found, questions))


def test_a_threshold_stands_halfway_between_two_margins():
    found = [scores(0.0, red=4.0), scores(0.0, red=1.0), scores(0.0, red=3.0)]
    assert best_threshold(found, [question("red"), question(), question("red")]) == 2.0
    shifted = [SpanScores(one.spans, -5.0) for one in found]
    assert best_threshold(shifted, [question("red"), question(), question("red")]) == 7.0


def test_of_several_the_one_nearest_to_0_is_taken():
    wrong = question("lamp")  # neither an answer nor none is right
    found = [scores(0.0, red=margin) for margin in (-7.0, -2.0, 1.0, 6.0)]
    assert best_threshold(found, [wrong] * 4) == -0.5
    assert best_threshold(found[:2], [wrong] * 2) == -1.0
    assert best_threshold(found[2:], [wrong] * 2) == 0.0


def test_a_single_question_has_a_threshold_on_the_right_side():
    one = scores(1.0, red=3.0)
    assert best_threshold([one], [question("red")]) == 1.0
    assert best_threshold([one], [question()]) == 3.0


def test_questions_of_which_none_has_a_candidate_have_a_threshold():
    threshold = best_threshold([SpanScores((), 0.0)] * 2, [question(), question("red")])
    assert np.isfinite(threshold)


def test_an_answer_is_given_above_the_threshold_only():
    one = scores(1.0, green=3.0, red=2.0)
    assert answer_of(one, CONTEXT, 1.9) == "green"
    assert answer_of(one, CONTEXT, 2.0) == answer_of(one, CONTEXT, 5.0) == ""
    assert answer_of(SpanScores((), 0.0), CONTEXT, -np.inf) == ""


# === Temperature ===


def loss(found, places, threshold, temperature):
    shares = [
        one.probabilities(threshold, temperature)[place]
        for one, place in zip(found, places, strict=True)
    ]
    return -np.mean(np.log(np.maximum(shares, 1e-12)))


@pytest.mark.parametrize("spread", [1.0, 3.0, 12.0])
def test_the_temperature_lowers_the_loss_as_far_as_any(spread):
    generator = np.random.default_rng(1)
    found, questions, places = [], [], []
    for _ in range(60):
        values = dict(zip(WORDS, spread * generator.normal(size=4), strict=True))
        one = scores(float(spread * generator.normal()), **values)
        place = int(generator.choice(5, p=[0.5, 0.2, 0.1, 0.05, 0.15]))
        texts = [CONTEXT[span.start : span.end] for span in one.spans]
        found.append(one)
        places.append(place)
        questions.append(question(*texts[place : place + 1]))
    threshold = -0.3
    temperature = best_temperature(found, questions, threshold)
    reached = loss(found, places, threshold, temperature)
    others = np.geomspace(0.5, 20, 60)
    assert reached <= min(loss(found, places, threshold, other) for other in others) + 1e-6
    assert reached < loss(found, places, threshold, 1.0) - 1e-4
    assert 0.5 <= temperature <= 20


def test_sure_and_wrong_scores_are_softened_and_sure_and_right_ones_are_not():
    found = [scores(0.0, red=9.0, blue=1.0)] * 10
    assert best_temperature(found, [question("red")] * 10, 0.0) < 1
    assert best_temperature(found, [question("red"), question("blue")] * 5, 0.0) > 2


def test_of_several_right_answers_the_most_probable_counts():
    found = [scores(0.0, red=3.0, blue=1.0), scores(0.0, green=3.0, blue=1.0)]
    both = [question("blue", "red"), question("blue")]
    assert best_temperature(found, both, 0.0) == best_temperature(
        found, [question("red"), question("blue")], 0.0
    )


def test_without_a_right_answer_among_the_best_the_temperature_is_1():
    found = [scores(0.0, red=3.0), SpanScores((), 0.0)]
    assert best_temperature(found, [question("lamp"), question()], 0.0) == 1.0
    assert best_temperature([], [], 0.0) == 1.0
