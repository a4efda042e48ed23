"""The translator: fit, translate, save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, Unpack

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.errors import SettingsError, TrainingError, explain_missing_packages
from bertcnn.models import RecurrentTranslator, SearchSettings, Transformer, assign, extract
from bertcnn.progress import Progress
from bertcnn.scoring import FileKeywords, FileOptions
from bertcnn.settings import TranslationTrainingSettings, TranslatorSettings
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.pairs import FEWEST_PAIRS, Pairs
from bertcnn.tasks.subwords import Subwords
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.tasks.training import origin, train_writer, with_savepoints
from bertcnn.tasks.translation.saving import FOLDER, SavedTranslator, TranslatorConfig
from bertcnn.tasks.writing import TextWriter, WrittenText, check_beam, written_column
from bertcnn.text import check_texts, is_blank
from bertcnn.training import Arrays, compute_policy, digest, note_device

Architecture = Literal["transformer", "recurrent"]
_MODELS = {"transformer": Transformer, "recurrent": RecurrentTranslator}
_WORST = -1e6  # below this, scores belong to unused beams


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation of a text.

    Attributes:
        text: the best translation; empty for a blank text.
        score: its log-probability divided by the length penalty; 0 for a blank text.
        alternatives: further translations and their scores, best first.
        source_pieces: S source tokens, including the end token.
        pieces: T tokens of the translation, including the end token if it was reached.
        alignment: float32 [T, S], attention of each written token to the source tokens.
    """

    source: str
    text: str
    score: float
    alternatives: tuple[tuple[str, float], ...]
    source_pieces: tuple[str, ...]
    pieces: tuple[str, ...]
    alignment: np.ndarray


@dataclass(frozen=True)
class TranslationFigures:
    """How close translations are to given ones.

    Attributes:
        exact: share of translations that are the given one, 0 to 1.
        chrf: character n-gram F-score of all of them, 0 to 100 (Popović 2015), by sacrebleu.
    """

    pairs: int
    exact: float
    chrf: float


class _Running(NamedTuple):
    subwords: Subwords
    writer: TextWriter


