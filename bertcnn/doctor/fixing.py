"""The file that `--fix` writes: the input as it is, and two columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bertcnn.data.columns import free_names
from bertcnn.data.writing import TableWriter
from bertcnn.doctor.patient import Patient
from bertcnn.doctor.report import Finding

SUGGESTED, FINDING = "suggested_label", "finding"
_BETWEEN = "; "


def write_fixed(patient: Patient, findings: Iterable[Finding], suggestions: Mapping[int, str], target: Path, overwrite: bool) -> None:
    """Write every row, cell for cell and in its order, with the suggested label and what was found.

    No cell is quoted for spreadsheets, unlike in a scored file: the input's cells are to stay what they are, and ours begin with words of
    ours or are labels of the input.

    Raises:
        OutputError: the disk is full, or the format cannot hold the table.
    """
    said: list[list[str]] = [[] for _ in patient.table.rows]
    for finding in findings:
        for row, words in finding.rows.items():
            said[row].append(words)
    given = patient.table.columns
    with TableWriter(target, (*given, *free_names((SUGGESTED, FINDING), given)), raw=True, overwrite=overwrite) as writer:
        writer.write((*cells, suggestions.get(row, ""), _BETWEEN.join(said[row])) for row, cells in enumerate(patient.table.rows))
