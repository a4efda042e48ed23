"""Trains a token labeller: fine-tuning and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from bertcnn.bundle import INT8_TENSORS, int8_bytes
from bertcnn.errors import TableError
from bertcnn.evaluation import fit_temperature
from bertcnn.inference import SpansModel, spans_graph
from bertcnn.models import BertTokenLabels, extract
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings, TokenLabelSettings, TokenLabelTrainingSettings
from bertcnn.shapes import token_labels_shapes
from bertcnn.tasks.engine import compile_spans
from bertcnn.tasks.reference import KerasSpans
from bertcnn.tasks.token_labels.labelled_texts import LabelledText
from bertcnn.tasks.token_labels.metrics import SpanFigures
from bertcnn.tasks.token_labels.saving import LabellerConfig, SavedLabeller
from bertcnn.tasks.token_labels.tags import count_tags, decode, log_probabilities, tags_of_spans
from bertcnn.tasks.token_labels.training import LabelledWindows, tag_figures
from bertcnn.tasks.token_labels.words import ReadTexts, TextReader
from bertcnn.tasks.training import check_max_tokens, fine_tune
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
from bertcnn.wording import count


@dataclass(frozen=True)
class _Read:
    """Labelled texts as words and windows, with the tags of the words."""

    given: Sequence[LabelledText]
    texts: ReadTexts
    tags: list[np.ndarray]

    @classmethod
    def of(
        cls,
        given: Sequence[LabelledText],
        reader: TextReader,
        labels: Sequence[str],
        progress: Progress,
    ) -> _Read:
        texts, tags = reader.read([one.text for one in given]), []
        widened = lost = 0
        for one, words in zip(given, texts.words, strict=True):
            spans = [span for span in one.spans if span.label in labels]
            own, wider, without = tags_of_spans(words, spans, labels)
            tags.append(own)
            widened, lost = widened + wider, lost + without
        if widened:
            progress.note(f"widened to whole words: {count(widened, 'span')} that cut a word")
        if lost:
            progress.note(f"shorter than given: {count(lost, 'span')} without a word of its own")
        return cls(given, texts, tags)

    def found(
        self, scores: Sequence[np.ndarray], labels: Sequence[str]
    ) -> list[list[tuple[int, int, str]]]:
        return [
            [(span.start, span.end, span.label) for span in decode(logs, words, labels)]
            for logs, words in zip(map(log_probabilities, scores), self.texts.words, strict=True)
        ]

    def figures(self, scores: Sequence[np.ndarray], labels: Sequence[str]) -> SpanFigures:
        expected = [[(one.start, one.end, one.label) for one in text.spans] for text in self.given]
        return SpanFigures.of(self.found(scores, labels), expected)

    def measured(self, model: SpansModel, labels: Sequence[str]) -> dict[str, float]:
        return {"val_f1": self.figures(self.texts.scores(model), labels).micro.f1}


@dataclass(frozen=True)
class _Trained:
    """A trained model, with the encoder's whole vocabulary."""

    encoder: EncoderSettings
    tensors: dict[str, np.ndarray]
    scores: list[np.ndarray]  # of the held-out texts
    kept_epoch: int


def split_texts(
    texts: Sequence[LabelledText], fraction: float, seed: int
) -> tuple[list[LabelledText], list[LabelledText]]:
    """Split off a share of the texts; equal texts stay together, and neither part is empty."""
    different = list(dict.fromkeys(one.text for one in texts))
    if len(different) < 2:
        raise TableError("equal texts", expected="at least 2 that differ", fix="give more texts")
    size = min(max(1, round(fraction * len(different))), len(different) - 1)
    chosen = np.random.default_rng(seed).permutation(len(different))[:size]
    held_out = {different[index] for index in chosen}
    parts: tuple[list[LabelledText], list[LabelledText]] = ([], [])
    for one in texts:
        parts[one.text in held_out].append(one)
    return parts


