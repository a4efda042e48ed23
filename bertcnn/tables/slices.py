"""The columns by which a report breaks figures down: channel, language, month."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bertcnn.tables.column_names import find_name
from bertcnn.tables.columns import ColumnChoice
from bertcnn.tables.tables import Table, column_position

_WORDS = frozenset(  # in the names of such columns
    "channel source via language lang locale region country kanal quelle sprache land canal "  # noqa: SIM905
    "origine langue pays origen idioma pais canale "
    "origem lingua kanaal taal bron kraj jezyk priority severity urgency".split()
)
_MOST_VALUES = 50  # a column with more of them identifies single rows
_ISO = re.compile(r"\s*(\d{4})[-/.](\d{1,2})[-/.]\d{1,2}")
_OTHER = re.compile(r"\s*(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})(?!\d)")


def slice_columns(table: Table, choice: ColumnChoice) -> dict[str, list[str]]:
    """What each row has in the columns to slice by; the month instead of the time.

    Args:
        table: the rows.
        choice: the columns that have another part already; `time` is the one that gives the month.

    Returns:
        By the name shown, one value for each row, "" for none.
    """
    found = {}
    taken = {
        find_name(name, table.columns)
        for name in (*choice.text, choice.label, choice.id, choice.time)
        if name is not None
    }
    for name in table.columns:
        if name not in taken and not _WORDS.isdisjoint(re.findall(r"[^\W_]+", name.casefold())):
            cells = [cell.strip() for cell in table.column(name)]
            if 2 <= len(set(filter(None, cells))) <= _MOST_VALUES:
                found[name] = cells
    if choice.time is not None and find_name(choice.time, table.columns) is not None:
        months = months_of([row[column_position(choice.time, table.columns)] for row in table.rows])
        if len(set(filter(None, months))) >= 2:
            found[f"month of {choice.time}"] = months
    return found


def months_of(cells: Sequence[str]) -> list[str]:
    """The month of each date, such as "2026-03".

    "" where there is none, or where day and month cannot be distinguished.

    Example:
        >>> months_of(["2026-03-01T10:00", "2026/4/2", "?"]), months_of(["3.4.2026"])
        (['2026-03', '2026-04', ''], ['2026-04'])
        >>> months_of(["3/4/26", "3/14/26"]), months_of(["3/4/26"])
        (['2026-03', '2026-03'], [''])
    """
    others = [found for cell in cells if (found := _OTHER.match(cell))]
    first, second = (max((int(one[place]) for one in others), default=0) for place in (1, 2))
    dots = all("." in one[0] for one in others)
    day_first = (
        True
        if (first > 12 >= second) or (dots and second <= 12)
        else False
        if second > 12 >= first
        else None
    )
    return [_month(cell, day_first) for cell in cells]


def _month(cell: str, day_first: bool | None) -> str:
    if found := _ISO.match(cell):
        year, month = int(found[1]), int(found[2])
    elif day_first is not None and (found := _OTHER.match(cell)):
        year, month = int(found[3]) + 2000 * (len(found[3]) == 2), int(found[2 if day_first else 1])
    else:
        return ""
    return f"{year:04}-{month:02}" if 1 <= month <= 12 else ""
