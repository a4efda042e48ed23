"""The summariser: fit, summarise, evaluate, save and load."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from bertcnn.errors import TrainingError
from bertcnn.models import Bert, BertSummariser, assign
from bertcnn.progress import Progress
from bertcnn.scoring import FileKeywords, FileOptions
from bertcnn.settings import SummariserSettings, SummaryTrainingSettings, TokenizerSettings
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.pairs import FEWEST_PAIRS, Pairs
from bertcnn.tasks.summaries.rouge import SummaryFigures
from bertcnn.tasks.summaries.saving import FOLDER, SavedSummariser, SummariserConfig
from bertcnn.tasks.summaries.tokens import SpecialIds, spelled
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.tasks.writing import TextWriter, check_beam, written_column
from bertcnn.text import WordPieceTokenizer, check_texts, is_blank

if TYPE_CHECKING:
    from keras.callbacks import Callback


@dataclass(frozen=True)
class Summary:
    """A summary of a text.

    Attributes:
        text: one line; empty for a blank text.
        score: its log-probability divided by the length penalty; 0 for a blank text.
    """

    text: str
    score: float


class _Running(NamedTuple):
    tokenizer: WordPieceTokenizer
    ids: SpecialIds
    writer: TextWriter


class Summariser(TaskModel[SummariserConfig, _Running]):
    """Learns to write a line for a text, from pairs.

    A decoder is trained on the output of a published encoder, which is frozen. It can copy words of
    the text (See et al. 2017).

    Args:
        encoder: name or folder of an encoder.
        model: changes to `SummariserSettings`, by name.
        training: changes to `SummaryTrainingSettings`, by name.

    Example:
        summariser = Summariser().fit(tickets, summaries)
        summariser.summarise(["Hello, my router is dead since Monday. ..."])[0].text
    """

    _folder = FOLDER

    def __init__(
        self,
        encoder: str | os.PathLike[str] = "minilm-l6",
        *,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(seed, callbacks, progress)
        self._encoder_name = str(encoder)
        self._settings = SummariserSettings(**(model or {}))
        self._training = SummaryTrainingSettings(**(training or {}))

    def fit(
        self, texts: Sequence[str], summaries: Sequence[str], *, savepoints: Path | None = None
    ) -> Self:
        """Train on pairs; a tenth of them chooses the epoch.

        Args:
            texts: such as tickets.
            summaries: a line for each.
            savepoints: folder that an interrupted training resumes from, with the same result.

        Raises:
            TableError: a text is blank, or there are fewer than 20 pairs.
            EncoderError: the encoder cannot be loaded.
            TrainingError: the loss became infinite or NaN.
        """
        from bertcnn.tasks.summaries.fitting import fitted

        options = self._options
        pairs = Pairs.of(texts, summaries, target="summary", least=FEWEST_PAIRS)
        settings = self._settings, self._training
        self._take(fitted(self._encoder_name, pairs, *settings, options, savepoints))
        return self

    def summarise(self, texts: Sequence[str], *, beam: int = 4) -> list[Summary]:
        """Summarise texts.

        Args:
            texts: strings; a text that is too long loses tokens in its middle.
            beam: beam width; 1 for greedy search.

        Raises:
            SettingsError: `texts` is not a list of strings, or `beam` is below 1.
            TrainingError: called before `fit`.
        """
        checked = check_texts(texts)
        check_beam(beam)
        tokenizer, ids, writer = self._running
        encoded = tokenizer.encode(checked, spans=True)
        ends = encoded.lengths.cumsum().tolist()
        summaries = [Summary("", 0.0)] * len(checked)
        rows = [row for row, text in enumerate(checked) if not is_blank(text)]
        search = ids.search(self._model.config.model.target_tokens, beam)
        for written in writer.write(search, encoded.token_ids, rows):
            source = encoded.token_ids[written.row][1:-1].tolist()
            end = ends[written.row] - 1
            spans = encoded.spans[end - len(source) : end].tolist()
            text = spelled(
                ids.written(written), source, spans, checked[written.row], tokenizer.vocabulary
            )
            summaries[written.row] = Summary(text, float(written.scores[0]))
        return summaries

    def evaluate(
        self, texts: Sequence[str], summaries: Sequence[str], *, beam: int = 4
    ) -> SummaryFigures:
        """Summarise texts and compare with given summaries, beside each text's first sentence.

        Raises:
            TableError: the lists have different lengths, or a text is blank.
        """
        pairs = Pairs.of(texts, summaries, target="summary")
        written = [one.text for one in self.summarise(pairs.sources, beam=beam)]
        return SummaryFigures.of(pairs.sources, written, pairs.targets)

    def _start(self, saved: SavedSummariser) -> _Running:
        config, ids = saved.config, SpecialIds.of(saved.vocabulary)
        most = config.model.source_tokens
        settings = TokenizerSettings(
            lowercase=config.lowercase, max_tokens=most, head_tokens=(most - 2) // 4 + 1
        )
        model = BertSummariser(Bert(config.encoder), config.model, pad_id=ids.pad, seed=config.seed)
        assign(model.weights, saved.tensors, error=TrainingError)
        tokenizer = WordPieceTokenizer(saved.vocabulary, settings)
        return _Running(tokenizer, ids, TextWriter(model, ids.pad))


def summarise_csv(
    model: str | Path | Summariser,
    source: str | Path,
    target: str | Path,
    *,
    beam: int = 4,
    options: FileOptions | None = None,
    **changes: Unpack[FileKeywords],
) -> ExtractionReport:
    """Summarise every row of a file, in constant memory; resumes an interrupted run.

    The output has the input's columns and rows, then `summary`, or `bertcnn_summary` if that name
    is taken. Several text columns are joined. Rows that cannot be read go to
    `<target>.rejects.csv`.

    Args:
        model: a saved summariser's folder or URL, or a loaded model.
        source: .csv, .tsv, .jsonl, .json (each also .gz), .parquet or .xlsx.
        target: the file to write; its extension sets the format.
        beam: beam width; 1 for greedy search.
        options: all options; by default `FileOptions()`.
        changes: single options by name, such as `text="body"`: see `FileOptions`.

    Raises:
        SettingsError: `beam` is below 1.
        BundleError: the model folder is not a summariser. Other errors are those of `score_csv`.

    Example:
        summarise_csv("models/summaries", "inbox.csv", "out.csv", text="body")
    """
    return add_columns(source, target, options, changes, partial(_columns, model, beam))


def _columns(model: str | Path | Summariser, beam: int) -> TextColumns:
    own = model if isinstance(model, Summariser) else Summariser.load(model)
    return written_column(
        "summary",
        own.identity,
        beam,
        lambda texts: [one.text for one in own.summarise(texts, beam=beam)],
    )
