"""Trains a question answerer: fine-tuning, threshold, calibration and compilation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bertcnn.bundle import INT8_TENSORS, int8_bytes
from bertcnn.errors import TableError
from bertcnn.inference import SpansModel, spans_graph
from bertcnn.models import BertQuestionAnswering, extract
from bertcnn.settings import EncoderSettings, QuestionSettings, QuestionTrainingSettings
from bertcnn.shapes import question_answering_shapes
from bertcnn.tasks.engine import compile_spans
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question, split_by_context
from bertcnn.tasks.question_answering.saving import AnswererConfig, SavedAnswerer
from bertcnn.tasks.question_answering.spans import SpanScores, scored_windows
from bertcnn.tasks.question_answering.threshold import answer_of, best_temperature, best_threshold
from bertcnn.tasks.question_answering.training import LabelledWindows, span_figures
from bertcnn.tasks.question_answering.windows import QuestionReader
from bertcnn.tasks.reference import KerasSpans
from bertcnn.tasks.training import check_max_tokens, fine_tune
from bertcnn.tasks.windows import Window
from bertcnn.training import (
    RunOptions,
    Savepoints,
    Start,
    compute_policy,
    digest,
    load_start,
    on_used_pieces,
    put_back,
    renumbered,
)


@dataclass(frozen=True)
class _Read:
    """Questions with their answers and windows."""

    questions: Sequence[Question]
    windows: Sequence[Window]
    longest: int  # of an answer, in tokens

    @property
    def token_ids(self) -> list[np.ndarray]:
        return [window.token_ids for window in self.windows]

    def renumbered(self, used: np.ndarray) -> _Read:
        """These questions with token ids of the smaller encoder of `on_used_pieces`."""
        pairs = zip(self.windows, renumbered(self.token_ids, used), strict=True)
        return replace(self, windows=[replace(window, token_ids=ids) for window, ids in pairs])

    def scores(self, model: SpansModel) -> list[SpanScores]:
        return scored_windows(model, self.windows, len(self.questions), self.longest)

    def answers(self, scores: Sequence[SpanScores], threshold: float) -> list[str]:
        return [
            answer_of(one, question.context, threshold)
            for one, question in zip(scores, self.questions, strict=True)
        ]

    def figures(self, scores: Sequence[SpanScores], threshold: float) -> AnswerFigures:
        return AnswerFigures.of(self.answers(scores, threshold), self.questions)


@dataclass(frozen=True)
class _Trained:
    """A trained model, with the encoder's whole vocabulary."""

    encoder: EncoderSettings
    tensors: dict[str, np.ndarray]
    scores: list[SpanScores]  # of the held-out questions
    kept_epoch: int


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
    start = load_start(
        encoder_name,
        questions.max_tokens,
        seed=options.seed,
        progress=options.progress,
        precision=training.precision,
    )
    tokenizer = start.tokenizer
    check_max_tokens(questions.max_tokens, start.encoder.settings.max_positions)
    reader = QuestionReader(tokenizer.vocabulary, tokenizer.settings.lowercase, questions)
    learned, held_out = (_read(part, reader, questions.answer_tokens) for part in parts)
    _check_windows(learned, held_out)
    trained = _trained(
        start, (learned, held_out), reader.pad_id, questions, training, options, savepoints
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
        encoder_name=start.name,
        lowercase=tokenizer.settings.lowercase,
        questions=questions,
        training=training,
        threshold=threshold,
        temperature=best_temperature(trained.scores, held_out.questions, threshold),
        precision=compiled.precision,
        precision_reason=compiled.reason,
        seed=options.seed,
        versions={name: version(name) for name in ("bertcnn", "keras", "openvino", "nncf")},
    )
    metrics = {
        **figures.to_json(),
        "measured_on": "validation questions, which chose the epoch and the threshold",
        "threshold": threshold,
        "kept_epoch": trained.kept_epoch,
        "learned_questions": len(learned.questions),
    }
    more = {INT8_TENSORS: int8_bytes(compiled.int8)}
    return SavedAnswerer(config, tokenizer.vocabulary, trained.tensors, metrics, more)


def _read(questions: Sequence[Question], reader: QuestionReader, longest: int) -> _Read:
    contexts = [one.context for one in questions]
    windows = reader.windows([one.question for one in questions], contexts)
    return _Read(questions, windows, longest)


def _check_windows(learned: _Read, held_out: _Read) -> None:
    if not learned.windows or not held_out.windows:
        raise TableError(
            "questions about texts without a word",
            expected="texts with words, in the training and in the validation questions",
            fix="give more questions about other texts",
        )


def _trained(
    start: Start,
    parts: tuple[_Read, _Read],
    pad_id: int,
    questions: QuestionSettings,
    training: QuestionTrainingSettings,
    options: RunOptions,
    savepoints: Path | None,
) -> _Trained:
    """Train on the first part and keep the epoch with the best F1 on the second."""
    learned, held_out = parts
    token_ids = [*learned.token_ids, *held_out.token_ids]
    pad = np.array([pad_id])
    small, used = on_used_pieces(
        start.encoder,
        [pad, *token_ids],
        training.dropout,
        dropout=training.dropout,
        policy=compute_policy(training.precision),
    )
    model = BertQuestionAnswering(small, seed=options.seed)
    (small_pad,) = renumbered([pad], used)[0].tolist()
    train = LabelledWindows.of(learned.renumbered(used).windows, learned.questions, small_pad)
    options.progress.note(
        f"{len(learned.questions):,} questions ({len(learned.windows):,} windows) to learn from,"
        f" {len(held_out.questions):,} about other texts held out"
    )
    validation, reference = held_out.renumbered(used), KerasSpans(model, small_pad)
    if savepoints is not None:
        identity = {
            "encoder": start.name,
            "questions": questions.model_dump(),
            "training": training.model_dump(),
            "seed": options.seed,
            "windows": digest([train.places, *token_ids]),
            "answers": [list(one.answers) for one in held_out.questions],
        }
        options = replace(options, savepoints=Savepoints(savepoints, identity, options.progress))
    measured = partial(_measured, validation, reference)
    kept = fine_tune(model, train, span_figures, training, options, measured)
    scores = validation.scores(reference)
    put_back(start.encoder, small, used)
    tokens = start.encoder.settings.vocabulary_size
    encoder = small.settings.model_copy(update={"vocabulary_size": tokens})
    tensors = {**extract(model.weights), **extract(start.encoder.weights)}
    tensors = {name: tensors[name] for name in question_answering_shapes(encoder)}
    return _Trained(encoder, tensors, scores, kept)


def _measured(validation: _Read, model: SpansModel) -> dict[str, float]:
    """Exact match and F1 with the best threshold."""
    scores = validation.scores(model)
    figures = validation.figures(scores, best_threshold(scores, validation.questions))
    return {"val_exact": figures.exact, "val_f1": figures.f1}


def _compared(
    held_out: _Read, expected: Sequence[SpanScores], threshold: float, f1: float, model: SpansModel
) -> tuple[float, float]:
    """The share of questions with the expected answer, and the loss of F1."""
    scores = held_out.scores(model)
    pairs = zip(*(held_out.answers(one, threshold) for one in (scores, expected)), strict=True)
    same = np.mean([one == other for one, other in pairs])
    return float(same), f1 - held_out.figures(scores, threshold).f1
