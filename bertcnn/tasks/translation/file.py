"""`translate_csv`: adds a translation to every row of a file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

from bertcnn.scoring import FileKeywords, FileOptions, FileRun
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.tasks.translation.translator import Translator
from bertcnn.tasks.writing import written_column

COLUMN = "translation"


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
        ColumnError: the text column is missing.
        TableError: the input or most of its rows cannot be read.
        OutputError: the output exists or cannot be written, or another run is writing it.
        BundleError: the model folder is not a translator.
        ScoringInterrupted: Ctrl-C, after the first translations.

    Example:
        translate_csv("models/italian", "inbox.csv", "out.csv", text="body")
    """
    run = FileRun(Path(source), Path(target), replace(options or FileOptions(), **changes))
    return add_columns(run, partial(_columns, model, beam))


def _columns(model: str | Path | Translator, beam: int) -> TextColumns:
    own = model if isinstance(model, Translator) else Translator.load(model)
    return written_column(
        COLUMN,
        own.identity,
        beam,
        lambda texts: [one.text for one in own.translate(texts, beam=beam)],
    )