class Translator(TaskModel[TranslatorConfig, _Running]):
    """Learns to translate texts from pairs.

    Args:
        architecture: "transformer" (Vaswani et al. 2017) or "recurrent" (Bahdanau et al. 2014).
        model: changes to `TranslatorSettings`, by name.
        training: changes to `TranslationTrainingSettings`, by name.

    Example:
        translator = Translator().fit(english, italian)
        translator.translate(["I love you very much."])[0].text
    """

    _folder = FOLDER

    def __init__(
        self,
        architecture: Architecture = "transformer",
        *,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(seed, callbacks, progress)
        if architecture not in _MODELS:
            raise SettingsError(
                f"architecture {architecture!r}",
                expected=f"one of {', '.join(_MODELS)}",
                fix="choose one of them",
            )
        shape = {**(model or {}), "architecture": architecture, "vocabulary_size": 1}
        self._settings = TranslatorSettings(**shape)  # vocabulary size is set by `fit`
        self._training = TranslationTrainingSettings(**(training or {}))

    def fit(
        self, sources: Sequence[str], targets: Sequence[str], *, savepoints: Path | None = None
    ) -> Self:
        """Train on pairs; a tenth of them chooses the epoch.

        Args:
            sources: texts.
            targets: their translations.
            savepoints: folder that an interrupted training resumes from, with the same result.

        Raises:
            TableError: a text is blank, or there are fewer than 20 pairs.
            TrainingError: the loss became infinite or NaN.
        """
        options, training = self._options, self._training
        pairs = Pairs.of(sources, targets, least=FEWEST_PAIRS)
        learned, held_out = pairs.split(
            training.validation_fraction, training.validation_pairs, self._seed
        )
        subwords = Subwords.learn([*learned.sources, *learned.targets], training.vocabulary_size)
        settings = self._settings.model_copy(update={"vocabulary_size": len(subwords.vocabulary)})
        train, valid = (EncodedPairs.of(part, subwords, settings) for part in (learned, held_out))
        note_device(self._progress, training.precision)
        self._progress.note(
            f"{len(learned):,} pairs to learn from, {len(held_out):,} held out to choose the epoch;"
            f" {len(subwords.vocabulary):,} pieces"
        )
        model = _built(settings, subwords, self._seed, compute_policy(training.precision))
        options = with_savepoints(
            options,
            savepoints,
            training,
            model=settings.model_dump(),
            pairs=digest([*train.sources, *train.targets, *valid.sources, *valid.targets]),
        )
        history, kept = train_writer(model, train, valid, training, options)
        config = TranslatorConfig(model=settings, pairs=len(learned), **origin(training, options))
        metrics = {
            "pairs": len(learned),
            "validation_pairs": len(held_out),
            "kept_epoch": kept.epoch,
            "epochs": len(history),
            "validation_loss": kept.figures["val_loss"],
            "validation_token_accuracy": kept.figures["val_accuracy"],
        }
        self._take(SavedTranslator(config, subwords.vocabulary, extract(model.weights), metrics))
        return self

    def evaluate(
        self, sources: Sequence[str], targets: Sequence[str], *, beam: int = 4
    ) -> TranslationFigures:
        """Translate texts and compare with their translations.

        Raises:
            TableError: the lists have different lengths, or a text is blank.
            MissingPackageError: sacrebleu is not installed.
        """
        with explain_missing_packages():
            import sacrebleu
        pairs = Pairs.of(sources, targets)
        written = [one.text for one in self.translate(pairs.sources, beam=beam)]
        same = sum(own == other for own, other in zip(written, pairs.targets, strict=True))
        chrf = sacrebleu.corpus_chrf(written, [pairs.targets]).score
        return TranslationFigures(len(pairs), same / len(pairs), float(chrf))

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, length_penalty: float = 0.6
    ) -> list[Translation]:
        """Translate texts.

        Args:
            texts: strings; a long text is truncated to `source_tokens` tokens.
            beam: beam width and number of returned translations; 1 for greedy search.
            length_penalty: 0 prefers short translations; see `SearchSettings`.

        Raises:
            SettingsError: `texts` is not a list of strings, or `beam` is below 1.
            TrainingError: called before `fit`.
        """
        checked = check_texts(texts)
        check_beam(beam)
        running, shape = self._running, self._model.config.model
        subwords = running.subwords
        settings = SearchSettings(
            length=shape.target_tokens,
            start_id=subwords.start_id,
            end_id=subwords.end_id,
            pad_id=subwords.pad_id,
            width=beam,
            length_penalty=float(length_penalty),
            never=subwords.never,
        )
        encoded = subwords.encode(checked, shape.source_tokens)
        translations = [
            Translation(text, "", 0.0, (), (), (), np.zeros((0, 0), np.float32)) for text in checked
        ]
        rows = [row for row, text in enumerate(checked) if not is_blank(text)]
        for written in running.writer.write(settings, encoded, rows):
            row = written.row
            translations[row] = _translation(subwords, checked[row], encoded[row], written)
        return translations

    @classmethod
    def _arguments(cls, config: TranslatorConfig) -> dict[str, Any]:
        return {**super()._arguments(config), "architecture": config.model.architecture}

    def _start(self, saved: SavedTranslator) -> _Running:
        subwords = Subwords(saved.vocabulary)
        model = _built(saved.config.model, subwords, saved.config.seed)
        assign(model.weights, saved.tensors, error=TrainingError)
        return _Running(subwords, TextWriter(model, subwords.pad_id))


