"""A file of tickets: the first pass finds the id column, the second reads the tickets."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from bertcnn.progress import Progress
from bertcnn.review.store import ReviewStore
from bertcnn.review.ticket_times import TicketTimes
from bertcnn.review.tickets import NewTicket, own_id, same_words
from bertcnn.tables import (
    Chunk,
    DateOrder,
    TableReader,
    column_position,
    guess_text_columns,
    id_columns,
    join_texts,
    open_table,
    rejects_of,
)
from bertcnn.text import clean_text
from bertcnn.wording import count

_AT_ONCE = 512  # rows
_MOST_BLANK = 0.1  # share of blank cells in a guessed id column


class TicketFile:
    """A file of tickets, read with a few bytes of memory per row.

    A ticket is identified by its id and its text. The id column is `identity`, or one with a
    typical name whose values each have one text throughout the file. Without such a column, the id
    is a keyed hash of the text and the time. Times without a zone are in the store's `time_zone`.

    Args:
        text: the text column or columns; guessed by default.
        identity: the column of the tickets' ids; guessed by default.
        dates: order of day and month in times such as 01/02/2025; by default from the column.
        trained_on: the text columns of the model's training file.

    Attributes:
        repeated: rows skipped so far because an earlier row has the same id and text.
        without_id: rows skipped so far because of a blank id; see `rejects`.
        unreadable: rows that could not be read.
        rejects: the file that lists the last two.

    Raises:
        TableError: the file cannot be read.
        ColumnError: it has no such columns.
    """

    def __init__(
        self,
        store: ReviewStore,
        path: Path,
        *,
        text: str | Sequence[str] | None = None,
        identity: str | None = None,
        dates: DateOrder | None = None,
        trained_on: tuple[str, ...] = (),
        progress: Progress,
    ) -> None:
        self._store, self._path, self.rejects = store, path, rejects_of(path)
        self.repeated = self.without_id = self.unreadable = 0
        zone = ZoneInfo(str(store.setting("time_zone")))
        self.times, self._progress = TicketTimes(dates, zone), progress
        with open_table(path, expected_columns=()) as reader:
            first = reader.peek()
            self._columns = tuple(first.columns)
            self._choice = guess_text_columns(first, text=text, trained_on=trained_on)
            progress.note(f"text: {self._choice.reasons['text']}")
            reader.require(self._choice.text)
            candidates: tuple[str, ...]
            if identity is not None:
                candidates = (first.columns[column_position(identity, first.columns)],)
            else:
                candidates = id_columns(first, self._choice)
            self._survey(reader, candidates, progress, named=identity is not None)
        progress.note(self.times.settle(self._choice.time))

    def _survey(
        self, reader: TableReader, candidates: Sequence[str], progress: Progress, *, named: bool
    ) -> None:
        """The first pass: choose the id column, and find repeated tickets."""
        by_column = {name: _Identities() for name in candidates}
        by_text, done = _Identities(), 0
        progress.stage("looking for ids", reader.total_bytes, "bytes")
        for chunk in reader.chunks():
            texts = [same_words(text) for text in self._texts(chunk)]
            for name, identities in by_column.items():
                ids = (own_id(self._store, cell) or None for cell in chunk.column(name))
                identities.update(zip(ids, texts, strict=True))
            if not named:
                by_text.update(zip(self._times(chunk), texts, strict=True))
            if self._choice.time is not None:
                self.times.update(chunk.column(self._choice.time))
            progress.advance(reader.position - done)
            done = reader.position
        sound = [name for name, identities in by_column.items() if named or identities.are_sound()]
        self._id = min(sound, key=lambda name: by_column[name].blank, default=None)
        chosen = by_text if self._id is None else by_column[self._id]
        self._repeated = chosen.repeated()
        if self._id is not None:
            why = "as named" if named else "by its name; each value has one text"
            progress.note(f"ids: {self._id!r} ({why})")
            return
        made = "the text" if self._choice.time is None else f"the text and {self._choice.time!r}"
        reasons = [f"{name!r} ({identities.fault()})" for name, identities in by_column.items()]
        progress.note(
            f"ids: by {made}, since no column seems to hold an id"
            + (f": not {', '.join(reasons)}; to use it anyway, add --id" if reasons else "")
        )

    def chunks(self) -> Iterator[list[NewTicket]]:
        """The second pass: the distinct tickets, some hundreds at a time."""
        seen: set[str] = set()
        with open_table(self._path, rejects=self.rejects, expected_columns=()) as reader:
            reader.require(self._choice.text)
            for chunk in reader.chunks(_AT_ONCE):
                yield list(self._tickets(reader, chunk, seen))
            self.unreadable = reader.rejected - self.without_id
        if self.times.unread:
            self._progress.note(self.times.remark())

    def columns(self) -> Mapping[str, Any]:
        """All columns, and those of the text, the id and the time (None for none)."""
        return {
            "columns": self._columns,
            "text_columns": self._choice.text,
            "id_column": self._id,
            "time_column": self._choice.time,
        }

    def remarks(self) -> list[str]:
        """Notes on skipped rows."""
        parts = {
            "repeated in the file": self.repeated,
            f"without an id, listed in {self.rejects}": self.without_id,
            f"unreadable, listed in {self.rejects}": self.unreadable,
        }
        return [f"{count(rows, 'row')} {what}" for what, rows in parts.items() if rows]

    def _tickets(self, reader: TableReader, chunk: Chunk, seen: set[str]) -> Iterator[NewTicket]:
        columns = {name: chunk.column(name) for name in chunk.columns}
        # a text of several columns cannot be split again, so these are kept, too
        left = {self._id, *(self._choice.text if len(self._choice.text) == 1 else ())}
        extra = [name for name in columns if name not in left]
        times, texts = self._times(chunk), self._texts(chunk)
        for row, text in enumerate(texts):
            ticket_id = (
                times[row] if self._id is None else own_id(self._store, columns[self._id][row])
            )
            if self._id is not None and not ticket_id:
                self.without_id += 1
                reader.reject(chunk, row, f"no id in the column {self._id!r}")
                continue
            identity = (ticket_id, same_words(text))
            repeated = hash(identity) in self._repeated
            if repeated or self._id is None:
                hashed = self._store.hashed("\n".join(identity))
            if repeated:
                if hashed in seen:
                    self.repeated += 1
                    continue
                seen.add(hashed)
            yield NewTicket(
                hashed if self._id is None else ticket_id,
                text,
                {name: columns[name][row] for name in extra},
                None
                if self._choice.time is None
                else self.times.seconds(columns[self._choice.time][row]),
            )

    def _texts(self, chunk: Chunk) -> list[str]:
        cells = zip(*map(chunk.column, self._choice.text), strict=True)
        return [clean_text(join_texts(row)) for row in cells]

    def _times(self, chunk: Chunk) -> list[str]:
        if self._choice.time is None:
            return [""] * len(chunk)
        return [cell.strip() for cell in chunk.column(self._choice.time)]


class _Identities:
    """Hashes of the ids and texts of all rows, eight bytes each."""

    def __init__(self) -> None:
        self._ids, self._pairs = array("q"), array("q")
        self.blank = 0

    def update(self, rows: Iterator[tuple[str | None, str]]) -> None:
        """Add the ids (None for a blank one) and texts of further rows."""
        for row in rows:
            if row[0] is not None:
                self._ids.append(hash(row[0]))
                self._pairs.append(hash(row))
            else:
                self.blank += 1

    def are_sound(self) -> bool:
        """Whether there are ids, and each has one text."""
        return not self.fault()

    def fault(self) -> str:
        """Why they are not ids; empty if they may be."""
        if self.blank > _MOST_BLANK * (self.blank + len(self._ids)):
            return f"{count(self.blank, 'cell')} blank"
        several = np.unique(self._pairs).size - np.unique(self._ids).size
        return f"{count(int(several), 'value')} with several texts" if several else ""

    def repeated(self) -> frozenset[int]:
        """Hashes of the pairs that more than one row has."""
        pairs, often = np.unique(self._pairs, return_counts=True)
        return frozenset(pairs[often > 1].tolist())
