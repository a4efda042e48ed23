"""Writes the file for `--fix`: the input and two more columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Finding
from bertcnn.tables import (
    DELIMITED,
    Chunk,
    TableWriter,
    free_names,
    kind_of,
    open_table,
    unescape_formula,
)

SUGGESTED, FINDING = "suggested_label", "finding"
_BETWEEN = "; "
_LEFT_OUT = ("not examined",)


def write_fixed(
    dataset: LabelledDataset,
    findings: Iterable[Finding],
    suggestions: Mapping[int, str],
    target: Path,
    overwrite: bool,
) -> None:
    """Write all rows unchanged and in order, with suggested labels and findings.

    Rows outside the examined sample are marked in `finding`.

    Unlike in a scored file, cells are not quoted for spreadsheets from CSV to CSV or TSV: the input
    must not change, and our cells begin with our words or are labels of the input. Other formats
    are quoted as usual.

    Raises:
        OutputError: the disk is full, or the format cannot hold the table.
    """
    said: dict[int, list[str]] = {line: [] for line in dataset.lines}
    for finding in findings:
        for row, words in finding.rows.items():
            said[dataset.lines[row]].append(words)
    better = {dataset.lines[row]: label for row, label in suggestions.items()}
    table, kind = dataset.table, kind_of(target)
    raw = {dataset.facts["format"], kind and kind.format} <= DELIMITED
    plain = unescape_formula if dataset.facts["format"] in DELIMITED and not raw else str
    columns = (
        *map(plain, table.header),
        *free_names((SUGGESTED, FINDING), (*table.columns, *table.header)),
    )
    with TableWriter(target, columns, raw=raw, overwrite=overwrite) as writer:
        for chunk in _chunks(dataset):
            writer.write(
                (*map(plain, cells), better.get(line, ""), _BETWEEN.join(said.get(line, _LEFT_OUT)))
                for line, cells in zip(chunk.line_numbers, chunk.rows, strict=True)
            )


def _chunks(dataset: LabelledDataset) -> Iterator[Chunk]:
    """All rows of the file; reads it again if they are not in memory."""
    if not dataset.table.left_out:
        yield dataset.table
        return
    with open_table(dataset.table.path, as_written=True) as reader:
        reader.require(dataset.choice.text)
        yield from reader.chunks()
