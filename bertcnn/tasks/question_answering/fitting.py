"""From questions to a question answerer: fine-tuned, with its threshold, and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from keras.callbacks import Callback

from bertcnn.errors import SettingsError, TableError
from bertcnn.inference.spans_engine import SpansModel
from bertcnn.models.question_answering import BertQuestionAnswering
from bertcnn.models.shapes import question_answering_shapes
from bertcnn.models.weights import extract
from bertcnn.progress import Progress
from bertcnn.settings import QuestionSettings, QuestionTrainingSettings
from bertcnn.tasks.question_answering.answerer import scored_windows
from bertcnn.tasks.question_answering.engine import compile_spans
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.reference import KerasSpans
from bertcnn.tasks.question_answering.saving import AnswererConfig, SavedAnswerer
from bertcnn.tasks.question_answering.spans import SpanScores
from bertcnn.tasks.question_answering.threshold import answer_of, best_temperature, best_threshold
from bertcnn.tasks.question_answering.training import LabelledWindows, train_answers
from bertcnn.tasks.question_answering.windows import QuestionReader, Window
from bertcnn.training.devices import compute_policy
from bertcnn.training.savepoints import Savepoints, digest
from bertcnn.training.start import load_start
from bertcnn.training.vocabulary_pruning import on_used_pieces, put_back, renumbered


def fitted(  # noqa: PLR0913 - what a training is made of
    encoder_name: str,
    learned: Sequence[Question],
    held_out: Sequence[Question],
    questions: QuestionSettings,
    training: QuestionTrainingSettings,
    *,
    seed: int,
    progress: Progress,
    savepoints: Path | None,
    callbacks: Sequence[Callback] = (),
) -> SavedAnswerer:
    """A question answerer; see `QuestionAnswerer.fit`.

    Args:
        encoder_name: name or folder.
        learned: questions to learn from.
        held_out: questions that choose epoch, threshold, temperature and precision.
        questions: how they are read.
        training: how it is trained.
        seed: of every random choice.
        progress: progress callback.
        savepoints: folder for savepoints.
        callbacks: of Keras.
    """
    start = load_start(
        encoder_name,
        questions.max_tokens,
        seed=seed,
        progress=progress,
        precision=training.precision,
    )
    positions = start.encoder.settings.max_positions
    if questions.max_tokens > positions:
        raise SettingsError(
            f"max_tokens {questions.max_tokens} and an encoder with {positions} positions",
            expected=f"at most {positions}",
            fix="give a smaller max_tokens, or another encoder",
        )
    lowercase = start.tokenizer.settings.lowercase
    reader = QuestionReader(start.tokenizer.vocabulary, lowercase, questions)
    windows, validation = (
        reader.windows([one.question for one in part], [one.context for one in part])
        for part in (learned, held_out)
    )
    if not windows or not validation:
        raise TableError(
            "questions about texts without a word",
            expected="texts with words, in the training and in the validation questions",
            fix="give more questions about other texts",
        )
    encoder, pad = start.encoder, np.array([reader.pad_id])
    small, used = on_used_pieces(
        encoder,
        [pad, *(one.token_ids for one in (*windows, *validation))],
        training.dropout,
        dropout=training.dropout,
        policy=compute_policy(training.precision),
    )
    model = BertQuestionAnswering(small, seed=seed)
    small_pad = int(renumbered([pad], used)[0][0])
    train = LabelledWindows.of(_renumbered(windows, used), learned, small_pad)
    small_validation = _renumbered(validation, used)
    progress.note(
        f"{len(learned):,} questions ({len(windows):,} windows) to learn from, {len(held_out):,}"
        " about other texts held out"
    )
    reference = KerasSpans(model, small_pad)

    def spans_by(running: SpansModel, read: Sequence[Window]) -> list[SpanScores]:
        return scored_windows(running, read, len(held_out), questions.answer_tokens)

    def figures(scores: Sequence[SpanScores], threshold: float) -> AnswerFigures:
        return AnswerFigures.of(_answers(scores, held_out, threshold), held_out)

    def evaluate() -> dict[str, float]:
        scores = spans_by(reference, small_validation)
        found = figures(scores, best_threshold(scores, held_out))
        return {"val_exact": found.exact, "val_f1": found.f1}

    points = None
    if savepoints is not None:
        identity = {
            "encoder": start.name,
            "questions": questions.model_dump(),
            "training": training.model_dump(),
            "seed": seed,
            "windows": digest([train.places, *(one.token_ids for one in (*windows, *validation))]),
            "answers": [list(one.answers) for one in held_out],
        }
        points = Savepoints(savepoints, identity, progress)
    kept = train_answers(
        model,
        train,
        training,
        evaluate,
        seed=seed,
        progress=progress,
        savepoints=points,
        callbacks=callbacks,
    )
    expected = spans_by(reference, small_validation)
    threshold = best_threshold(expected, held_out)
    wanted = _answers(expected, held_out, threshold)

    def compare(running: SpansModel) -> tuple[float, float]:
        scores = spans_by(running, validation)
        given = _answers(scores, held_out, threshold)
        same = np.mean([one == other for one, other in zip(given, wanted, strict=True)])
        loss = figures(expected, threshold).f1 - figures(scores, threshold).f1
        return float(same), loss

    put_back(encoder, small, used)
    weights = {**extract(model.weights), **extract(encoder.weights)}
    whole = small.settings.model_copy(update={"vocabulary_size": encoder.settings.vocabulary_size})
    tensors = {name: weights[name] for name in question_answering_shapes(whole)}
    compiled = compile_spans(tensors, whole, windows, reader.pad_id, compare, progress)
    config = AnswererConfig(
        encoder=whole,
        encoder_name=start.name,
        lowercase=lowercase,
        questions=questions,
        training=training,
        threshold=threshold,
        temperature=best_temperature(expected, held_out, threshold),
        precision=compiled.precision,
        precision_reason=compiled.reason,
        seed=seed,
        versions={name: version(name) for name in ("bertcnn", "keras", "openvino", "nncf")},
    )
    metrics = {
        **figures(expected, threshold).to_json(),
        "measured_on": "validation questions, which chose the epoch and the threshold",
        "kept_epoch": kept,
        "learned_questions": len(learned),
    }
    return SavedAnswerer(config, start.tokenizer.vocabulary, tensors, metrics, compiled)


def _renumbered(windows: Sequence[Window], used: np.ndarray) -> list[Window]:
    """The windows as the smaller encoder counts its pieces."""
    ids = renumbered([one.token_ids for one in windows], used)
    return [replace(one, token_ids=own) for one, own in zip(windows, ids, strict=True)]


def _answers(
    scores: Sequence[SpanScores], questions: Sequence[Question], threshold: float
) -> list[str]:
    return [
        answer_of(one, question.context, threshold)
        for one, question in zip(scores, questions, strict=True)
    ]
