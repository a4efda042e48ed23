"""Dates in many spellings, and in ISO form: pairs that a translator can learn perfectly."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence

_FIRST, _DAYS = datetime.date(1950, 1, 1), 36_500
_TEENS = range(11, 14)
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}
_SPELLINGS = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{nth} of {month} {year}",
    "{weekday}, {day} {month} {year}",
    "{short} {day} {year}",
    "{day}/{number}/{year}",
    "{day:02}.{number:02}.{year}",
    "{day}-{short}-{two:02}",
    "the {nth} of {month}, {year}",
    "{weekday} {nth} {short} {year}",
    "{year}, {month} {day}",
    "{capitals} {day} {year}",
    "{brief} {day} {short} '{two:02}",
)


def days(seed: int = 0) -> list[datetime.date]:
    """A hundred years of days, in random order."""
    found = [_FIRST + datetime.timedelta(days=place) for place in range(_DAYS)]
    random.Random(seed).shuffle(found)
    return found


def date_pairs(
    chosen: Sequence[datetime.date], count: int, seed: int
) -> tuple[list[str], list[str]]:
    """`count` of the days, each in a random spelling, paired with its ISO form."""
    chance = random.Random(seed)
    drawn = [chance.choice(chosen) for _ in range(count)]
    return [spelled(day, chance.choice(_SPELLINGS)) for day in drawn], [
        day.isoformat() for day in drawn
    ]


def spelled(day: datetime.date, spelling: str) -> str:
    """A day in one of the spellings.

    Example:
        >>> spelled(datetime.date(2024, 3, 1), "the {nth} of {month}, {year}")
        'the 1st of March, 2024'
    """
    number = day.day
    suffix = "th" if number in _TEENS else _SUFFIXES.get(number % 10, "th")
    month, weekday = day.strftime("%B"), day.strftime("%A")
    return spelling.format(
        day=number,
        nth=f"{number}{suffix}",
        number=day.month,
        month=month,
        short=month[:3],
        capitals=month.upper(),
        weekday=weekday,
        brief=weekday[:3],
        year=day.year,
        two=day.year % 100,
    )
