"""Reads the times in a column by one form that is guessed from the whole column."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Literal, get_args

from bertcnn.errors import SettingsError, one_line

DateOrder = Literal["day-first", "month-first", "year-first"]

EARLIEST = 631_152_000.0  # 1990-01-01; the latest plausible time is a day after the import
_DAY = 86_400.0
_ORDINAL_1970 = date(1970, 1, 1).toordinal()
_MIDNIGHT_1970 = datetime(1970, 1, 1)  # on a clock, in no zone
_CONTRADICTING = 0.01  # share of cells that only another order of day and month explains
_LONGEST = 80  # characters of a time
_YEAR_FIRST, _NAMED = "year first", "month by name"
_ORDERS = {
    "day first": ("last", "middle", "first"),
    "month first": ("last", "first", "middle"),
    _YEAR_FIRST: ("first", "middle", "last"),
}  # positions of year, month and day in a date such as 31/12/25
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}

_MONTH_NAMES = """january januar jänner, february februar feber, march märz maerz mrz, april,
    may mai, june juni, july juli, august, september, october oktober, november,
    december dezember"""
_MONTHS = {
    name[:letters]: month
    for month, names in enumerate(_MONTH_NAMES.split(","), 1)
    for name in names.split()
    for letters in range(3, len(name) + 1)
}
_WEEKDAYS = ("mo", "tu", "we", "th", "fr", "sa", "su", "di", "mi", "do", "so")
_STARTS = {*_WEEKDAYS, *(name[:2] for name in _MONTHS)}
_ZONES = {"": 0, "z": 0, "ut": 0, "utc": 0, "gmt": 0}  # hours east of Greenwich
_ZONES |= {"cet": 1, "mez": 1, "cest": 2, "mesz": 2, "edt": -4, "est": -5, "cdt": -5, "cst": -6}
_ZONES |= {"mdt": -6, "mst": -7, "pdt": -7, "pst": -8}  # the zones of mail (RFC 2822)
_LARGEST_OFFSET = 14 * 60  # minutes

_WEEKDAY = rf"(?:(?:{'|'.join(_WEEKDAYS)})[^\W\d_]*\.?,?\s*)?"
_CLOCK = (
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s?(?P<half>[ap])\.?m\.?|\s?uhr)?"
)
_ZONE = (
    r"(?:\s*(?P<zone>[a-z]{1,4})?\s?(?P<offset>[+-]\d{1,2}(?::?\d\d)?)?"
    r"(?:\s*[(\[][^()\[\]]*[)\]]|\s*utc)?)"
)
_LATER = rf"(?:(?:t|:|,?\s+(?:um\s|at\s)?){_CLOCK}{_ZONE})?"
_DAY_NUMBER, _MONTH_NAME = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?", r"(?P<name>[^\W\d_]{3,9})\.?"
_YEAR = r"(?P<year>\d{4}|\d\d)"
_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_LATER}",
        rf"{_WEEKDAY}(?P<first>\d{{1,2}})(?P<mark>[-/.])\s?(?P<middle>\d{{1,2}})(?P=mark)\s?"
        rf"(?P<last>\d{{4}}|\d\d){_LATER}",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)"
        rf"(?:t?(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)?{_ZONE})?",
        rf"{_WEEKDAY}{_DAY_NUMBER}[\s/-]*{_MONTH_NAME},?[\s/-]*{_YEAR}{_LATER}",
        rf"{_WEEKDAY}{_MONTH_NAME}\s*{_DAY_NUMBER},?\s+{_YEAR}{_LATER}",
        rf"{_WEEKDAY}{_MONTH_NAME}\s+{_DAY_NUMBER}\s+{_CLOCK}{_ZONE}\s+(?P<year>\d{{4}})",
    )
]
_DOTTED = re.compile(r"\D*\d{1,2}\.")  # the day is first
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,9})?")  # counts from 1970


@dataclass(frozen=True)
class TimeForm:
    """The form of a column's times; `name` is None if none was found, or several are possible.

    `described` is the form in words, with an example from the column.
    """

    name: str | None
    described: str
    latest: float = 0.0
    zone: tzinfo = UTC

    def seconds(self, cell: str) -> float | None:
        """Seconds since 1970, UTC; None if the cell has no plausible time."""
        return None if self.name is None else _readings(cell, self.latest, self.zone).get(self.name)


class TimeSurvey:
    """Finds the form of a column's times from all of its cells, in constant memory.

    Times before 1990 and later than tomorrow are not plausible: they are mistakes or placeholders.
    If no day in dates such as 01/02/2025 is above 12, the order of day and month is unknown, unless
    dots separate them: then the day is first. `dates` sets that order, `now` the time of the import
    in seconds since 1970, and `zone` the time zone of cells that name none.

    Raises:
        SettingsError: the order is unknown.

    Example:
        >>> survey = TimeSurvey()
        >>> survey.update(["12/31/2024 11:05 PM", "02/01/2025 8:15 AM"])
        >>> survey.form().described
        "month first, as in '12/31/2024 11:05 PM'"
        >>> survey.form().seconds("12/31/2024 11:05 PM")
        1735686300.0
    """

    def __init__(
        self, dates: DateOrder | None = None, now: float | None = None, zone: tzinfo = UTC
    ) -> None:
        if dates is not None and dates not in get_args(DateOrder):
            raise SettingsError(
                f"an order of dates {one_line(dates)}",
                expected=", ".join(get_args(DateOrder)),
                fix="give one of these, or none to have it guessed from the column",
            )
        self._order = None if dates is None else dates.replace("-", " ")
        self._latest, self._zone = (time.time() if now is None else now) + _DAY, zone
        self._counts = Counter[tuple[str, ...]]()  # cells by the forms that can read them
        self._examples: dict[tuple[str, ...], str] = {}
        self._undecided = self._dotted = 0  # cells with several forms; those where a dot decides

    def update(self, cells: Iterable[str]) -> None:
        """Adds more cells of the column."""
        for cell in cells:
            if not cell or cell.isspace():
                continue
            forms = tuple(_readings(cell, self._latest, self._zone))
            if self._order in forms:
                forms = (self._order,)
            elif self._order is not None:
                forms = tuple(
                    name for name in forms if name not in _ORDERS or forms == (_YEAR_FIRST,)
                )
            self._counts[forms] += 1
            self._examples.setdefault(forms, cell)
            self._undecided += len(forms) > 1
            self._dotted += len(forms) > 1 and _DOTTED.match(cell) is not None

    def form(self) -> TimeForm:
        """The form that reads the most cells."""
        totals = Counter[str]()
        for forms, cells in self._counts.items():
            totals.update(dict.fromkeys(forms, cells))
        if not totals:
            example = f"not understood, such as {self._example(())}" if self._counts else "blank"
            return TimeForm(None, example)
        best = max(totals, key=lambda name: totals[name])
        conflicting = [
            forms
            for forms in self._counts
            if forms and best not in forms and _ORDERS.keys() >= {best, *forms}
        ]
        contradicting = sum(self._counts[forms] for forms in conflicting)
        if contradicting > _CONTRADICTING * totals[best] and best != self._order:
            examples = f"{self._example(self._deciding(best))} and {self._example(conflicting[0])}"
            return TimeForm(None, f"both {best} and {conflicting[0][0]}, such as {examples}")
        unsure = max((forms for forms in self._counts if best in forms), key=len)
        rivals = [name for name in unsure if totals[name] == totals[best]]
        if len(rivals) > 1 and (rivals[0] != "day first" or self._dotted < self._undecided):
            return TimeForm(None, f"{' or '.join(rivals)}: {self._example(unsure)} leaves it open")
        described = f"{best}, as in {self._example(self._deciding(best))}"
        return TimeForm(best, described, self._latest, self._zone)

    def _deciding(self, name: str) -> tuple[str, ...]:
        """The combination of forms that has `name` and the fewest others."""
        return min((forms for forms in self._counts if name in forms), key=len)

    def _example(self, forms: tuple[str, ...]) -> str:
        return one_line(self._examples[forms], 40)


def looks_like_time(cell: str, *, numbers: bool = False) -> bool:
    """Whether a cell looks like a date, or with `numbers` like seconds since 1970."""
    text = cell.strip()
    if text.isdecimal():
        return numbers and bool(_readings(text, time.time() + _DAY, UTC))
    return _parts(text) is not None


def _readings(cell: str, latest: float, zone: tzinfo) -> dict[str, float]:
    """The plausible time of a cell in each form that can read it, in `zone` if it names none."""
    text = cell.strip()
    if len(text) <= _LONGEST and _NUMBER.fullmatch(text):
        counted = float(text)
        if readings := {
            f"{unit} since 1970": counted / size
            for unit, size in _UNITS.items()
            if EARLIEST <= counted / size <= latest
        }:
            return readings
    parts = _parts(text)
    later = None if parts is None else _seconds_of_day(parts)
    if parts is None or later is None:
        return {}
    readings = {}
    for name, year, month, day in _dates(parts):
        for century in (0,) if len(year) == 4 else (2000, 1900):
            try:
                days = date(century + int(year), month, day).toordinal() - _ORDINAL_1970
            except ValueError:
                break
            seconds = days * _DAY + later
            if zone is not UTC and not (parts["zone"] or parts["offset"]):
                wall = _MIDNIGHT_1970 + timedelta(seconds=seconds)
                seconds = wall.replace(tzinfo=zone).timestamp()
            if EARLIEST <= seconds <= latest:
                readings[name] = seconds
                break
    return readings


def _parts(text: str) -> dict[str, str] | None:
    """The named parts of a date and time; None for another text."""
    start = text[:2].casefold()
    if len(text) > _LONGEST or not (start[:1].isdecimal() or start in _STARTS):
        return None
    for pattern in _PATTERNS:
        if match := pattern.fullmatch(text):
            parts = match.groupdict("")
            return None if parts.get("name", "jan").casefold() not in _MONTHS else parts
    return None


def _dates(parts: dict[str, str]) -> list[tuple[str, str, int, int]]:
    if "name" in parts:
        return [(_NAMED, parts["year"], _MONTHS[parts["name"].casefold()], int(parts["day"]))]
    if "first" not in parts:
        return [(_YEAR_FIRST, parts["year"], int(parts["month"]), int(parts["day"]))]
    return [
        (name, parts[year], int(parts[month]), int(parts[day]))
        for name, (year, month, day) in _ORDERS.items()
        if name != _YEAR_FIRST or len(parts["first"]) == len(parts["last"])
    ]


def _seconds_of_day(parts: dict[str, str]) -> float | None:
    """Seconds from the start of the day in UTC; None if it is not a time of day."""
    hour, minute, half = int(parts["hour"] or 0), int(parts["minute"] or 0), parts.get("half")
    second = float(f"{parts['second'] or 0}.{parts.get('fraction') or 0}")
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half in "pP")
    offset = _minutes_east(parts["zone"], parts["offset"])
    if offset is None or hour > 23 or minute > 59 or second >= 60:
        return None
    return hour * 3600 + (minute - offset) * 60 + second


def _minutes_east(zone: str, offset: str) -> int | None:
    """Minutes east of Greenwich; None for a zone that is unknown or impossible."""
    hours = _ZONES.get(zone.lower())
    if hours is None or not offset:
        return None if hours is None else hours * 60
    digits = offset[1:].replace(":", "").zfill(2).ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if minutes > _LARGEST_OFFSET:
        return None
    return hours * 60 + (-minutes if offset[0] == "-" else minutes)
