"""Rows of a file of examples that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bertcnn.errors import TableError
from bertcnn.progress import Progress
from bertcnn.tables import TableReader, TableWriter
from bertcnn.wording import count

_COLUMNS = ("line", "reason", "content_start")


class RejectedRows(NamedTuple):
    """The number of rejected rows, and the place and reason of the first one."""

    number: int = 0
    first: str = ""

    @classmethod
    def of_table(cls, table: TableReader) -> RejectedRows:
        """The rejected rows of a table that was read; a repeated header is none."""
        number = table.rejected - table.repeated_headers
        return cls(number, table.first_reason if number else "")


def write_rejects(
    path: Path | None, rows: Sequence[tuple[int, str, str]], *, unit: str = "line"
) -> RejectedRows:
    """Write the number, the reason and the content of rejected rows, as `open_table` does.

    Args:
        path: a .csv file; None to write nothing.
        rows: the rejected rows.
        unit: what the number counts.

    Raises:
        OutputError: the file cannot be written.
    """
    if path is not None and rows:
        with TableWriter(path, _COLUMNS, overwrite=True) as writer:
            writer.write([(str(number), reason, content) for number, reason, content in rows])
            writer.finish()
    elif path is not None:
        path.unlink(missing_ok=True)  # of an earlier run
    return RejectedRows(len(rows), f"{unit} {rows[0][0]}: {rows[0][1]}" if rows else "")


def check_rejected(
    path: Path,
    usable: int,
    noun: str,
    rejected: RejectedRows,
    rejects: Path | None,
    progress: Progress | None,
) -> None:
    """Report rejected rows.

    Raises:
        TableError: there is nothing usable, most rows are rejected, or rows are rejected and there
            is neither a file nor a progress callback to report them to.
    """
    where = f"; they and the reasons are in {rejects}" if rejects and rejected.number else ""
    first = f", the first at {rejected.first}" if rejected.number else ""
    if not usable and not rejected.number:
        raise TableError(
            f"{path} has no {noun}s", expected=f"at least 1 {noun}", fix="check the file"
        )
    if rejected.number > usable:
        raise TableError(
            f"{path} with {count(usable, noun)} that can be used and {rejected.number:,}"
            f" rejected{first}{where}",
            expected=f"{noun}s, most of them valid",
            fix="correct the file",
        )
    if rejected.number and rejects is None and progress is None:
        raise TableError(
            f"{path} with {count(rejected.number, noun)} that cannot be used{first}",
            expected="only valid rows, or a place to report the others to",
            fix="correct them, or give `rejects`, a .csv file for such rows",
        )
    if rejected.number and progress is not None:
        progress.note(f"{count(rejected.number, noun)} rejected{first}{where}")
