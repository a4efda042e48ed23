"""`extract_spans`: adds a column of spans to a file of texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from bertcnn.scoring import FileKeywords, FileOptions
from bertcnn.tasks.text_columns import ExtractionReport, TextColumns, add_columns
from bertcnn.tasks.token_labels.labeller import TokenLabeller

COLUMN = "spans"
_SPAN = np.dtype([("start", "<i4"), ("end", "<i4"), ("label", "<u2"), ("probability", "<f4")])


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
        names=[COLUMN],
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
