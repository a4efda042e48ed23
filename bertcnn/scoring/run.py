"""A run from a file of texts to the same file with answers; it goes on after an interruption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bertcnn.errors import TableError
from bertcnn.progress import Progress
from bertcnn.scoring.journal import InputState, Journal, OtherTextsError, RunHeader
from bertcnn.tables.columns import ColumnChoice, guess_text_columns
from bertcnn.tables.formats import check_input, kind_of
from bertcnn.tables.sinks import FormatLimitError, check_fits_excel
from bertcnn.tables.tables import TableReader, check_outcome, open_table, rejects_of
from bertcnn.tables.writing import TableWriter, explained
from bertcnn.wording import count

Result = TypeVar("Result")


class ScoringInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of scoring.

    The answers so far are kept, and the same call goes on from there.

    Attributes:
        rows: rows answered.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows:,} rows are answered")
        self.rows = rows

    def __reduce__(self) -> tuple[type[ScoringInterrupted], tuple[int]]:
        """For pickle, by which it comes out of another process."""
        return type(self), (self.rows,)


def resumed(
    journal: Journal, run: Callable[[], Result], progress: Progress, what: str = "the input has"
) -> Result:
    """What `run` gives; it runs again from the start if the answers on record are to other texts.

    Args:
        journal: of the run.
        run: answers the texts.
        progress: progress callback.
        what: has changed then, in words.

    Raises:
        ScoringInterrupted: Ctrl-C, once there are answers to keep.
    """
    try:
        try:
            return run()
        except OtherTextsError:
            progress.note(f"{what} changed since the interrupted run: starting over")
            return run()
    except FormatLimitError:  # which the same call would meet again
        journal.remove()
        raise
    except KeyboardInterrupt:
        if journal.rows:
            raise ScoringInterrupted(journal.rows) from None
        raise


def begin_journal(journal: Journal, header: RunHeader, progress: Progress) -> None:
    """Say what the answers depend on, and tell which of those on record are taken or dropped."""
    if dropped := journal.begin(header):
        progress.note(dropped)
    if journal.rows:
        progress.note(
            f"{journal.rows:,} rows were already answered by an interrupted run: continuing"
            " from there"
        )


@dataclass(frozen=True)
class FileRun:
    """A file of texts, and the file to write.

    Attributes:
        source: the input.
        target: the output.
        text: the text column or columns; None to guess.
        raw: whether cells stay as they are that a spreadsheet would run as a formula.
        overwrite: whether an existing `target` is replaced.
        allow_rejects: whether the output is written even if most rows could not be read.
        progress: progress callback.
    """

    source: Path
    target: Path
    text: str | Sequence[str] | None
    raw: bool
    overwrite: bool
    allow_rejects: bool
    progress: Progress

    @property
    def rejects(self) -> Path:
        """Where rows go that cannot be read."""
        return rejects_of(self.target)

    def check(self) -> None:
        """Refuse places that will not do.

        Raises:
            TableError: the input cannot be read.
            OutputError: the output exists or cannot be written, or cannot hold the rows.
        """
        with explained(self.target):
            check_outcome(self.source, self.target, overwrite=self.overwrite)
            kind = check_input(self.source)
        target = kind_of(self.target.resolve())
        if target is not None and target.format == "xlsx" and kind.format != "xlsx":
            with open_table(self.source, known=()) as reader:
                check_fits_excel((chunk.line_numbers, chunk.rows) for chunk in reader.chunks())

    @contextmanager
    def opened(
        self, journal: Journal, trained_on: Sequence[str] = ()
    ) -> Iterator[tuple[TableReader, ColumnChoice]]:
        """A block in which the input is open, with the choice of its text columns.

        Args:
            journal: of the run.
            trained_on: the text columns that the model was trained on.

        Raises:
            TableError: the input cannot be read, or none of its rows.
            ColumnError: it lacks the columns.
        """
        text = self.text.split(",") if isinstance(self.text, str) else self.text
        known = tuple(trained_on if text is None else (name.strip() for name in text))
        with open_table(self.source, rejects=self.rejects, known=known) as reader:
            first = reader.peek()
            if not first.rows:
                self._check_rejects(reader, journal)
            choice = guess_text_columns(first, text=self.text, trained_on=trained_on)
            reader.require(choice.text)
            if reader.remark:
                self.progress.note(reader.remark)
            self.progress.note(f"text: {choice.reasons['text']}")
            yield reader, choice

    def write(
        self,
        reader: TableReader,
        columns: Sequence[str],
        rows: Iterable[Sequence[tuple[str, ...]]],
        journal: Journal,
        state: InputState,
    ) -> None:
        """Write the output, all of it or nothing, and remove the journal.

        Args:
            reader: of the input; it is closed.
            columns: the output's.
            rows: the output's, some at a time.
            journal: of the run.
            state: of the input when the run began.

        Raises:
            TableError: most rows could not be read, or the input has changed.
            OutputError: the output cannot be written.
        """
        remark = reader.remark
        with TableWriter(self.target, columns, raw=self.raw, overwrite=self.overwrite) as writer:
            for part in rows:
                writer.write(part)
            self._check_rejects(reader, journal)
            if reader.remark != remark:  # what the rows have shown
                self.progress.note(reader.remark)
            writer.finish()
            if not state.is_that_of(self.source):
                journal.remove()  # no file will ever have had this input
                raise TableError(
                    f"{str(self.source)!r} was changed while it was being read; nothing was put in"
                    " place",
                    expected="a file that stays as it is until the end",
                    fix="run it again when nobody writes to the file",
                )
            # rows that could not be read are in place before the output, and so never missing
            # beside it
            reader.close()
        journal.remove()

    def counts(self, reader: TableReader) -> dict[str, Any]:
        """What a report says of the rows."""
        return {
            "rows": reader.accepted,
            "rejected": reader.rejected,
            "rejects": self.rejects if reader.rejected else None,
            "repeated_headers": reader.repeated_headers,
            "padded": reader.padded,
        }

    def _check_rejects(self, reader: TableReader, journal: Journal) -> None:
        """Refuse to write an output without most rows; the list of them stays."""
        if self.allow_rejects or not reader.is_mostly_rejected:
            return
        reader.close()
        # the answers to the few other rows should not stand in the way of a better file under
        # this name
        journal.remove()
        rows = reader.accepted + reader.rejected
        raise TableError(
            f"{reader.rejected:,} of {count(rows, 'row')} of {str(self.source)!r} could not be read"
            f" ({reader.first_reason}); they and the reasons are in {self.rejects}",
            expected="a file of which most rows can be read",
            fix="correct the file or export it again, or add --allow-rejects to use the other rows",
        )
