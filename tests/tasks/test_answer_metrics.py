"""Exact match and F1 of answers, compared with values calculated by hand."""

import json

import pytest

from bertcnn.errors import TableError
from bertcnn.tasks.question_answering.metrics import (
    AnswerFigures,
    exact_match,
    f1,
    normalized,
)
from bertcnn.tasks.question_answering.questions import Question


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The Router", "router"),
        ("a LED and an aerial in the attic", "led and aerial in attic"),
        ("another theatre, Anna", "another theatre anna"),  # articles as whole words only
        ("  two \t lamps\n\n on ", "two lamps on"),
        ("it's 44.90!", "its 4490"),
        ("grey-green (dark)", "greygreen dark"),
        ("the-router", "therouter"),  # punctuation goes before articles
        ("a.", ""),
        ("The", ""),
        ("...", ""),
        ("", ""),
        ("20 €", "20 €"),  # no ASCII punctuation
        ("ÜBER uns", "über uns"),
    ],
)
def test_an_answer_is_normalized(answer, expected):
    assert normalized(answer) == expected


@pytest.mark.parametrize(
    ("predicted", "answers", "expected"),
    [
        ("the router", ["Router."], 1.0),
        ("router", ["modem", "the router"], 1.0),
        ("old router", ["modem", "the router"], 0.0),
        ("lamp red", ["red lamp"], 0.0),
        ("", [], 1.0),
        ("the", [], 1.0),  # empty once normalized, as in the official script
        ("router", [], 0.0),
        ("", ["router"], 0.0),
        ("", ["the", "router"], 0.0),  # an answer that is empty once normalized is dropped
        ("", ["the"], 1.0),
    ],
)
def test_exact_match(predicted, answers, expected):
    assert exact_match(predicted, answers) == expected


@pytest.mark.parametrize(
    ("predicted", "answers", "expected"),
    [
        ("the red lamp", ["red lamp!"], 1.0),
        ("lamp red", ["red lamp"], 1.0),  # order does not count
        ("on Monday", ["Monday"], 2 / 3),  # precision 1/2, recall 1
        ("red lamp on the box", ["lamp of box"], 4 / 7),  # precision 2/4, recall 2/3
        ("no no no", ["no no"], 4 / 5),  # precision 2/3, recall 1
        ("no", ["no no no"], 1 / 2),  # precision 1, recall 1/3
        ("red lamp", ["lamp", "red lamp on", "blue"], 4 / 5),  # the best of 2/3, 4/5 and 0
        ("modem", ["router"], 0.0),
        ("", [], 1.0),
        ("", ["router"], 0.0),
        ("router", [], 0.0),
        ("a", [], 1.0),
    ],
)
def test_f1(predicted, answers, expected):
    assert f1(predicted, answers) == pytest.approx(expected, abs=1e-12)


def question(*answers):
    context = " ".join(answers) or "nothing"
    return Question("?", context, answers, tuple(map(context.index, answers)))


def test_figures_of_questions_with_and_without_answers():
    questions = [question("red lamp"), question("Monday"), question("box"), question(), question()]
    figures = AnswerFigures.of(["the red lamp", "on Monday", "", "", "router"], questions)
    assert figures.to_json() == {
        "questions": 5,
        "exact": pytest.approx(2 / 5),
        "f1": pytest.approx((1 + 2 / 3 + 0 + 1 + 0) / 5),
        "answerable": 3,
        "answerable_exact": pytest.approx(1 / 3),
        "answerable_f1": pytest.approx(5 / 9),
        "unanswerable": 2,
        "unanswerable_right": pytest.approx(1 / 2),
        "never_answering": pytest.approx(2 / 5),
    }
    assert AnswerFigures.from_json({**figures.to_json(), "more": 1}) == figures
    assert json.loads(json.dumps(figures.to_json())) == figures.to_json()


def test_the_lines_compare_with_never_answering_and_warn_if_that_is_as_good():
    questions = [question("red lamp"), question("Monday"), question()]
    better = AnswerFigures.of(["red lamp", "", ""], questions).lines
    assert better == [
        "3 questions: exact match 66.7%, F1 66.7% (never answering: 33.3%)",
        "2 with an answer: exact match 50.0%, F1 50.0%",
        "1 without an answer: 100.0% of them left unanswered",
    ]
    silent = AnswerFigures.of(["", "", ""], questions).lines
    assert silent[-1].startswith("WARNING: never answering is as good as this model")
    assert len(AnswerFigures.of(["red lamp"], questions[:1]).lines) == 2


def test_the_figure_of_a_missing_kind_of_question_is_none():
    assert AnswerFigures.of(["x"], [question("x")]) == AnswerFigures(1, 1, 1, 1, 1, 1, 0, None)
    assert AnswerFigures.of(["x"], [question()]) == AnswerFigures(1, 0, 0, 0, None, None, 1, 0)


@pytest.mark.parametrize(
    ("predicted", "questions", "message"),
    [
        ([], [], "0 predictions for 0 questions; expected a list with a prediction for each"),
        (["a"], [question(), question()], "1 predictions for 2 questions"),
        ("a", [question()], "1 predictions for 1 questions"),
    ],
)
def test_predictions_that_do_not_fit_the_questions_are_refused(predicted, questions, message):
    with pytest.raises(TableError, match=message):
        AnswerFigures.of(predicted, questions)