def fitted(
    encoder_name: str,
    parts: tuple[Sequence[LabelledText], Sequence[LabelledText]],
    windows: TokenLabelSettings,
    training: TokenLabelTrainingSettings,
    options: RunOptions,
    savepoints: Path | None,
) -> SavedLabeller:
    """Train a token labeller on the first part; see `TokenLabeller.fit`."""
    labels = tuple(sorted({span.label for one in parts[0] for span in one.spans}))
    if not labels:
        raise TableError("texts without a span", expected="some spans", fix="label more texts")
    start = load_start(
        encoder_name,
        windows.max_tokens,
        seed=options.seed,
        progress=options.progress,
        precision=training.precision,
    )
    check_max_tokens(windows.max_tokens, start.encoder.settings.max_positions)
    lowercase = start.tokenizer.settings.lowercase
    reader = TextReader(start.tokenizer.vocabulary, lowercase, windows)
    learned, held_out = (_Read.of(part, reader, labels, options.progress) for part in parts)
    if not learned.texts.windows or not held_out.texts.windows:
        raise TableError("texts without a word", expected="texts with words", fix="give others")
    if savepoints is not None:
        identity = {
            "encoder": start.name,
            "windows": windows.model_dump(),
            "training": training.model_dump(),
            "seed": options.seed,
            "labels": list(labels),
            "texts": digest([*learned.texts.token_ids, *learned.tags]),
            "held_out": digest([*held_out.texts.token_ids, *held_out.tags]),
        }
        options = replace(options, savepoints=Savepoints(savepoints, identity, options.progress))
    trained = _trained(start, (learned, held_out), labels, training, options)
    compiled = compile_spans(
        partial(spans_graph, trained.tensors, trained.encoder, tags=count_tags(labels)),
        trained.encoder,
        learned.texts.windows,
        reader.pad_id,
        partial(_compared, held_out, trained.scores, labels),
        "text",
        options.progress,
    )
    config = LabellerConfig(
        encoder=trained.encoder,
        encoder_name=start.name,
        lowercase=lowercase,
        labels=labels,
        windows=windows,
        training=training,
        temperature=fit_temperature(np.concatenate(trained.scores), np.concatenate(held_out.tags)),
        precision=compiled.precision,
        precision_reason=compiled.reason,
        seed=options.seed,
        versions={name: version(name) for name in ("bertcnn", "keras", "openvino", "nncf")},
    )
    metrics = {
        **held_out.figures(trained.scores, labels).to_json(),
        "measured_on": "validation texts, which chose the epoch",
        "kept_epoch": trained.kept_epoch,
        "learned_texts": len(learned.given),
    }
    more = {INT8_TENSORS: int8_bytes(compiled.int8)}
    return SavedLabeller(config, start.tokenizer.vocabulary, trained.tensors, metrics, more)


def _compared(
    held_out: _Read, expected: Sequence[np.ndarray], labels: Sequence[str], model: SpansModel
) -> tuple[float, float]:
    """The share of texts with the expected spans, and the loss of F1."""
    scores = held_out.texts.scores(model)
    pairs = zip(held_out.found(scores, labels), held_out.found(expected, labels), strict=True)
    same = float(np.mean([one == other for one, other in pairs]))
    before, after = (held_out.figures(one, labels).micro.f1 for one in (expected, scores))
    return same, before - after


def _trained(
    start: Start,
    parts: tuple[_Read, _Read],
    labels: Sequence[str],
    training: TokenLabelTrainingSettings,
    options: RunOptions,
) -> _Trained:
    """Train on the first part and keep the epoch with the best F1 on the second."""
    # train with the embeddings of tokens that occur
    learned, held_out = parts
    pad = np.array([start.tokenizer.pad_id])
    small, used = on_used_pieces(
        start.encoder,
        [pad, *learned.texts.token_ids, *held_out.texts.token_ids],
        training.dropout,
        dropout=training.dropout,
        policy=compute_policy(training.precision),
    )
    (small_pad,) = renumbered([pad], used)[0].tolist()
    learned, validation = (
        replace(one, texts=one.texts.with_token_ids(renumbered(one.texts.token_ids, used)))
        for one in (learned, held_out)
    )
    model = BertTokenLabels(small, count_tags(labels), seed=options.seed)
    options.progress.note(
        f"{len(learned.given):,} texts to learn from, {len(held_out.given):,} held out;"
        f" labels: {', '.join(labels)}"
    )
    reference = KerasSpans(model, small_pad)
    train = LabelledWindows.of(learned.texts, learned.tags, small_pad)
    measured = partial(validation.measured, reference, labels)
    kept = fine_tune(model, train, tag_figures, training, options, measured)
    scores = validation.texts.scores(reference)
    put_back(start.encoder, small, used)
    tokens = start.encoder.settings.vocabulary_size
    encoder = small.settings.model_copy(update={"vocabulary_size": tokens})
    tensors = {**extract(model.weights), **extract(start.encoder.weights)}
    tensors = {name: tensors[name] for name in token_labels_shapes(encoder, count_tags(labels))}
    return _Trained(encoder, tensors, scores, kept)
