"""Parses the arrival times of a file's tickets, and reports failures."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo

from bertcnn.errors import one_line
from bertcnn.tables import DateOrder, TimeForm, TimeSurvey
from bertcnn.wording import count


class TicketTimes:
    """Parses the time column of a file: call `update` with all cells, then `seconds` for each.

    Args:
        dates: order of day and month in times such as 01/02/2025; by default from the column.
        zone: of times that name none.

    Attributes:
        unread: number of cells without a plausible time in the column's format.
        example: the first of them; "" for none.
    """

    def __init__(self, dates: DateOrder | None = None, zone: tzinfo = UTC) -> None:
        self.unread, self.example = 0, ""
        self._dates, self._survey = dates, TimeSurvey(dates, zone=zone)
        self._form: TimeForm | None = None

    def update(self, cells: Iterable[str]) -> None:
        """Add more cells of the column."""
        self._survey.update(cells)

    def settle(self, column: str | None) -> str:
        """Choose the format of the times in `column`, None for no column; returns a note."""
        if column is None:
            return "times: unknown, since no column seems to hold them"
        self._form = self._survey.form()
        if self._form.name is not None:
            return f"times: {column!r} ({self._form.described})"
        settle = "" if self._dates else "; if these are dates, --dates day-first or month-first"
        return f"times: not read; {column!r} is {self._form.described}{settle}"

    def seconds(self, cell: str) -> float | None:
        """Seconds since 1970, UTC; None if the time is unknown."""
        seconds = None if self._form is None else self._form.seconds(cell)
        if seconds is None and cell.strip():
            self.unread += 1
            self.example = self.example or one_line(cell, 40)
        return seconds

    def remark(self) -> str:
        """A message about unread times; "" if all were read."""
        if not self.unread:
            return ""
        return (
            f"{count(self.unread, 'time')} not understood, such as {self.example}: these tickets"
            " are ordered by the time at which they are added"
        )
