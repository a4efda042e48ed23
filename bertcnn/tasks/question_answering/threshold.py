"""Threshold and temperature of answers, from held-out questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.tasks.question_answering.metrics import exact_match, f1
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.spans import SpanScores

_LOWEST, _HIGHEST = 0.5, 20.0  # temperature limits, as all of a few answers may be right


def answer_of(scores: SpanScores, context: str, threshold: float) -> str:
    """The best answer; empty if "no answer" is better."""
    if not scores.spans or scores.margin <= threshold:
        return ""
    best = scores.spans[0]
    return context[best.start : best.end]


def best_threshold(scores: Sequence[SpanScores], questions: Sequence[Question]) -> float:
    """The margin above "no answer" with the best F1 on these questions.

    It lies halfway between the margins of two questions (official evaluation script of SQuAD 2.0,
    `find_best_thresh`); if several are equally good, the one nearest to 0 is chosen.
    """
    both = [(one, question) for one, question in zip(scores, questions, strict=True) if one.spans]
    if not both:
        return 0.0
    gains = [  # from giving no answer
        f1("", question.answers) - f1(answer_of(one, question.context, -np.inf), question.answers)
        for one, question in both
    ]
    margins, inverse = np.unique([one.margin for one, _ in both], return_inverse=True)
    # total gain with no answer up to the k-th margin
    total = np.concatenate([[0.0], np.cumsum(np.bincount(inverse, gains))])
    edges = np.concatenate([[margins[0] - 1], (margins[1:] + margins[:-1]) / 2, [margins[-1] + 1]])
    best = np.flatnonzero(total >= total.max() - 1e-9)
    return float(edges[best[np.argmin(np.abs(edges[best]))]])


def best_temperature(
    scores: Sequence[SpanScores], questions: Sequence[Question], threshold: float
) -> float:
    """The temperature that maximises the likelihood of the right answers (Guo et al. 2017, 4.2).

    Questions whose right answer is not among the best spans do not count.
    """
    from scipy.optimize import minimize_scalar

    right = []
    for one, question in zip(scores, questions, strict=True):
        texts = [question.context[span.start : span.end] for span in one.spans]
        matches = (
            [index for index, text in enumerate(texts) if exact_match(text, question.answers)]
            if question.answerable
            else [len(texts)]
        )
        if matches and texts:
            right.append((one, matches[0]))
    if not right:
        return 1.0

    def loss(log_temperature: float) -> float:
        temperature = float(np.exp(log_temperature))
        shares = [one.probabilities(threshold, temperature)[index] for one, index in right]
        return -float(np.mean(np.log(np.maximum(shares, 1e-12))))

    result = minimize_scalar(loss, bounds=(np.log(_LOWEST), np.log(_HIGHEST)), method="bounded")
    return float(np.exp(result.x))
