"""The question answerer: fit, answer, evaluate, save and load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bertcnn.bundle.remote import local_folder
from bertcnn.errors import BundleError, SettingsError, TableError, TrainingError
from bertcnn.inference.predictor import check_texts
from bertcnn.inference.spans_engine import SpansEngine, SpansModel
from bertcnn.progress import Progress, Silent
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.tasks.question_answering.engine import load_spans
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question, split_by_context
from bertcnn.tasks.question_answering.saving import (
    FOLDER,
    SavedAnswerer,
    read_answerer,
    write_answerer,
)
from bertcnn.tasks.question_answering.spans import SpanScores, best_spans
from bertcnn.tasks.question_answering.threshold import answer_of
from bertcnn.tasks.question_answering.windows import QuestionReader, Window

if TYPE_CHECKING:
    from keras.callbacks import Callback

FEWEST_QUESTIONS = 20


@dataclass(frozen=True)
class Answer:
    """An answer to a question about a text.

    Attributes:
        text: the answer, as it stands in the context; empty if there is none.
        confidence: probability that this is right, of an answer or of there being none.
        start: its first character in the context; -1 if there is none.
        end: the one behind its last; -1 likewise.
        alternatives: further answers with their probabilities, the best first.
    """

    text: str
    confidence: float
    start: int
    end: int
    alternatives: tuple[tuple[str, float], ...] = ()


class QuestionAnswerer:
    """Answers questions about texts with a part of the text, or with "no answer".

    Args:
        encoder: name of a published encoder, or a folder.
        questions: changes to the defaults of `QuestionSettings`, by name.
        training: changes to the defaults of `QuestionTrainingSettings`, by name.
        seed: of every random choice.
        callbacks: of Keras, that hear of the training.
        progress: progress callback; none by default.

    Attributes:
        metrics_: figures of the training, on the validation questions.

    Example:
        answerer = QuestionAnswerer().fit(read_questions("questions.jsonl"))
        answerer.answer("Which month is the bill from?", ["The bill of May is too high."])
    """

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
        self._encoder_name, self._seed = str(encoder), seed
        self._questions = QuestionSettings(**(questions or {}))
        self._training = QuestionTrainingSettings(**(training or {}))
        self._callbacks, self._progress = tuple(callbacks), progress or Silent()
        self._saved: SavedAnswerer | None = None
        self._engine: SpansEngine | None = None
        self._reader_kept: QuestionReader | None = None
        self.metrics_: dict[str, Any] = {}

    def fit(self, questions: Sequence[Question], *, savepoints: Path | None = None) -> Self:
        """Fine-tune the encoder; questions about a share of the contexts choose the epoch.

        Args:
            questions: with their answers.
            savepoints: folder in which the training is saved from time to time; the same call goes
                on from it after an interruption. None by default.

        Raises:
            TableError: fewer than 20 questions, or a context that is too long.
            EncoderError: the encoder cannot be had.
            TrainingError: the loss became infinite or NaN.
        """
        from bertcnn.tasks.question_answering.fitting import fitted
        from bertcnn.training.start import check_seed

        check_seed(self._seed)
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
        learned, held_out = split_by_context(
            questions, self._training.validation_fraction, self._seed
        )
        self._saved = fitted(
            self._encoder_name,
            learned,
            held_out,
            self._questions,
            self._training,
            seed=self._seed,
            progress=self._progress,
            savepoints=savepoints,
            callbacks=self._callbacks,
        )
        self._engine = self._reader_kept = None
        self.metrics_ = dict(self._saved.metrics)
        return self

    def answer(
        self,
        question: str | Sequence[str],
        texts: Sequence[str],
        *,
        most: int = 5,
        cut: bool = False,
    ) -> list[Answer]:
        """Answer a question about each text, or a question of its own about each.

        Args:
            question: one for all texts, or one for each.
            texts: strings.
            most: answers to each, with the alternatives; at most 20.
            cut: read only the beginning of a text that is too long, instead of refusing it.

        Raises:
            SettingsError: a question is blank or too long, or there are not as many as texts.
            TableError: a text needs more windows than the settings allow.
            TrainingError: called before `fit`.
            BundleError: the model's numbers are not finite.
        """
        contexts = check_texts(texts)
        if not isinstance(question, str | Sequence):
            raise SettingsError(
                f"the question {question!r}", expected="a string, or one for each text", fix="ask"
            )
        asked = [question] * len(contexts) if isinstance(question, str) else list(question)
        if len(asked) != len(contexts):
            raise SettingsError(
                f"{len(asked)} questions about {len(contexts)} texts",
                expected="one question, or one for each text",
                fix="pass both from the same rows",
            )
        if not isinstance(most, int) or most < 1:
            raise SettingsError(
                f"most {most!r}", expected="a whole number, 1 or more", fix="give for example 5"
            )
        config = self._model.config
        found = scored_windows(
            self._running,
            self._reader.windows(asked, contexts, cut=cut),
            len(contexts),
            self._questions.answer_tokens,
        )
        return [
            _answer(scores, context, config.threshold, config.temperature, most)
            for scores, context in zip(found, contexts, strict=True)
        ]

    def evaluate(self, questions: Sequence[Question]) -> AnswerFigures:
        """Exact match and F1 on questions with known answers.

        Raises:
            TableError: there are no questions.
        """
        answers = self.answer(
            [one.question for one in questions], [one.context for one in questions], most=1
        )
        return AnswerFigures.of([answer.text for answer in answers], questions)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> str:
        """Save to a folder, all or nothing, and return the model's id.

        Raises:
            OutputError: the place is taken or cannot be written.
            TrainingError: called before `fit`.
        """
        FOLDER.check_target(folder, overwrite)
        identity = write_answerer(self._model, folder, overwrite=overwrite)
        self._saved = replace(self._model, identity=identity)
        return identity

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """A saved question answerer, without Keras.

        Args:
            folder: as given to `save`, or a URL.

        Raises:
            BundleError: the folder is not exactly what `save` wrote.
        """
        saved = read_answerer(local_folder(folder))
        config = saved.config
        answerer = cls(
            config.encoder_name,
            questions=config.questions.model_dump(),
            training=config.training.model_dump(),
            seed=config.seed,
        )
        answerer._saved, answerer.metrics_ = saved, dict(saved.metrics)
        return answerer

    @property
    def identity(self) -> str:
        """Names this exact model, also before it is saved."""
        saved = self._model
        if saved.identity:
            return saved.identity
        from bertcnn.training.savepoints import digest

        return digest(saved.tensors)

    @property
    def engine_name(self) -> str:
        """What computes, and in which precision."""
        return self._running.name

    @property
    def _model(self) -> SavedAnswerer:
        if self._saved is None:
            raise TrainingError(
                "a question answerer without a model",
                expected="one that is trained",
                fix="call fit first, or load a saved one",
            )
        return self._saved

    @property
    def _running(self) -> SpansEngine:
        """The compiled model, made when it is first needed."""
        if self._engine is None:
            saved = self._model
            self._engine = load_spans(
                saved.engine,
                saved.tensors,
                saved.config.encoder,
                self._reader.pad_id,
                identity=saved.identity or None,
            )
        return self._engine

    @property
    def _reader(self) -> QuestionReader:
        if self._reader_kept is None:
            saved = self._model
            self._reader_kept = QuestionReader(
                saved.vocabulary, saved.config.lowercase, self._questions
            )
        return self._reader_kept


def scored_windows(
    model: SpansModel, windows: Sequence[Window], rows: int, longest: int
) -> list[SpanScores]:
    """The best spans of windows of so many questions."""
    scores = model.run(
        [window.token_ids for window in windows], [window.segment_ids for window in windows]
    )
    if not all(np.isfinite(one).all() for one in scores):
        raise BundleError(
            "a model whose scores are not finite",
            expected="numbers",
            fix="copy the model again from where it came, or train it again",
        )
    return best_spans(windows, scores, rows, longest=longest)


def _answer(
    scores: SpanScores, context: str, threshold: float, temperature: float, most: int
) -> Answer:
    shares = scores.probabilities(threshold, temperature)
    found: dict[str, float] = {}  # the same words at two places are one answer here
    for span, share in zip(scores.spans, shares.tolist(), strict=False):
        found.setdefault(context[span.start : span.end], share)
    if not answer_of(scores, context, threshold):
        return Answer("", float(shares[-1]), -1, -1, tuple(found.items())[:most])
    best = scores.spans[0]
    (text, share), *others = found.items()
    return Answer(text, share, best.start, best.end, tuple(others[: most - 1]))
