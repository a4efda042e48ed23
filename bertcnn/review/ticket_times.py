"""When the tickets of a file came, and which of its times are not understood."""

from __future__ import annotations

from collections.abc import Iterable

from bertcnn.errors import one_line
from bertcnn.tables.times import DateOrder, TimeForm, TimeSurvey
from bertcnn.wording import count


class TicketTimes:
    """Reads the time column of a file: all cells pass `update`, then each is read by `seconds`.

    Args:
        dates: order of day and month in times such as 01/02/2025; by default that of the column.

    Attributes:
        unread: number of cells that hold no plausible time, or none in the form of the column.
        example: the first of them; "" for none.
    """

    def __init__(self, dates: DateOrder | None = None) -> None:
        self.unread, self.example = 0, ""
        self._dates, self._survey = dates, TimeSurvey(dates)
        self._form: TimeForm | None = None

    def update(self, cells: Iterable[str]) -> None:
        """Take more cells of the column into account."""
        self._survey.update(cells)

    def settle(self, column: str | None) -> str:
        """Choose the form of the times; returns a note about it.

        Args:
            column: name of the column; None if the file has none.
        """
        if column is None:
            return "times: unknown, since no column seems to hold them"
        self._form = self._survey.form()
        if self._form.name is not None:
            return f"times: {column!r} ({self._form.described})"
        settle = "" if self._dates else "; if these are dates, --dates day-first or month-first"
        return f"times: not read; {column!r} is {self._form.described}{settle}"

    def seconds(self, cell: str) -> float | None:
        """Seconds since 1970, UTC; None if the time is unknown."""
        found = None if self._form is None else self._form.seconds(cell)
        if found is None and cell.strip():
            self.unread += 1
            self.example = self.example or one_line(cell, 40)
        return found

    def remark(self) -> str:
        """Says how many times were not read; "" if all were."""
        if not self.unread:
            return ""
        return (
            f"{count(self.unread, 'time')} not understood, such as {self.example}: these tickets"
            " are ordered by the time at which they are added"
        )
