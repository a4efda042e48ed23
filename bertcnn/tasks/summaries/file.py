"""Files of texts: pairs to learn from, and `summarise_csv`, which adds a column of summaries."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from bertcnn.scoring import FileKeywords, FileOptions, FileRun
from bertcnn.tables import read_table
from bertcnn.tasks.pairs import FEWEST_PAIRS, Pairs
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns

if TYPE_CHECKING:
    from bertcnn.tasks.summaries.summariser import Summariser

COLUMN = "summary"


def read_summaries(
    path: str | PathLike[str],
    *,
    text: str = "ticket",
    summary: str = "summary",
    least: int = FEWEST_PAIRS,
) -> Pairs:
    """Read texts and their summaries from two columns of a table.

    Raises:
        TableError: the file cannot be read, a cell is blank, or there are too few pairs.
        ColumnError: a column is missing.
    """
    table = read_table(Path(path), required=(text, summary))
    return Pairs.of(table.column(text), table.column(summary), target="summary", least=least)


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
        ColumnError: the text column is missing.
        TableError: the input or most of its rows cannot be read.
        OutputError: the output exists or cannot be written, or another run is writing it.
        BundleError: the model folder is not a summariser.
        ScoringInterrupted: Ctrl-C, after the first summaries.

    Example:
        summarise_csv("models/summaries", "inbox.csv", "out.csv", text="body")
    """
    run = FileRun(Path(source), Path(target), replace(options or FileOptions(), **changes))
    return add_columns(run, partial(_columns, model, beam))


def _columns(model: str | Path | Summariser, beam: int) -> TextColumns:
    from bertcnn.tasks.summaries.summariser import Summariser
    from bertcnn.tasks.writing import written_column

    own = model if isinstance(model, Summariser) else Summariser.load(model)
    return written_column(
        COLUMN,
        own.identity,
        beam,
        lambda texts: [one.text for one in own.summarise(texts, beam=beam)],
    )
