"""The question answerer: fit, answer, evaluate, save and load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bertcnn.bundle import INT8_TENSORS
from bertcnn.errors import SettingsError, TableError
from bertcnn.inference import SpansEngine, spans_graph
from bertcnn.progress import Progress
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.tasks.engine import CompiledSpans, load_spans
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.saving import FOLDER, AnswererConfig, SavedAnswerer
from bertcnn.tasks.question_answering.spans import SpanScores, TokenScores, scored_windows
from bertcnn.tasks.question_answering.threshold import answer_of
from bertcnn.tasks.question_answering.windows import QuestionReader
from bertcnn.text import check_texts

if TYPE_CHECKING:
    from keras.callbacks import Callback

FEWEST_QUESTIONS = 20


@dataclass(frozen=True)
class Answer:
    """An answer to a question about a text.

    Attributes:
        text: a part of the context; empty for no answer.
        confidence: probability that this is right, also for no answer.
        start: index of its first character in the context; -1 for no answer.
        end: index after its last character; -1 for no answer.
        alternatives: further answers with their probabilities, best first.
    """

    text: str
    confidence: float
    start: int
    end: int
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class _Running:
    reader: QuestionReader
    engine: SpansEngine


class QuestionAnswerer(TaskModel[AnswererConfig, _Running]):
    """Answers questions about texts with a part of the text, or with "no answer".

    Args:
        encoder: name of a published encoder, or a folder.
        questions: changes to `QuestionSettings`, by name.
        training: changes to `QuestionTrainingSettings`, by name.

    Example:
        answerer = QuestionAnswerer().fit(read_questions("questions.jsonl"))
        answerer.answer("Which month is the bill from?", ["The bill of May is too high."])
    """

    _folder = FOLDER

    def __init__(
        self,
        encoder: str | os.PathLike[str] = "minilm-l6",
        *,
        questions: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(seed, callbacks, progress)
        self._encoder_name = str(encoder)
        self._questions = QuestionSettings(**(questions or {}))
        self._training = QuestionTrainingSettings(**(training or {}))

    def fit(self, questions: Sequence[Question], *, savepoints: Path | None = None) -> Self:
        """Fine-tune the encoder; questions about held-out contexts choose the epoch.

        Args:
            questions: with their answers.
            savepoints: folder that the training is saved to periodically; after an interruption the
                same call resumes from it. None by default.

        Raises:
            TableError: fewer than 20 questions, or a context that is too long.
            EncoderError: the encoder cannot be loaded.
            TrainingError: the loss became infinite or NaN.
        """
        from bertcnn.tasks.question_answering.fitting import fitted

        options = self._options
        if isinstance(questions, str) or not all(isinstance(one, Question) for one in questions):
            raise SettingsError(
                f"questions of the type {type(questions).__name__}",
                expected="a list of Question",
                fix="read a file with read_questions",
            )
        if len(questions) < FEWEST_QUESTIONS:
            raise TableError(
                f"{len(questions)} questions",
                expected=f"at least {FEWEST_QUESTIONS}",
                fix="give more questions",
            )
        settings = self._questions, self._training
        self._take(fitted(self._encoder_name, questions, *settings, options, savepoints))
        return self

    def answer(
        self,
        question: str | Sequence[str],
        texts: Sequence[str],
        *,
        most: int = 5,
        cut: bool = False,
    ) -> list[Answer]:
        """Answer one question about all texts, or one question per text.

        Args:
            question: one for all texts, or a list with one for each.
            texts: strings.
            most: number of answers to each, including alternatives; at most 20.
            cut: truncate a text that is too long, instead of refusing it.

        Raises:
            SettingsError: a question is blank or too long, or questions and texts differ in number.
            TableError: a text needs more windows than the settings allow.
            TrainingError: called before `fit`.
            BundleError: the model's numbers are not finite.
        """
        contexts = check_texts(texts)
        if not isinstance(question, str | Sequence):
            raise SettingsError(
                f"the question {question!r}", expected="a string, or one for each text", fix="ask"
            )
        questions = [question] * len(contexts) if isinstance(question, str) else list(question)
        if len(questions) != len(contexts):
            raise SettingsError(
                f"{len(questions)} questions about {len(contexts)} texts",
                expected="one question, or one for each text",
                fix="pass both from the same rows",
            )
        if not isinstance(most, int) or most < 1:
            raise SettingsError(
                f"most {most!r}", expected="a whole number, 1 or more", fix="give for example 5"
            )
        config, running = self._model.config, self._running
        windows = running.reader.windows(questions, contexts, cut=cut)
        longest = config.questions.answer_tokens
        span_scores = scored_windows(running.engine, windows, len(contexts), longest)
        return [
            _answer(scores, context, config.threshold, config.temperature, most)
            for scores, context in zip(span_scores, contexts, strict=True)
        ]

    def token_scores(self, question: str, text: str) -> list[TokenScores]:
        """The scores of every token, in each of the windows that a text is read in.

        Raises:
            SettingsError: the question is blank or too long.
            TableError: the text needs more windows than the settings allow.
            TrainingError: called before `fit`.
        """
        config, running = self._model.config, self._running
        windows = running.reader.windows([question], check_texts([text]))
        scores = running.engine.run([window.token_ids for window in windows])
        return [
            TokenScores.of(window, both, self._model.vocabulary, config.questions.answer_tokens)
            for window, both in zip(windows, scores, strict=True)
        ]

    def evaluate(self, questions: Sequence[Question]) -> AnswerFigures:
        """Exact match and F1 on questions with known answers; there must be at least one."""
        answers = self.answer(
            [one.question for one in questions], [one.context for one in questions], most=1
        )
        return AnswerFigures.of([answer.text for answer in answers], questions)

    @property
    def engine_name(self) -> str:
        """The engine and its precision."""
        return self._running.engine.name

    def _start(self, saved: SavedAnswerer) -> _Running:
        config = saved.config
        reader = QuestionReader(saved.vocabulary, config.lowercase, config.questions)
        engine = load_spans(
            CompiledSpans.of(config, saved.more[INT8_TENSORS]),
            partial(spans_graph, saved.tensors, config.encoder),
            reader.pad_id,
            identity=saved.identity or None,
        )
        return _Running(reader, engine)


def _answer(
    scores: SpanScores, context: str, threshold: float, temperature: float, most: int
) -> Answer:
    shares = scores.probabilities(threshold, temperature)
    answers: dict[str, float] = {}  # equal text at two places counts as one answer
    for span, share in zip(scores.spans, shares.tolist(), strict=False):
        answers.setdefault(context[span.start : span.end], share)
    if not answer_of(scores, context, threshold):
        return Answer("", float(shares[-1]), -1, -1, tuple(answers.items())[:most])
    best = scores.spans[0]
    (text, share), *alternatives = answers.items()
    return Answer(text, share, best.start, best.end, tuple(alternatives[: most - 1]))
