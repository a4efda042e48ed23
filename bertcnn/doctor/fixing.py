"""The file that `--fix` writes: the input as it is, and two columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bertcnn.data.writing import TableWriter, check_output
from bertcnn.doctor.patient import Patient
from bertcnn.doctor.report import Finding
from bertcnn.errors import OutputError

SUGGESTED, FINDING = "suggested_label", "finding"
_BETWEEN = "; "


def rejects_of(target: Path) -> Path:
    """Where the rows go that could not be read."""
    return target.with_name(target.name + ".rejects.csv")


def check_fix(source: Path, target: Path, overwrite: bool) -> None:
    """Find out, before any work is done, whether `target` can be written.

    Raises:
        OutputError: it is the input, exists, or cannot be written.
    """
    if target.exists() and source.exists() and target.samefile(source):
        raise OutputError(f"{target} as input and output", expected="two different files", fix="choose another name for --fix")
    if source.exists() and rejects_of(target).exists() and rejects_of(target).samefile(source):
        raise OutputError(
            f"{source} as input, where rows that cannot be read would go", expected="another output", fix="choose another name for --fix"
        )
    check_output(target, overwrite)


def our_columns(given: Iterable[str]) -> tuple[str, ...]:
    """The names of our columns; one that the input uses gets `bertcnn_` in front, as often as it takes."""
    taken, names = set(given), []
    for name in (SUGGESTED, FINDING):
        while name in taken:
            name = f"bertcnn_{name}"
        taken.add(name)
        names.append(name)
    return tuple(names)


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
    with TableWriter(target, (*patient.table.columns, *our_columns(patient.table.columns)), raw=True, overwrite=overwrite) as writer:
        writer.write((*cells, suggestions.get(row, ""), _BETWEEN.join(said[row])) for row, cells in enumerate(patient.table.rows))
