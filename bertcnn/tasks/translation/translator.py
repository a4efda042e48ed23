"""The translator: fit, translate, save and load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import keras
import numpy as np

from bertcnn.bundle.remote import local_folder
from bertcnn.errors import SettingsError, TrainingError
from bertcnn.inference.predictor import check_texts
from bertcnn.models.decoding import SearchSettings
from bertcnn.models.recurrent import RecurrentTranslator
from bertcnn.models.transformer import Transformer
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress, Silent
from bertcnn.settings import TranslationTrainingSettings, TranslatorSettings
from bertcnn.tasks.compiled import compiled_search
from bertcnn.tasks.translation.pairs import FEWEST_PAIRS, Pairs
from bertcnn.tasks.translation.saving import (
    FOLDER,
    SavedTranslator,
    TranslatorConfig,
    read_translator,
    write_translator,
)
from bertcnn.tasks.translation.subwords import Subwords
from bertcnn.tasks.translation.training import EncodedPairs, train_translator
from bertcnn.text.cleaning import is_blank
from bertcnn.training.devices import compute_policy
from bertcnn.training.savepoints import Savepoints, digest
from bertcnn.training.start import check_seed, note_device

Architecture = Literal["transformer", "recurrent"]
_MODELS = {"transformer": Transformer, "recurrent": RecurrentTranslator}
_ROWS = (1, 32)  # of a batch: a program is compiled for each
_WORST = -1e6  # scores of places in the beam that no text took
_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # of sources, the same


@dataclass(frozen=True, eq=False)
class Translation:
    """What was written for a text.

    Attributes:
        source: the text.
        text: the best translation; empty for a blank text.
        score: its log-probability divided by the length penalty; 0 for a blank text.
        alternatives: further translations and their scores, best first.
        source_pieces: the source as the model reads it, S pieces, the end of the text last.
        pieces: the translation as the model wrote it, T pieces, the end last if it was reached.
        alignment: float32 [T, S], how much each written piece looked at each piece of the source.
    """

    source: str
    text: str
    score: float
    alternatives: tuple[tuple[str, float], ...]
    source_pieces: tuple[str, ...]
    pieces: tuple[str, ...]
    alignment: np.ndarray


class Translator:
    """Learns to write a text for a text, from pairs.

    Args:
        architecture: "transformer" (Vaswani et al. 2017) or "recurrent" (Bahdanau et al. 2014).
        model: changes to the defaults of `TranslatorSettings`, by name.
        training: changes to the defaults of `TranslationTrainingSettings`, by name.
        seed: of every random choice.
        callbacks: of Keras, that hear of the training.
        progress: progress callback; none by default.

    Attributes:
        metrics_: figures of the training.

    Example:
        translator = Translator().fit(english, italian)
        translator.translate(["I love you very much."])[0].text
    """

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
        if architecture not in _MODELS:
            raise SettingsError(
                f"architecture {architecture!r}",
                expected=f"one of {', '.join(_MODELS)}",
                fix="choose one of them",
            )
        self._shape = {**(model or {}), "architecture": architecture}
        TranslatorSettings(**{**self._shape, "vocabulary_size": 1})
        self._training = TranslationTrainingSettings(**(training or {}))
        self._seed, self._progress = seed, progress or Silent()
        self._callbacks = tuple(callbacks)
        self._model: keras.Model | None = None
        self._searches: dict[SearchSettings, Any] = {}
        self.metrics_: dict[str, Any] = {}

    def fit(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        savepoints: Path | None = None,
    ) -> Self:
        """Learn from pairs; a tenth of them chooses the epoch.

        Args:
            sources: texts.
            targets: their translations.
            savepoints: folder in which the training is saved from time to time; the same call goes
                on from it after an interruption, and ends with the same weights. None by default.

        Raises:
            TableError: pairs are blank or fewer than 20.
            TrainingError: the loss became infinite or NaN.
        """
        check_seed(self._seed)
        training = self._training
        pairs = Pairs.of(sources, targets, least=FEWEST_PAIRS)
        learned, held_out = pairs.split(
            training.validation_fraction, training.validation_pairs, self._seed
        )
        self._subwords = subwords = Subwords.learn(
            [*learned.sources, *learned.targets], training.vocabulary_size
        )
        self._settings = TranslatorSettings(
            **{**self._shape, "vocabulary_size": len(subwords.vocabulary)}
        )
        train, valid = self._encoded(learned), self._encoded(held_out)
        note_device(self._progress, training.precision)
        self._progress.note(
            f"{len(learned):,} pairs to learn from, {len(held_out):,} held out to choose the epoch;"
            f" {len(subwords.vocabulary):,} pieces"
        )
        model = self._built(compute_policy(training.precision))
        points = None
        if savepoints is not None:
            identity = {
                "model": self._settings.model_dump(),
                "training": training.model_dump(),
                "seed": self._seed,
                "pairs": digest([*train.sources, *train.targets, *valid.sources, *valid.targets]),
            }
            points = Savepoints(savepoints, identity, self._progress)
        history, kept = train_translator(
            model,
            train,
            valid,
            training,
            seed=self._seed,
            progress=self._progress,
            savepoints=points,
            callbacks=self._callbacks,
        )
        self._model, self._searches = self._built(), {}
        assign(self._model.weights, extract(model.weights), error=TrainingError)
        self._pairs = len(learned)
        self.metrics_ = {
            "pairs": len(learned),
            "validation_pairs": len(held_out),
            "kept_epoch": kept.epoch,
            "epochs": len(history),
            "validation_loss": kept.figures["val_loss"],
            "validation_token_accuracy": kept.figures["val_accuracy"],
        }
        return self

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, length_penalty: float = 0.6
    ) -> list[Translation]:
        """Translate texts.

        Args:
            texts: strings; of a long one the first `source_tokens` pieces are read.
            beam: translations searched at the same time, all of which are returned; 1 for greedy
                search.
            length_penalty: 0 prefers short translations; see `SearchSettings`.

        Raises:
            SettingsError: no list of strings, or a beam below 1.
            TrainingError: called before `fit`.
        """
        checked = check_texts(texts)
        if not isinstance(beam, int) or beam < 1:
            raise SettingsError(
                f"beam {beam!r}", expected="a whole number, 1 or more", fix="give for example 4"
            )
        if self._model is None:
            raise TrainingError(
                "a translator without a model",
                expected="one that is trained",
                fix="call fit first, or load a saved one",
            )
        subwords, settings = self._subwords, self._settings
        search = self._search(beam, float(length_penalty))
        encoded = subwords.encode(checked, settings.source_tokens)
        rows = [row for row, text in enumerate(checked) if not is_blank(text)]
        rows.sort(key=lambda row: len(encoded[row]))
        found = {
            row: Translation(text, "", 0.0, (), (), (), np.zeros((0, 0), np.float32))
            for row, text in enumerate(checked)
        }
        size = _ROWS[0] if len(rows) == 1 else _ROWS[1]
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            longest = max(len(encoded[row]) for row in part)
            length = next(one for one in _LENGTHS if one >= longest)
            source_ids = np.full((size, length), subwords.pad_id, np.int32)
            for slot, row in enumerate(part):
                source_ids[slot, : len(encoded[row])] = encoded[row]
            written = search(source_ids)
            for slot, row in enumerate(part):
                found[row] = self._translation(
                    checked[row],
                    encoded[row],
                    written.token_ids[slot],
                    written.scores[slot],
                    written.attention[slot, 0],
                )
        return [found[row] for row in range(len(checked))]

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> str:
        """Save to a folder, all or nothing, and return the model's id.

        Raises:
            OutputError: the place is taken or cannot be written.
            TrainingError: called before `fit`.
        """
        FOLDER.check_target(folder, overwrite)
        if self._model is None:
            raise TrainingError(
                "a translator without a model", expected="one that is trained", fix="call fit first"
            )
        config = TranslatorConfig(
            model=self._settings,
            training=self._training,
            seed=self._seed,
            pairs=self._pairs,
            versions={name: version(name) for name in ("bertcnn", "keras")},
        )
        saved = SavedTranslator(
            config, self._subwords.vocabulary, extract(self._model.weights), self.metrics_
        )
        return write_translator(saved, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, progress: Progress | None = None) -> Self:
        """A saved translator.

        Args:
            folder: as given to `save`, or a URL.
            progress: progress callback.

        Raises:
            BundleError: the folder is not exactly what `save` wrote.
        """
        saved = read_translator(local_folder(folder, progress=progress))
        config = saved.config
        translator = cls(
            config.model.architecture,
            model=config.model.model_dump(exclude={"architecture", "vocabulary_size"}),
            training=config.training.model_dump(),
            seed=config.seed,
            progress=progress,
        )
        translator._subwords, translator._settings = Subwords(saved.vocabulary), config.model
        translator._pairs, translator.metrics_ = config.pairs, dict(saved.metrics)
        translator._model = translator._built()
        assign(translator._model.weights, saved.tensors, error=TrainingError)
        return translator

    def _built(self, dtype: str = "float32") -> keras.Model:
        """A new model."""
        model, pad_id = _MODELS[self._settings.architecture], self._subwords.pad_id
        return model(self._settings, pad_id=pad_id, seed=self._seed, dtype=dtype)

    def _encoded(self, pairs: Pairs) -> EncodedPairs:
        subwords, settings = self._subwords, self._settings
        return EncodedPairs(
            subwords.encode(pairs.sources, settings.source_tokens),
            subwords.encode(pairs.targets, settings.target_tokens),
            subwords.start_id,
            subwords.pad_id,
        )

    def _search(self, width: int, length_penalty: float) -> Any:  # noqa: ANN401 - a function
        subwords = self._subwords
        settings = SearchSettings(
            length=self._settings.target_tokens,
            start_id=subwords.start_id,
            end_id=subwords.end_id,
            pad_id=subwords.pad_id,
            width=width,
            length_penalty=length_penalty,
            never=subwords.never,
        )
        if settings not in self._searches:
            self._searches[settings] = compiled_search(self._model, settings)
        return self._searches[settings]

    def _translation(
        self,
        text: str,
        source: np.ndarray,
        token_ids: np.ndarray,
        scores: np.ndarray,
        attention: np.ndarray,
    ) -> Translation:
        subwords = self._subwords
        best = token_ids[0]
        ended = np.flatnonzero(best == subwords.end_id)
        length = int(ended[0]) + 1 if len(ended) else int((best != subwords.pad_id).sum())
        others = {
            subwords.decode(ids.tolist()): float(score)
            for ids, score in zip(token_ids[::-1], scores[::-1], strict=True)
            if score > _WORST
        }
        written = subwords.decode(best.tolist())
        others.pop(written, None)
        return Translation(
            source=text,
            text=written,
            score=float(scores[0]),
            alternatives=tuple(sorted(others.items(), key=lambda item: -item[1])),
            source_pieces=tuple(subwords.vocabulary[one] for one in source),
            pieces=tuple(subwords.vocabulary[one] for one in best[:length]),
            alignment=attention[:length, : len(source)],
        )
