"""Trains a question answerer: fine-tuning, threshold, calibration and compilation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bertcnn.bundle.engine import INT8_TENSORS, int8_bytes
from bertcnn.errors import SettingsError, TableError
from bertcnn.inference.spans_engine import SpansModel
from bertcnn.models import BertQuestionAnswering, extract
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.shapes import question_answering_shapes
from bertcnn.tasks.question_answering.engine import compile_spans
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question, split_by_context
from bertcnn.tasks.question_answering.reference import KerasSpans
from bertcnn.tasks.question_answering.saving import AnswererConfig, SavedAnswerer
from bertcnn.tasks.question_answering.spans import SpanScores, scored_windows
from bertcnn.tasks.question_answering.threshold import answer_of, best_temperature, best_threshold
from bertcnn.tasks.question_answering.training import LabelledWindows, train_answers
from bertcnn.tasks.question_answering.windows import QuestionReader, Window
from bertcnn.training.devices import compute_policy
from bertcnn.training.savepoints import Savepoints, digest
from bertcnn.training.start import load_start
from bertcnn.training.training_data import RunOptions
from bertcnn.training.vocabulary_pruning import on_used_pieces, put_back, renumbered


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
        ids = renumbered(self.token_ids, used)
        windows = [
            replace(one, token_ids=token_ids)
            for one, token_ids in zip(self.windows, ids, strict=True)
        ]
        return replace(self, windows=windows)

    def scores(self, model: SpansModel) -> list[SpanScores]:
        return scored_windows(model, self.windows, len(self.questions), self.longest)

    def answers(self, scores: Sequence[SpanScores], threshold: float) -> list[str]:
        return [
            answer_of(one, question.context, threshold)
            for one, question in zip(scores, self.questions, strict=True)
        ]

    def figures(self, scores: Sequence[SpanScores], threshold: float) -> AnswerFigures:
        return AnswerFigures.of(self.answers(scores, threshold), self.questions)


def fitted(
    encoder_name: str,
    given: Sequence[Question],
    questions: QuestionSettings,
    training: QuestionTrainingSettings,
    options: RunOptions,
    savepoints: Path | None,
) -> SavedAnswerer:
    """Train a question answerer; see `QuestionAnswerer.fit`."""
    seed, progress = options.seed, options.progress
    parts = split_by_context(given, training.validation_fraction, seed)
    start = load_start(
        encoder_name,
        questions.max_tokens,
        seed=seed,
        progress=progress,
        precision=training.precision,
    )
    encoder, tokenizer = start.encoder, start.tokenizer
    if questions.max_tokens > encoder.settings.max_positions:
        raise SettingsError(
            f"max_tokens {questions.max_tokens} and an encoder with"
            f" {encoder.settings.max_positions} positions",
            expected=f"at most {encoder.settings.max_positions}",
            fix="give a smaller max_tokens, or another encoder",
        )
    reader = QuestionReader(tokenizer.vocabulary, tokenizer.settings.lowercase, questions)
    learned, held_out = (
        _Read(
            part,
            reader.windows([one.question for one in part], [one.context for one in part]),
            questions.answer_tokens,
        )
        for part in parts
    )
    if not learned.windows or not held_out.windows:
        raise TableError(
            "questions about texts without a word",
            expected="texts with words, in the training and in the validation questions",
            fix="give more questions about other texts",
        )
    token_ids = [*learned.token_ids, *held_out.token_ids]
    pad = np.array([reader.pad_id])
    small, used = on_used_pieces(
        encoder,
        [pad, *token_ids],
        training.dropout,
        dropout=training.dropout,
        policy=compute_policy(training.precision),
    )
    model = BertQuestionAnswering(small, seed=seed)
    (small_pad,) = renumbered([pad], used)[0].tolist()
    train = LabelledWindows.of(learned.renumbered(used).windows, learned.questions, small_pad)
    progress.note(
        f"{len(learned.questions):,} questions ({len(learned.windows):,} windows) to learn from,"
        f" {len(held_out.questions):,} about other texts held out"
    )
    validation, reference = held_out.renumbered(used), KerasSpans(model, small_pad)

    def evaluate() -> dict[str, float]:
        scores = validation.scores(reference)
        found = validation.figures(scores, best_threshold(scores, held_out.questions))
        return {"val_exact": found.exact, "val_f1": found.f1}

    if savepoints is not None:
        identity = {
            "encoder": start.name,
            "questions": questions.model_dump(),
            "training": training.model_dump(),
            "seed": seed,
            "windows": digest([train.places, *token_ids]),
            "answers": [list(one.answers) for one in held_out.questions],
        }
        options = replace(options, savepoints=Savepoints(savepoints, identity, progress))
    kept = train_answers(model, train, training, options, evaluate)
    expected = validation.scores(reference)
    threshold = best_threshold(expected, held_out.questions)
    figures = held_out.figures(expected, threshold)

    def compare(running: SpansModel) -> tuple[float, float]:
        scores = held_out.scores(running)
        pairs = zip(*(held_out.answers(one, threshold) for one in (scores, expected)), strict=True)
        same = np.mean([one == other for one, other in pairs])
        return float(same), figures.f1 - held_out.figures(scores, threshold).f1

    put_back(encoder, small, used)
    whole = small.settings.model_copy(update={"vocabulary_size": encoder.settings.vocabulary_size})
    tensors = {**extract(model.weights), **extract(encoder.weights)}
    tensors = {name: tensors[name] for name in question_answering_shapes(whole)}
    compiled = compile_spans(tensors, whole, learned.windows, reader.pad_id, compare, progress)
    config = AnswererConfig(
        encoder=whole,
        encoder_name=start.name,
        lowercase=tokenizer.settings.lowercase,
        questions=questions,
        training=training,
        threshold=threshold,
        temperature=best_temperature(expected, held_out.questions, threshold),
        precision=compiled.precision,
        precision_reason=compiled.reason,
        seed=seed,
        versions={name: version(name) for name in ("bertcnn", "keras", "openvino", "nncf")},
    )
    metrics = {
        **figures.to_json(),
        "measured_on": "validation questions, which chose the epoch and the threshold",
        "kept_epoch": kept,
        "learned_questions": len(learned.questions),
    }
    more = {INT8_TENSORS: int8_bytes(compiled.int8)}
    return SavedAnswerer(config, tokenizer.vocabulary, tensors, metrics, more)
