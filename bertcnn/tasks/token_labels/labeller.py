"""The token labeller: fit, find spans, evaluate, save and load."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from bertcnn.bundle import INT8_TENSORS
from bertcnn.errors import SettingsError, TableError
from bertcnn.inference import SpansEngine, spans_graph
from bertcnn.progress import Progress
from bertcnn.scoring import FileKeywords, FileOptions
from bertcnn.settings import TokenLabelSettings, TokenLabelTrainingSettings
from bertcnn.tasks.engine import CompiledSpans, load_spans
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.tasks.token_labels.labelled_texts import LabelledText, read_labelled_texts
from bertcnn.tasks.token_labels.metrics import SpanFigures
from bertcnn.tasks.token_labels.saving import FOLDER, LabellerConfig, SavedLabeller
from bertcnn.tasks.token_labels.tags import FoundSpan, count_tags, decode, log_probabilities
from bertcnn.tasks.token_labels.words import TextReader
from bertcnn.text import check_texts

if TYPE_CHECKING:
    from keras.callbacks import Callback

FEWEST_TEXTS = 10
_SPAN = np.dtype([("start", "<i4"), ("end", "<i4"), ("label", "<u2"), ("probability", "<f4")])


@dataclass(frozen=True, eq=False)
class _Running:
    reader: TextReader
    engine: SpansEngine


class TokenLabeller(TaskModel[LabellerConfig, _Running]):
    """Finds labelled spans in texts, such as names and dates.

    Args:
        encoder: name of a published encoder, or a folder.
        windows: changes to `TokenLabelSettings`, by name.
        training: changes to `TokenLabelTrainingSettings`, by name.

    Example:
        labeller = TokenLabeller().fit(read_labelled_texts("spans.jsonl"))
        labeller.spans(["Anna Kim paid 20 euros on 3 May."])
    """

    _folder = FOLDER

    def __init__(
        self,
        encoder: str | os.PathLike[str] = "minilm-l6",
        *,
        windows: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(seed, callbacks, progress)
        self._encoder_name = str(encoder)
        self._windows = TokenLabelSettings(**(windows or {}))
        self._training = TokenLabelTrainingSettings(**(training or {}))

    def fit(
        self,
        texts: Sequence[LabelledText],
        valid: Sequence[LabelledText] | None = None,
        *,
        savepoints: Path | None = None,
    ) -> Self:
        """Fine-tune the encoder; held-out texts choose the epoch and calibrate.

        Args:
            texts: with their spans.
            valid: held-out texts; a share of `texts` by default.
            savepoints: folder that an interrupted training resumes from, with the same result.

        Raises:
            TableError: fewer than 10 texts, no spans, or a text that is too long.
            EncoderError: the encoder cannot be loaded.
            TrainingError: the loss became infinite or NaN.
        """
        from bertcnn.tasks.token_labels.fitting import fitted, split_texts

        options = self._options
        for given in (texts, valid or ()):
            if isinstance(given, str) or not all(isinstance(one, LabelledText) for one in given):
                raise SettingsError(
                    f"texts of the type {type(given).__name__}",
                    expected="a list of LabelledText",
                    fix="read a file with read_labelled_texts",
                )
        if len(texts) < FEWEST_TEXTS:
            raise TableError(
                f"{len(texts)} labelled texts",
                expected=f"at least {FEWEST_TEXTS}",
                fix="label more texts",
            )
        parts = (
            (texts, valid)
            if valid
            else split_texts(texts, self._training.validation_fraction, self._seed)
        )
        settings = self._windows, self._training
        self._take(fitted(self._encoder_name, parts, *settings, options, savepoints))
        return self

    def spans(self, texts: Sequence[str], *, cut: bool = False) -> list[list[FoundSpan]]:
        """The spans of each text, in order.

        Args:
            texts: strings.
            cut: ignore the end of a text that is too long, instead of refusing it.

        Raises:
            TableError: a text needs more windows than the settings allow.
            TrainingError: called before `fit`.
            BundleError: the model's numbers are not finite.
        """
        config, running = self._model.config, self._running
        read = running.reader.read(check_texts(texts), cut=cut)
        return [
            decode(log_probabilities(scores, config.temperature), words, config.labels)
            for scores, words in zip(read.scores(running.engine), read.words, strict=True)
        ]

    def evaluate(self, texts: Sequence[LabelledText]) -> SpanFigures:
        """Precision, recall and F1 of exact spans."""
        found = self.spans([one.text for one in texts])
        return SpanFigures.of(
            [[(one.start, one.end, one.label) for one in spans] for spans in found],
            [[(one.start, one.end, one.label) for one in text.spans] for text in texts],
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of spans."""
        return self._model.config.labels

    @property
    def engine_name(self) -> str:
        """The engine and its precision."""
        return self._running.engine.name

    def _start(self, saved: SavedLabeller) -> _Running:
        config = saved.config
        reader = TextReader(saved.vocabulary, config.lowercase, config.windows)
        tags = count_tags(config.labels)
        graph = partial(spans_graph, saved.tensors, config.encoder, tags=tags)
        compiled = CompiledSpans.of(config, saved.more[INT8_TENSORS])
        engine = load_spans(compiled, graph, reader.pad_id, identity=saved.identity or None)
        return _Running(reader, engine)


