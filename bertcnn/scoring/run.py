"""Scores a file of texts into a copy with answers; resumes after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bertcnn.errors import TableError
from bertcnn.progress import Progress
from bertcnn.scoring.journal import InputState, Journal, OtherTextsError, RunHeader
from bertcnn.scoring.options import FileOptions
from bertcnn.tables import (
    ColumnChoice,
    FormatLimitError,
    TableReader,
    TableWriter,
    check_fits_excel,
    check_input,
    check_outcome,
    explained,
    guess_text_columns,
    kind_of,
    open_table,
    rejects_of,
)
from bertcnn.wording import count

Result = TypeVar("Result")


class ScoringInterrupted(KeyboardInterrupt):
    """Ctrl-C during scoring; the same call resumes with the saved answers.

    Attributes:
        rows: rows answered.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows:,} rows are answered")
        self.rows = rows

    def __reduce__(self) -> tuple[type[ScoringInterrupted], tuple[int]]:
        """Support pickling across processes."""
        return type(self), (self.rows,)


def resumed(
    journal: Journal, run: Callable[[], Result], progress: Progress, what: str = "the input has"
) -> Result:
    """Call `run`, and once more from the start if the stored answers are for other texts.

    `what` names the change, for a message.

    Raises:
        ScoringInterrupted: Ctrl-C, after some answers were saved.
    """
    try:
        try:
            return run()
        except OtherTextsError:
            progress.note(f"{what} changed since the interrupted run: starting over")
            return run()
    except FormatLimitError:  # the same call would fail again
        journal.remove()
        raise
    except KeyboardInterrupt:
        if journal.rows:
            raise ScoringInterrupted(journal.rows) from None
        raise


def begin_journal(journal: Journal, header: RunHeader, progress: Progress) -> None:
    """Begin the journal, and report whether stored answers are used or dropped."""
    if dropped := journal.begin(header):
        progress.note(dropped)
    if journal.rows:
        progress.note(
            f"{journal.rows:,} rows were already answered by an interrupted run: continuing"
            " from there"
        )


@dataclass(frozen=True)
class FileRun:
    """A file of texts, and its output file."""

    source: Path
    target: Path
    options: FileOptions

    @property
    def rejects(self) -> Path:
        """The file for unreadable rows."""
        return rejects_of(self.target)

    def check(self) -> None:
        """Check input and output paths.

        Raises:
            TableError: the input is unreadable.
            OutputError: the output exists, is not writable, or cannot hold the rows.
        """
        with explained(self.target):
            check_outcome(self.source, self.target, overwrite=self.options.overwrite)
            kind = check_input(self.source)
        target = kind_of(self.target.resolve())
        if target is not None and target.format == "xlsx" and kind.format != "xlsx":
            with open_table(self.source, expected_columns=()) as reader:
                check_fits_excel((chunk.line_numbers, chunk.rows) for chunk in reader.chunks())

    @contextmanager
    def opened(
        self, journal: Journal, trained_on: Sequence[str] = ()
    ) -> Iterator[tuple[TableReader, ColumnChoice]]:
        """Open the input within a block, and choose its text columns.

        `trained_on` are the model's text columns.

        Raises:
            TableError: the input or all of its rows are unreadable.
            ColumnError: the text columns are missing.
        """
        text, note = self.options.text, self.options.progress.note
        named = text.split(",") if isinstance(text, str) else text
        text_columns = tuple(trained_on if named is None else (name.strip() for name in named))
        with open_table(self.source, rejects=self.rejects, expected_columns=text_columns) as reader:
            first = reader.peek()
            if not first.rows:
                self._check_rejects(reader, journal)
            choice = guess_text_columns(first, text=text, trained_on=trained_on)
            reader.require(choice.text)
            if reader.remark:
                note(reader.remark)
            note(f"text: {choice.reasons['text']}")
            yield reader, choice

    def write(
        self,
        reader: TableReader,
        columns: Sequence[str],
        rows: Iterable[Sequence[tuple[str, ...]]],
        journal: Journal,
        state: InputState,
    ) -> None:
        """Write the output atomically, and delete the journal.

        `reader` will be closed; `state` is the input's at the start of the run.

        Raises:
            TableError: most rows were unreadable, or the input has changed.
            OutputError: the output is not writable.
        """
        remark, raw, overwrite = reader.remark, self.options.raw, self.options.overwrite
        with TableWriter(self.target, columns, raw=raw, overwrite=overwrite) as writer:
            for part in rows:
                writer.write(part)
            self._check_rejects(reader, journal)
            if reader.remark != remark:  # updated while reading the rows
                self.options.progress.note(reader.remark)
            writer.finish()
            if not state.is_that_of(self.source):
                journal.remove()  # this input no longer exists
                raise TableError(
                    f"{str(self.source)!r} was changed while it was being read; nothing was put in"
                    " place",
                    expected="a file that stays as it is until the end",
                    fix="run it again when nobody writes to the file",
                )
            # write the unreadable rows before the output, so that they are never missing next to it
            reader.close()
        journal.remove()

    def counts(self, reader: TableReader) -> dict[str, Any]:
        """The row counts for a report."""
        return {
            "rows": reader.accepted,
            "rejected": reader.rejected,
            "rejects": self.rejects if reader.rejected else None,
            "repeated_headers": reader.repeated_headers,
            "padded": reader.padded,
        }

    def _check_rejects(self, reader: TableReader, journal: Journal) -> None:
        if self.options.allow_rejects or not reader.is_mostly_rejected:
            return
        reader.close()
        # the answers to the few readable rows should not block a better file of this name
        journal.remove()
        rows = reader.accepted + reader.rejected
        raise TableError(
            f"{reader.rejected:,} of {count(rows, 'row')} of {str(self.source)!r} could not be read"
            f" ({reader.first_reason}); they and the reasons are in {self.rejects}",
            expected="a file of which most rows can be read",
            fix="correct the file or export it again, or add --allow-rejects to use the other rows",
        )
