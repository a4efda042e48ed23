"""Columns for the breakdowns of a report: channel, language, month."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from bertcnn.tables.column_names import find_name
from bertcnn.tables.columns import ColumnChoice
from bertcnn.tables.tables import Table, column_position
from bertcnn.tables.times import TimeSurvey

_WORDS = frozenset(  # in the names of such columns
    "channel source via language lang locale region country kanal quelle sprache land canal "  # noqa: SIM905
    "origine langue pays origen idioma pais canale "
    "origem lingua kanaal taal bron kraj jezyk priority severity urgency".split()
)
_MOST_VALUES = 50  # a column with more of them identifies single rows


def slice_columns(table: Table, choice: ColumnChoice) -> dict[str, list[str]]:
    """The values of each row in the columns for breakdowns, with the month instead of the time.

    The columns of `choice` are skipped. The keys are the displayed names; "" means no value.
    """
    slices = {}
    taken = {
        find_name(name, table.columns)
        for name in (*choice.text, choice.label, choice.id, choice.time)
        if name is not None
    }
    for name in table.columns:
        if name not in taken and not _WORDS.isdisjoint(re.findall(r"[^\W_]+", name.casefold())):
            cells = [cell.strip() for cell in table.column(name)]
            if 2 <= len(set(filter(None, cells))) <= _MOST_VALUES:
                slices[name] = cells
    if choice.time is not None and find_name(choice.time, table.columns) is not None:
        months = months_of([row[column_position(choice.time, table.columns)] for row in table.rows])
        if len(set(filter(None, months))) >= 2:
            slices[f"month of {choice.time}"] = months
    return slices


def months_of(cells: Sequence[str]) -> list[str]:
    """The month of each time, such as "2025-03".

    "" for other cells, or if the column does not show the order of day and month.

    Example:
        >>> months_of(["2025-03-01T10:00", "2025/4/2", "?"]), months_of(["3.4.2025"])
        (['2025-03', '2025-04', ''], ['2025-04'])
        >>> months_of(["3/4/25", "3/14/25"]), months_of(["3/4/25"])
        (['2025-03', '2025-03'], [''])
    """
    survey = TimeSurvey()
    survey.update(cells)
    form = survey.form()
    return [
        "" if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m}"
        for moment in map(form.seconds, cells)
    ]
