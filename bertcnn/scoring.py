"""A file of texts in, the same file with predictions out: streamed, in order, complete or not there at all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertcnn.data.columns import ColumnChoice, guess_text_columns, join_texts
from bertcnn.data.tables import Chunk, TableReader, column_position, open_table
from bertcnn.data.writing import TableWriter, check_output
from bertcnn.errors import OutputError
from bertcnn.predictor import Prediction, Predictor, load
from bertcnn.progress import Progress, Silent

_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class ScoringReport:
    """What `score_csv` did.

    Attributes:
        rows: rows written, one for each row read.
        blank: of these, rows without a visible text; they get no label.
        rejected: rows that could not be read.
        rejects: the file they are in, if there are any.
        labels: how many rows each label was given to.
        renamed: our columns that had to be renamed because the input uses the name: contract name -> name written.
        text_columns: where the texts came from, and why.
        seconds: from opening the input to the finished output, without loading the model.
    """

    rows: int
    blank: int
    rejected: int
    rejects: Path | None
    labels: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    text_columns: ColumnChoice = field(default_factory=lambda: ColumnChoice(()))
    seconds: float = 0.0


def score_csv(
    model: str | Path | Predictor,
    source: str | Path,
    target: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    probabilities: bool = False,
    raw: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ScoringReport:
    """Classify every row of a file, in constant memory.

    The output has the input's columns and rows in their order, then `predicted_label` and `confidence`, and a `p_<label>` for each label on
    request. A name that the input uses already gets the prefix `bertcnn_`. Rows that cannot be read go to `<target>.rejects.csv`.

    Args:
        model: a saved model's folder, or a loaded one.
        source: .csv, .tsv, .jsonl (each also .gz), .parquet or .xlsx.
        target: the file to write, its format by its extension.
        text: the text column or columns; by default those of the training file, else a guess.
        probabilities: also write the probability of every label.
        raw: do not quote cells that a spreadsheet would run as a formula.
        overwrite: replace an existing `target`.
        progress: told how far it is.

    Raises:
        TableError: the input cannot be read, or no column looks like text.
        OutputError: the output exists or cannot be written.
        BundleError: the model folder is not a model.

    Example:
        score_csv("models/triage", "inbox.csv", "scored.csv", probabilities=True)
    """
    source, target, progress = Path(source), Path(target), progress or Silent()
    check_output(target, overwrite)
    if target.exists() and source.exists() and target.samefile(source):
        raise OutputError(f"{target} as input and output", expected="two different files", fix="choose another name for the output")
    rejects = target.with_name(target.name + ".rejects.csv")
    if rejects.exists() and source.exists() and rejects.samefile(source):
        raise OutputError(
            f"{rejects} as input, where rows that cannot be read would go",
            expected="another output",
            fix="choose another name for the output",
        )
    with open_table(source, rejects=rejects) as reader:
        choice = guess_text_columns(reader.peek(), text=text, trained_on=_trained_on(model))
        progress.note(f"text: {choice.reasons['text']}")
        predictor = model if isinstance(model, Predictor) else load(model)
        columns = _OutputColumns(reader.columns, predictor.labels if probabilities else ())
        for wanted, written in columns.renamed.items():
            progress.note(f"the input has a column {wanted!r} already: ours is called {written!r}")
        started = time.perf_counter()
        counts: Counter[str | None] = Counter()
        with TableWriter(target, columns.all, raw=raw, overwrite=overwrite) as writer:
            progress.stage("scoring", reader.total_bytes, "bytes")
            for chunk, predictions in _scored(reader, predictor, choice.text, progress):
                counts.update(prediction.label for prediction in predictions)
                writer.write(row + columns.cells(prediction) for row, prediction in zip(chunk.rows, predictions, strict=True))
    if not reader.rejected:
        rejects.unlink(missing_ok=True)  # of an earlier run
    blank = counts.pop(None, 0)
    return ScoringReport(
        rows=reader.accepted,
        blank=blank,
        rejected=reader.rejected,
        rejects=rejects if reader.rejected else None,
        labels={str(label): count for label, count in counts.most_common()},
        renamed=columns.renamed,
        text_columns=choice,
        seconds=time.perf_counter() - started,
    )


def _trained_on(model: str | Path | Predictor) -> tuple[str, ...]:
    """The text columns the model was trained on."""
    from bertcnn.bundle import read_config

    return (model.bundle.config if isinstance(model, Predictor) else read_config(Path(model))).text_columns


def _scored(
    reader: TableReader, predictor: Predictor, text_columns: tuple[str, ...], progress: Progress
) -> Iterable[tuple[Chunk, list[Prediction]]]:
    """Each chunk with its predictions; a text that occurs several times in a chunk is classified once."""
    places = [column_position(name, reader.columns) for name in text_columns]
    read, started = 0, time.perf_counter()
    for chunk in reader.chunks(_CHUNK_ROWS):
        texts = [join_texts(row[place] for place in places) for row in chunk.rows]
        distinct = list(dict.fromkeys(texts))
        answers = dict(zip(distinct, predictor.classify(distinct), strict=True))
        yield chunk, [answers[text] for text in texts]
        progress.advance(reader.position - read, rows_per_second=reader.accepted / (time.perf_counter() - started))
        read = reader.position


class _OutputColumns:
    """The columns of the scored file: the input's, then ours under names that are free."""

    def __init__(self, given: tuple[str, ...], labels: tuple[str, ...]) -> None:
        self._labels = labels
        names: list[str] = []
        self.renamed: dict[str, str] = {}
        for wanted in ("predicted_label", "confidence", *(f"p_{label}" for label in labels)):
            name = wanted
            while name in given or name in names:
                name = f"bertcnn_{name}"
            names.append(name)
            if name != wanted:
                self.renamed[wanted] = name
        self.all = (*given, *names)

    def cells(self, prediction: Prediction) -> tuple[str, ...]:
        """Our cells of one row."""
        if prediction.label is None or prediction.confidence is None:
            return ("", "", *("" for _ in self._labels))
        shares = (f"{prediction.probabilities[label]:.6f}" for label in self._labels)
        return (prediction.label, f"{prediction.confidence:.6f}", *shares)
