"""The question answerer: fit, answer, evaluate, save and load."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from bertcnn.bundle import INT8_TENSORS
from bertcnn.errors import SettingsError, TableError, one_line
from bertcnn.inference import SpansEngine, spans_graph
from bertcnn.progress import Progress
from bertcnn.scoring import FileKeywords, FileOptions
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.tasks.engine import CompiledSpans, load_spans
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.saving import FOLDER, AnswererConfig, SavedAnswerer
from bertcnn.tasks.question_answering.spans import SpanScores, TokenScores, scored_windows
from bertcnn.tasks.question_answering.threshold import answer_of
from bertcnn.tasks.question_answering.windows import QuestionReader
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.text import check_texts, is_blank

if TYPE_CHECKING:
    from keras.callbacks import Callback

FEWEST_QUESTIONS = 20
_ANSWER = np.dtype([("start", "<i4"), ("end", "<i4"), ("confidence", "<f4")])
_PARTS = ("", "_confidence", "_place")  # suffixes of a field's columns


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
            savepoints: folder that an interrupted training resumes from, with the same result.

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


def extract_csv(
    model: str | Path | QuestionAnswerer,
    source: str | Path,
    target: str | Path,
    fields: Mapping[str, str],
    options: FileOptions | None = None,
    **changes: Unpack[FileKeywords],
) -> ExtractionReport:
    """Ask each question about every row of a file, in constant memory.

    The output has the input's columns and rows, then three columns for each field: the answer under
    the field's name, empty for no answer; `<field>_confidence`, the probability that this is right;
    and `<field>_place`, the character range such as "17:29" in the text as it was read (several
    columns are joined). A text with too many windows is truncated. Rows that cannot be read go to
    `<target>.rejects.csv`. An interrupted run resumes, as in `score_csv`.

    Args:
        model: a saved question answerer's folder or URL, or a loaded model.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write; its extension sets the format.
        fields: a question for each new column.
        options: all options; by default `FileOptions()`.
        changes: single options by name, such as `text="body"`: see `FileOptions`.

    Raises:
        SettingsError: there are no fields, or a name or a question is blank.
        ColumnError: a field has the name of an existing column, or the text column is missing.
        TableError: a text is too long, or as for `score_csv`, which has the other errors too.
        BundleError: the model folder is not a question answerer.

    Example:
        extract_csv("models/fields", "inbox.csv", "out.csv", {"month": "Which month is it about?"})
    """
    _check_fields(fields)
    return add_columns(source, target, options, changes, partial(_columns, model, fields))


def _columns(model: str | Path | QuestionAnswerer, fields: Mapping[str, str]) -> TextColumns:
    answerer = model if isinstance(model, QuestionAnswerer) else QuestionAnswerer.load(model)
    return TextColumns(
        names=[f"{name}{part}" for name in fields for part in _PARTS],
        model=answerer.identity,
        engine=answerer.engine_name,
        settings=json.dumps(list(fields.items()), ensure_ascii=False),
        answer=partial(_answers, answerer, list(fields.values())),
        cells=_cells,
        tally=partial(_tally, list(fields)),
    )


def _check_fields(fields: Mapping[str, str]) -> None:
    fix = 'give for example --field month="Which month is the bill from?"'
    if not fields:
        raise SettingsError("no field", expected="at least one", fix=fix)
    for name, question in fields.items():
        if is_blank(name) or not isinstance(question, str) or is_blank(question):
            raise SettingsError(
                f"the field {one_line(name)} with the question {one_line(question)}",
                expected="a name and a question",
                fix=fix,
            )


def _answers(answerer: QuestionAnswerer, questions: Sequence[str], texts: list[str]) -> list[bytes]:
    """The answer to each question about each text."""
    answers = np.zeros((len(texts), len(questions)), _ANSWER)
    for column, question in enumerate(questions):
        for row, answer in enumerate(answerer.answer(question, texts, most=1, cut=True)):
            sure = math.nan if is_blank(texts[row]) else answer.confidence
            answers[row, column] = (answer.start, answer.end, sure)
    return [row.tobytes() for row in answers]


def _tally(fields: Sequence[str], answers: bytes) -> dict[str, int]:
    starts = np.frombuffer(answers, _ANSWER)["start"].tolist()
    answered = {name: int(start >= 0) for name, start in zip(fields, starts, strict=False)}
    return {**dict.fromkeys(fields, 0), **answered}


def _cells(text: str, answers: bytes) -> list[str]:
    cells: list[str] = []
    for start, end, confidence in np.frombuffer(answers, _ANSWER).tolist():
        span = f"{start}:{end}" if start >= 0 else ""
        share = "" if math.isnan(confidence) else f"{confidence:.6f}"
        cells += [text[start:end] if span else "", share, span]
    return cells
