"""Exact match and F1 of predicted answers, as SQuAD defines them.

Rajpurkar, Zhang, Lopyrev and Liang, "SQuAD: 100,000+ Questions for Machine Comprehension of Text",
EMNLP 2016; Rajpurkar, Jia and Liang, "Know What You Don't Know: Unanswerable Questions for SQuAD",
ACL 2018. The definitions follow the official evaluation script, version 2.0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import compress
from typing import Any

from bertcnn.errors import TableError
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.wording import count

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """Normalize an answer for comparison.

    Lower case, no ASCII punctuation, no English articles, single spaces between words.

    Example:
        >>> normalized("The  router's LED, a red one.")
        'routers led red one'
    """
    text = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """1.0 if a prediction equals one of the answers after normalization, else 0.0.

    An empty prediction means "no answer".

    Example:
        >>> exact_match("the router", ["modem", "Router."]), exact_match("", [])
        (1.0, 1.0)
    """
    return float(normalized(predicted) in _accepted(answers))


def f1(predicted: str, answers: Sequence[str]) -> float:
    """The best word F1, 0 to 1, of a prediction with any of the answers.

    If there is no answer, only an empty prediction is right.

    Example:
        >>> f1("red lamp", ["a red light", "lamp"]) == 2 / 3  # precision 1/2, recall 1
        True
    """
    words = normalized(predicted).split()
    return max(_word_f1(words, answer.split()) for answer in _accepted(answers))


def _accepted(answers: Sequence[str]) -> list[str]:
    """The normalized non-empty answers, or one empty answer."""
    return [text for answer in answers if (text := normalized(answer))] or [""]


def _word_f1(predicted: list[str], answer: list[str]) -> float:
    if not predicted or not answer:
        return float(predicted == answer)
    shared = (Counter(predicted) & Counter(answer)).total()
    return 2 * shared / (len(predicted) + len(answer))


@dataclass(frozen=True)
class AnswerFigures:
    """The quality of predicted answers: exact match and F1, 0 to 1.

    Means over answerable questions, and the share of unanswerable questions with an empty
    prediction, are None if there are no such questions.
    """

    questions: int
    exact: float
    f1: float
    answerable: int
    answerable_exact: float | None
    answerable_f1: float | None
    unanswerable: int
    unanswerable_right: float | None

    @classmethod
    def of(cls, predicted: Sequence[str], questions: Sequence[Question]) -> AnswerFigures:
        """Compare predictions with accepted answers; there must be one for each question."""
        if isinstance(predicted, str) or not questions or len(predicted) != len(questions):
            raise TableError(
                f"{len(predicted)} predictions for {len(questions)} questions",
                expected="a list with a prediction for each question, and at least 1",
                fix="predict an answer to each question",
            )
        answers = [question.answers for question in questions]
        exact = [exact_match(*pair) for pair in zip(predicted, answers, strict=True)]
        overlap = [f1(*pair) for pair in zip(predicted, answers, strict=True)]
        has_answer = [question.answerable for question in questions]
        has_none = [not has for has in has_answer]
        return cls(
            questions=len(questions),
            exact=sum(exact) / len(questions),
            f1=sum(overlap) / len(questions),
            answerable=sum(has_answer),
            answerable_exact=_mean(exact, has_answer),
            answerable_f1=_mean(overlap, has_answer),
            unanswerable=sum(has_none),
            unanswerable_right=_mean(exact, has_none),
        )

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> AnswerFigures:
        """The figures in an object of `to_json`, which may hold others too."""
        return cls(**{field.name: record[field.name] for field in fields(cls)})

    @property
    def never_answering(self) -> float:
        """Exact match and F1 of a program that never gives an answer."""
        return self.unanswerable / self.questions

    @property
    def lines(self) -> list[str]:
        """The figures in words: all questions, then those with and those without an answer.

        The last line is a warning if never answering is at least as good.
        """
        lines = [
            f"{count(self.questions, 'question')}: exact match {self.exact:.1%}, F1 {self.f1:.1%}"
            f" (never answering: {self.never_answering:.1%})"
        ]
        if self.answerable_f1 is not None:
            lines.append(
                f"{self.answerable:,} with an answer: exact match {self.answerable_exact:.1%}, F1"
                f" {self.answerable_f1:.1%}"
            )
        if self.unanswerable_right is not None:
            lines.append(
                f"{self.unanswerable:,} without an answer: {self.unanswerable_right:.1%} of them"
                " left unanswered"
            )
        if self.exact <= self.never_answering:
            lines.append(
                "WARNING: never answering is as good as this model; give more questions, or texts"
                " like those it learned from"
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {**asdict(self), "never_answering": self.never_answering}


def _mean(values: Sequence[float], chosen: Sequence[bool]) -> float | None:
    return sum(compress(values, chosen)) / sum(chosen) if any(chosen) else None
