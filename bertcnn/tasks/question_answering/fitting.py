"""Trains a question answerer: fine-tuning, threshold, calibration and compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bertcnn.bundle import INT8_TENSORS, int8_bytes
from bertcnn.data import BatchPlan, pad
from bertcnn.errors import TableError
from bertcnn.inference import SpansModel, spans_graph
from bertcnn.models import BertQuestionAnswering
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.shapes import question_answering_shapes
from bertcnn.tasks.engine import compile_spans
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question, split_by_context
from bertcnn.tasks.question_answering.saving import AnswererConfig, SavedAnswerer
from bertcnn.tasks.question_answering.spans import SpanScores, scored_windows
from bertcnn.tasks.question_answering.threshold import answer_of, best_temperature, best_threshold
from bertcnn.tasks.question_answering.windows import QuestionReader
from bertcnn.tasks.training import (
    encoder_origin,
    fine_tune_windows,
    load_encoder,
    origin,
    with_savepoints,
)
from bertcnn.tasks.windows import Window
from bertcnn.training import Arrays, RunOptions, digest

_NOT_HERE = -1e9  # added to the scores of tokens outside the context
_CLASSIFY = 0  # position of [CLS], which means "no answer"


@dataclass(frozen=True)
class LabelledWindows:
    """Windows with the position of the answer in each.

    Attributes:
        token_ids: per window int32 [T].
        context: int32 [windows, 2], first token of the context and the index after its last token.
        places: int32 [windows, 2], first and last answer token; [CLS] (0, 0) if not inside.
    """

    token_ids: Sequence[np.ndarray]
    context: np.ndarray
    places: np.ndarray
    pad_id: int

    @classmethod
    def of(
        cls, windows: Sequence[Window], questions: Sequence[Question], pad_id: int
    ) -> LabelledWindows:
        """Label windows with the first of the question's answers that each contains."""
        context, labels = np.full((2, len(windows), 2), _CLASSIFY, np.int32)
        for row, window in enumerate(windows):
            context[row] = window.first, window.first + len(window.spans)
            question = questions[window.row]
            for start, answer in zip(question.starts, question.answers, strict=True):
                tokens = window.tokens_of(start, start + len(answer))
                if tokens is not None:
                    labels[row] = tokens
                    break
        return cls([window.token_ids for window in windows], context, labels, pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [windows]."""
        return np.array([len(ids) for ids in self.token_ids])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; filler rows have weight 0."""
        inputs = pad(self.token_ids, plan, self.pad_id).inputs()
        context = np.full((plan.size, 2), plan.length, np.int32)
        labels, weights = np.zeros((plan.size, 2), np.int32), np.zeros(plan.size, np.float32)
        rows = slice(len(plan.rows))
        context[rows], labels[rows] = self.context[plan.rows], self.places[plan.rows]
        weights[rows] = 1
        first, end = context[:, :1], context[:, 1:]
        positions = np.arange(plan.length)
        allowed = (positions == _CLASSIFY) | ((positions >= first) & (positions < end))
        return inputs, {"places": labels, "allowed": allowed.astype(np.float32), "weights": weights}


def span_figures(scores: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """The mean cross-entropy of start and end among [CLS] and the context's tokens.

    `scores` are float32 [B, T, 2]; the loss is the weighted sum over the rows.
    """
    ops = keras.ops
    blocked = (1.0 - targets["allowed"])[:, :, None] * _NOT_HERE
    logs = ops.log_softmax(ops.cast(scores, "float32") + blocked, axis=1)  # [B, T, 2]
    chosen = ops.take_along_axis(logs, targets["places"][:, None, :], axis=1)[:, 0]  # [B, 2]
    return {"loss": -ops.sum(ops.mean(chosen, axis=-1) * targets["weights"])}


@dataclass(frozen=True)
class _Read:
    """Questions with their answers and windows."""

    questions: Sequence[Question]
    windows: Sequence[Window]
    longest: int  # of an answer, in tokens

    @classmethod
    def of(cls, questions: Sequence[Question], reader: QuestionReader) -> _Read:
        contexts = [one.context for one in questions]
        windows = reader.windows([one.question for one in questions], contexts)
        return cls(questions, windows, reader.settings.answer_tokens)

    def with_windows(self, windows: list[Window]) -> _Read:
        return replace(self, windows=windows)

    def labelled(self, pad_id: int) -> LabelledWindows:
        return LabelledWindows.of(self.windows, self.questions, pad_id)

    def scores(self, model: SpansModel) -> list[SpanScores]:
        return scored_windows(model, self.windows, len(self.questions), self.longest)

    def answers(self, scores: Sequence[SpanScores], threshold: float) -> list[str]:
        return [
            answer_of(one, question.context, threshold)
            for one, question in zip(scores, self.questions, strict=True)
        ]

    def figures(self, scores: Sequence[SpanScores], threshold: float) -> AnswerFigures:
        return AnswerFigures.of(self.answers(scores, threshold), self.questions)

    def measured(self, model: SpansModel) -> dict[str, float]:
        """Exact match and F1 with the best threshold."""
        scores = self.scores(model)
        figures = self.figures(scores, best_threshold(scores, self.questions))
        return {"val_exact": figures.exact, "val_f1": figures.f1}


def fitted(
    encoder_name: str,
    given: Sequence[Question],
    questions: QuestionSettings,
    training: QuestionTrainingSettings,
    options: RunOptions,
    savepoints: Path | None,
) -> SavedAnswerer:
    """Train a question answerer; see `QuestionAnswerer.fit`."""
    parts = split_by_context(given, training.validation_fraction, options.seed)
    start = load_encoder(encoder_name, questions.max_tokens, training.precision, options)
    vocabulary, lowercase = start.tokenizer.vocabulary, start.tokenizer.settings.lowercase
    reader = QuestionReader(vocabulary, lowercase, questions)
    learned, held_out = (_Read.of(part, reader) for part in parts)
    if not learned.windows or not held_out.windows:
        raise TableError(
            "questions about texts without a word",
            expected="texts with words, in the training and in the validation questions",
            fix="give more questions about other texts",
        )
    options.progress.note(
        f"{len(learned.questions):,} questions ({len(learned.windows):,} windows) to learn from,"
        f" {len(held_out.questions):,} about other texts held out"
    )
    token_ids = [window.token_ids for window in (*learned.windows, *held_out.windows)]
    options = with_savepoints(
        options,
        savepoints,
        training,
        encoder=start.name,
        questions=questions.model_dump(),
        windows=digest([learned.labelled(reader.pad_id).places, *token_ids]),
        answers=[list(one.answers) for one in held_out.questions],
    )
    trained = fine_tune_windows(
        start,
        (learned, held_out),
        partial(BertQuestionAnswering, seed=options.seed),
        _Read.labelled,
        span_figures,
        question_answering_shapes,
        training,
        options,
    )
    threshold = best_threshold(trained.scores, held_out.questions)
    figures = held_out.figures(trained.scores, threshold)
    compiled = compile_spans(
        partial(spans_graph, trained.tensors, trained.encoder),
        trained.encoder,
        learned.windows,
        reader.pad_id,
        partial(_compared, held_out, trained.scores, threshold, figures.f1),
        "question",
        options.progress,
    )
    config = AnswererConfig(
        encoder=trained.encoder,
        questions=questions,
        threshold=threshold,
        temperature=best_temperature(trained.scores, held_out.questions, threshold),
        precision=compiled.precision,
        precision_reason=compiled.reason,
        **encoder_origin(start),
        **origin(training, options, "openvino", "nncf"),
    )
    metrics = {
        **figures.to_json(),
        "measured_on": "validation questions, which chose the epoch and the threshold",
        "threshold": threshold,
        "kept_epoch": trained.kept_epoch,
        "learned_questions": len(learned.questions),
    }
    more = {INT8_TENSORS: int8_bytes(compiled.int8)}
    return SavedAnswerer(config, vocabulary, trained.tensors, metrics, more)


def _compared(
    held_out: _Read, expected: Sequence[SpanScores], threshold: float, f1: float, model: SpansModel
) -> tuple[float, float]:
    """The share of questions with the expected answer, and the loss of F1."""
    scores = held_out.scores(model)
    pairs = zip(*(held_out.answers(one, threshold) for one in (scores, expected)), strict=True)
    same = np.mean([one == other for one, other in pairs])
    return float(same), f1 - held_out.figures(scores, threshold).f1