def load_token_labeller(
    folder: str | os.PathLike[str], *, progress: Progress | None = None
) -> TokenLabeller:
    """Load a saved token labeller from a folder or URL; raises BundleError if it was changed."""
    return TokenLabeller.load(folder, progress=progress)


def train_token_labels(
    data: str | os.PathLike[str],
    *,
    valid: str | os.PathLike[str] | None = None,
    rejects: Path | None = None,
    savepoints: Path | None = None,
    **settings: Any,  # noqa: ANN401 - as `TokenLabeller` takes them
) -> TokenLabeller:
    """Train a token labeller on a file of texts with spans; see `read_labelled_texts`.

    Args:
        data: the file.
        valid: a file of held-out texts; by default a share of `data`.
        rejects: a .csv file for rejected rows of `data`.
        savepoints: as for `TokenLabeller.fit`.
        settings: arguments of `TokenLabeller`, such as `encoder` and `seed`.

    Raises:
        TableError: a file cannot be read, or has too few texts.
        EncoderError: the encoder cannot be loaded.

    Example:
        train_token_labels("spans.jsonl", seed=1).save("models/spans")
    """
    labeller = TokenLabeller(**settings)
    texts = read_labelled_texts(data, rejects=rejects, progress=labeller._progress)
    held_out = None if valid is None else read_labelled_texts(valid, progress=labeller._progress)
    return labeller.fit(texts, held_out, savepoints=savepoints)


def extract_spans(
    model: str | Path | TokenLabeller,
    source: str | Path,
    target: str | Path,
    options: FileOptions | None = None,
    **changes: Unpack[FileKeywords],
) -> ExtractionReport:
    """Find the spans in every row of a file, in constant memory.

    The output has the input's columns and rows, then `spans`: a JSON list of objects with start,
    end, label, text and probability, in the text as it was read (several columns are joined). The
    end of a text with too many windows is not read. Rows that cannot be read go to
    `<target>.rejects.csv`. An interrupted run resumes, as in `score_csv`.

    Args:
        model: a saved token labeller's folder or URL, or a loaded model.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write; its extension sets the format.
        options: all options; by default `FileOptions()`.
        changes: single options by name, such as `text="body"`: see `FileOptions`.

    Raises:
        ColumnError: the input has a column `spans` already, or the text column is missing.
        BundleError: the model folder is not a token labeller; others as for `score_csv`.

    Example:
        extract_spans("models/spans", "inbox.csv", "out.csv", text="body")
    """
    return add_columns(source, target, options, changes, partial(_columns, model))


def _columns(model: str | Path | TokenLabeller) -> TextColumns:
    labeller = model if isinstance(model, TokenLabeller) else TokenLabeller.load(model)
    labels = labeller.labels
    return TextColumns(
        names=["spans"],
        model=labeller.identity,
        engine=labeller.engine_name,
        settings=json.dumps(labels, ensure_ascii=False),
        answer=partial(_spans, labeller),
        cells=partial(_cells, labels),
        tally=lambda spans: {
            **dict.fromkeys(labels, 0),
            **Counter(labels[index] for index in np.frombuffer(spans, _SPAN)["label"].tolist()),
        },
    )


def _spans(labeller: TokenLabeller, texts: list[str]) -> list[bytes]:
    labels = labeller.labels
    return [
        np.array(
            [(one.start, one.end, labels.index(one.label), one.probability) for one in spans], _SPAN
        ).tobytes()
        for spans in labeller.spans(texts, cut=True)
    ]


def _cells(labels: Sequence[str], text: str, spans: bytes) -> list[str]:
    objects = [
        {
            "start": start,
            "end": end,
            "label": labels[label],
            "text": text[start:end],
            "probability": round(probability, 6),
        }
        for start, end, label, probability in np.frombuffer(spans, _SPAN).tolist()
    ]
    return [json.dumps(objects, ensure_ascii=False)]