def _built(
    settings: TranslatorSettings, subwords: Subwords, seed: int, dtype: str = "float32"
) -> keras.Model:
    model = _MODELS[settings.architecture]
    return model(settings, pad_id=subwords.pad_id, seed=seed, dtype=dtype)


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as token ids with end tokens, int32 [S] and [T] each; for teacher forcing."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    start_id: int
    pad_id: int

    @classmethod
    def of(cls, pairs: Pairs, subwords: Subwords, settings: TranslatorSettings) -> EncodedPairs:
        """Encode and truncate."""
        return cls(
            subwords.encode(pairs.sources, settings.source_tokens),
            subwords.encode(pairs.targets, settings.target_tokens),
            subwords.start_id,
            subwords.pad_id,
        )

    @property
    def lengths(self) -> np.ndarray:
        """The longer of both sides, int [pairs]."""
        return np.maximum([len(ids) for ids in self.sources], [len(ids) for ids in self.targets])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch.

        Target inputs are shifted right after [CLS]. Padding and filler rows have weight 0.
        """
        source, target = (
            pad(ids, plan, self.pad_id).token_ids for ids in (self.sources, self.targets)
        )
        decoder_inputs = np.concatenate(
            [np.full((plan.size, 1), self.start_id, np.int32), target], axis=1
        )
        weights = (target != self.pad_id).astype(np.float32)
        return (
            {"source_ids": source, "target_ids": decoder_inputs[:, :-1]},
            {"target_ids": target, "weights": weights},
        )


def _translation(
    subwords: Subwords, text: str, source: np.ndarray, written: WrittenText
) -> Translation:
    best = written.token_ids[0]
    ended = np.flatnonzero(best == subwords.end_id)
    length = int(ended[0]) + 1 if len(ended) else int((best != subwords.pad_id).sum())
    alternatives = {
        subwords.decode(ids.tolist()): float(score)
        for ids, score in zip(written.token_ids[::-1], written.scores[::-1], strict=True)
        if score > _WORST
    }
    best_text = subwords.decode(best.tolist())
    alternatives.pop(best_text, None)
    return Translation(
        source=text,
        text=best_text,
        score=float(written.scores[0]),
        alternatives=tuple(sorted(alternatives.items(), key=lambda item: -item[1])),
        source_pieces=tuple(subwords.vocabulary[one] for one in source),
        pieces=tuple(subwords.vocabulary[one] for one in best[:length]),
        alignment=written.attention[0, :length, : len(source)],
    )


def translate_csv(
    model: str | Path | Translator,
    source: str | Path,
    target: str | Path,
    *,
    beam: int = 4,
    options: FileOptions | None = None,
    **changes: Unpack[FileKeywords],
) -> ExtractionReport:
    """Translate every row of a file, in constant memory; resumes an interrupted run.

    The output has the input's columns and rows, then `translation`, or `bertcnn_translation` if
    that name is taken. Several text columns are joined. A long text is truncated to the model's
    `source_tokens`. Rows that cannot be read go to `<target>.rejects.csv`.

    Args:
        model: a saved translator's folder or URL, or a loaded model.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write; its extension sets the format.
        beam: beam width; 1 for greedy search.
        options: all options; by default `FileOptions()`.
        changes: single options by name, such as `text="body"`: see `FileOptions`.

    Raises:
        SettingsError: `beam` is below 1.
        BundleError: the model folder is not a translator. Other errors are those of `score_csv`.

    Example:
        translate_csv("models/italian", "inbox.csv", "out.csv", text="body")
    """
    return add_columns(source, target, options, changes, partial(_columns, model, beam))


def _columns(model: str | Path | Translator, beam: int) -> TextColumns:
    own = model if isinstance(model, Translator) else Translator.load(model)
    return written_column(
        "translation",
        own.identity,
        beam,
        lambda texts: [one.text for one in own.translate(texts, beam=beam)],
    )


def alignment_page(translations: Sequence[Translation]) -> str:
    """A page with a heat map for each translation (Bahdanau et al. 2014, figure 3)."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bertcnn.tasks.translation", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    tables = [
        {
            "source": one.source,
            "text": one.text,
            "score": one.score,
            "columns": one.source_pieces,
            "rows": [
                {"piece": piece, "cells": weights.tolist()}
                for piece, weights in zip(one.pieces, one.alignment, strict=True)
            ],
        }
        for one in translations
        if one.pieces
    ]
    return environment.get_template("alignment.html.j2").render(tables=tables)
