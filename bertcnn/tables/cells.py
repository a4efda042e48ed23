"""Values of JSON, Parquet and Excel as the text of cells, and names of columns."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Iterable

from bertcnn.tables.lines import undecodable

MOST_COLUMNS = 16_384
_LARGEST_WHOLE = 1e22  # numbers of cards, orders, phones are smaller; above it repr has an exponent


def name_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Column names without surrounding spaces, none of them empty or repeated.

    Example:
        >>> name_columns(["text", " text", ""])
        ('text', 'text_2', 'column_3')
    """
    return unique_names((name.strip().lstrip("\ufeff") for name in names), "column_{}")


def unique_names(names: Iterable[str], unnamed: str = "") -> tuple[str, ...]:
    """`names` with a number added to each one that is repeated.

    Args:
        names: column names, in order.
        unnamed: name for an empty one, with {} for its position; it stays empty by default.

    Example:
        >>> unique_names(["text", "label", "text", "text_2"])
        ('text', 'label', 'text_3', 'text_2')
    """
    given = list(names)
    columns: dict[str, None] = {}
    used, numbers = set(given), Counter[str]()  # the last number that each name was tried with
    for place, name in enumerate(given, 1):
        wanted = name or unnamed.format(place)
        chosen = wanted
        while chosen in columns or (chosen != name and chosen in used):
            numbers[wanted] = max(numbers[wanted], 1) + 1
            chosen = f"{wanted}_{numbers[wanted]}"
        columns[chosen] = None
    return tuple(columns)


def plain_text(value: object) -> str:
    """A value of Parquet or Excel as text: "" for a null, 7 for 7.0, dates in ISO form.

    Example:
        >>> plain_text(7.0), plain_text(0.1), plain_text(None)
        ('7', '0.1', '')
        >>> plain_text(datetime.datetime(2024, 1, 5, 10))
        '2024-01-05 10:00:00'
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return (
            str(int(value)) if value.is_integer() and abs(value) < _LARGEST_WHOLE else repr(value)
        )
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=plain_text)
    return str(value)


def well_formed(text: str) -> str:
    r"""`text` with each lone surrogate, as from a cut emoji, replaced by U+FFFD.

    Example:
        >>> well_formed("cut \ud83d") == "cut \ufffd"
        True
    """
    return (
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if undecodable(text)
        else text
    )
