"""Cleans the texts of cells, and column names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from bertcnn.errors import SettingsError
from bertcnn.tables.lines import undecodable
from bertcnn.values import plain_text

MOST_COLUMNS = 16_384
_WHOLE_NUMBER = re.compile(r"[-+]?[0-9]{1,15}(\.0*)?")


def name_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Column names without surrounding spaces, none of them empty or repeated.

    Example:
        >>> name_columns(["text", " text", ""])
        ('text', 'text_2', 'column_3')
    """
    return unique_names((name.strip().lstrip("\ufeff") for name in names), "column_{}")


def unique_names(names: Iterable[str], unnamed: str = "") -> tuple[str, ...]:
    """Numbers repeated names; `unnamed` replaces empty ones, with {} for the position.

    Example:
        >>> unique_names(["text", "label", "text", "text_2"])
        ('text', 'label', 'text_3', 'text_2')
    """
    originals = list(names)
    columns: dict[str, None] = {}
    used, numbers = set(originals), Counter[str]()  # the last number tried for each name
    for position, name in enumerate(originals, 1):
        base = name or unnamed.format(position)
        chosen = base
        while chosen in columns or (chosen != name and chosen in used):
            numbers[base] = max(numbers[base], 1) + 1
            chosen = f"{base}_{numbers[base]}"
        columns[chosen] = None
    return tuple(columns)


def given_text(value: object) -> str:
    """Converts a value that a program passes as a text; see `plain_text`.

    Raises:
        SettingsError: it is bytes that are not UTF-8.
    """
    text = plain_text(value)
    if not isinstance(value, str) and undecodable(text):
        raise SettingsError(
            f"{value!r:.40} as a text, though its bytes are not UTF-8",
            expected="a string, or bytes in UTF-8",
            fix="decode them first, for example with cell.decode('latin-1')",
        )
    return text


def whole_number(value: object) -> int | None:
    """The whole number in a cell; None for anything else.

    Example:
        >>> [whole_number(value) for value in (3, 3.0, " 3 ", "3.0", 3.5, True, "")]
        [3, 3, 3, 3, None, None, None]
    """
    text = plain_text(value).strip()
    return int(text.partition(".")[0]) if _WHOLE_NUMBER.fullmatch(text) else None


def well_formed(text: str) -> str:
    r"""Replaces lone surrogates, as from a cut emoji, by U+FFFD.

    Example:
        >>> well_formed("cut \ud83d") == "cut \ufffd"
        True
    """
    return (
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if undecodable(text)
        else text
    )
