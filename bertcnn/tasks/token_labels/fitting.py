"""Trains a token labeller: fine-tuning and calibration."""

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
from bertcnn.evaluation import fit_temperature
from bertcnn.inference import SpansModel, spans_graph
from bertcnn.models import BertTokenLabels
from bertcnn.progress import Progress
from bertcnn.settings import TokenLabelSettings, TokenLabelTrainingSettings
from bertcnn.shapes import token_labels_shapes
from bertcnn.tasks.engine import compile_spans
from bertcnn.tasks.token_labels.labelled_texts import LabelledText
from bertcnn.tasks.token_labels.metrics import SpanFigures
from bertcnn.tasks.token_labels.saving import LabellerConfig, SavedLabeller
from bertcnn.tasks.token_labels.tags import count_tags, decode, log_probabilities, tags_of_spans
from bertcnn.tasks.token_labels.words import ReadTexts, TextReader
from bertcnn.tasks.training import (
    encoder_origin,
    fine_tune_windows,
    load_encoder,
    origin,
    with_savepoints,
)
from bertcnn.tasks.windows import Window
from bertcnn.training import Arrays, RunOptions, digest
from bertcnn.wording import count

_IGNORED = -1  # tag of tokens that no word begins with


@dataclass(frozen=True)
class LabelledWindows:
    """Windows with a tag for each token, int32 [T]; -1 for tokens that no word begins with."""

    token_ids: Sequence[np.ndarray]
    tags: Sequence[np.ndarray]
    pad_id: int

    @classmethod
    def of(cls, texts: ReadTexts, tags: Sequence[np.ndarray], pad_id: int) -> LabelledWindows:
        """Label the first word piece of each word with its tag, int32 [words] per text."""
        labelled = []
        for window, start in zip(texts.windows, texts.starts.tolist(), strict=True):
            places = texts.first_tokens[window.row] - start
            inside = (places >= 0) & (places < len(window.spans))
            row = np.full(len(window.token_ids), _IGNORED, np.int32)
            row[window.first + places[inside]] = tags[window.row][inside]
            labelled.append(row)
        return cls(texts.token_ids, labelled, pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [windows]."""
        return np.array([len(ids) for ids in self.token_ids])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; only tokens with a tag have weight 1."""
        inputs = pad(self.token_ids, plan, self.pad_id).inputs()
        tags = np.full((plan.size, plan.length), _IGNORED, np.int32)
        for slot, row in enumerate(plan.rows):
            tags[slot, : len(self.tags[row])] = self.tags[row]
        weights = (tags != _IGNORED).astype(np.float32)
        return inputs, {"tags": np.maximum(tags, 0), "weights": weights}


def tag_figures(scores: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """The cross-entropy of the tags; `scores` are float32 [B, T, tags]."""
    ops = keras.ops
    logs = ops.log_softmax(ops.cast(scores, "float32"), axis=-1)
    chosen = ops.take_along_axis(logs, targets["tags"][:, :, None], axis=-1)[:, :, 0]
    return {"loss": -ops.sum(chosen * targets["weights"])}


@dataclass(frozen=True)
class _Read:
    """Labelled texts as words and windows, with the tags of the words."""

    given: Sequence[LabelledText]
    texts: ReadTexts
    tags: list[np.ndarray]
    labels: tuple[str, ...]

    @classmethod
    def of(
        cls,
        given: Sequence[LabelledText],
        reader: TextReader,
        labels: tuple[str, ...],
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
        return cls(given, texts, tags, labels)

    @property
    def windows(self) -> list[Window]:
        return self.texts.windows

    def with_windows(self, windows: list[Window]) -> _Read:
        return replace(self, texts=replace(self.texts, windows=windows))

    def labelled(self, pad_id: int) -> LabelledWindows:
        return LabelledWindows.of(self.texts, self.tags, pad_id)

    def scores(self, model: SpansModel) -> list[np.ndarray]:
        return self.texts.scores(model)

    def found(self, scores: Sequence[np.ndarray]) -> list[list[tuple[int, int, str]]]:
        return [
            [(span.start, span.end, span.label) for span in decode(logs, words, self.labels)]
            for logs, words in zip(map(log_probabilities, scores), self.texts.words, strict=True)
        ]

    def figures(self, scores: Sequence[np.ndarray]) -> SpanFigures:
        expected = [[(one.start, one.end, one.label) for one in text.spans] for text in self.given]
        return SpanFigures.of(self.found(scores), expected)

    def measured(self, model: SpansModel) -> dict[str, float]:
        return {"val_f1": self.figures(self.scores(model)).micro.f1}


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
    start = load_encoder(encoder_name, windows.max_tokens, training.precision, options)
    vocabulary, lowercase = start.tokenizer.vocabulary, start.tokenizer.settings.lowercase
    reader = TextReader(vocabulary, lowercase, windows)
    learned, held_out = (_Read.of(part, reader, labels, options.progress) for part in parts)
    if not learned.windows or not held_out.windows:
        raise TableError("texts without a word", expected="texts with words", fix="give others")
    options = with_savepoints(
        options,
        savepoints,
        training,
        encoder=start.name,
        windows=windows.model_dump(),
        labels=list(labels),
        texts=digest([*learned.texts.token_ids, *learned.tags]),
        held_out=digest([*held_out.texts.token_ids, *held_out.tags]),
    )
    options.progress.note(
        f"{len(learned.given):,} texts to learn from, {len(held_out.given):,} held out;"
        f" labels: {', '.join(labels)}"
    )
    tags = count_tags(labels)
    trained = fine_tune_windows(
        start,
        (learned, held_out),
        partial(BertTokenLabels, tags=tags, seed=options.seed),
        _Read.labelled,
        tag_figures,
        partial(token_labels_shapes, tags=tags),
        training,
        options,
    )
    compiled = compile_spans(
        partial(spans_graph, trained.tensors, trained.encoder, tags=tags),
        trained.encoder,
        learned.windows,
        reader.pad_id,
        partial(_compared, held_out, trained.scores),
        "text",
        options.progress,
    )
    config = LabellerConfig(
        encoder=trained.encoder,
        labels=labels,
        windows=windows,
        temperature=fit_temperature(np.concatenate(trained.scores), np.concatenate(held_out.tags)),
        precision=compiled.precision,
        precision_reason=compiled.reason,
        **encoder_origin(start),
        **origin(training, options, "openvino", "nncf"),
    )
    metrics = {
        **held_out.figures(trained.scores).to_json(),
        "measured_on": "validation texts, which chose the epoch",
        "kept_epoch": trained.kept_epoch,
        "learned_texts": len(learned.given),
    }
    more = {INT8_TENSORS: int8_bytes(compiled.int8)}
    return SavedLabeller(config, vocabulary, trained.tensors, metrics, more)


def _compared(
    held_out: _Read, expected: Sequence[np.ndarray], model: SpansModel
) -> tuple[float, float]:
    """The share of texts with the expected spans, and the loss of F1."""
    scores = held_out.scores(model)
    pairs = zip(held_out.found(scores), held_out.found(expected), strict=True)
    same = float(np.mean([one == other for one, other in pairs]))
    before, after = (held_out.figures(one).micro.f1 for one in (expected, scores))
    return same, before - after
