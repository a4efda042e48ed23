"""Converts values to the text of a cell, and cleans column names."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from bertcnn.errors import SettingsError
from bertcnn.tables.lines import undecodable

MOST_COLUMNS = 16_384
_LARGEST_WHOLE = 1e22  # numbers of cards, orders, phones are smaller; repr has an exponent above
_MISSING_TYPES = frozenset(("NAType", "NaTType", "MaskedConstant"))  # of pandas and NumPy
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


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NaT, NA or masked, from any library.

    Example:
        >>> is_missing(float("nan")), is_missing(None), is_missing(""), is_missing(0)
        (True, True, False, False)
    """
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    try:
        return bool(value != value)
    except (ArithmeticError, TypeError, ValueError):  # arrays
        return False


def plain_text(value: object) -> str:
    r"""Any value as the text of a cell: "" for a missing one, 7 for 7.0, dates in ISO form.

    Bytes are decoded as UTF-8; invalid ones become lone surrogates, which `undecodable` finds.

    Example:
        >>> plain_text(7.0), plain_text(0.1), plain_text(None), plain_text(True)
        ('7', '0.1', '', 'true')
        >>> plain_text(datetime.datetime(2024, 1, 5, 10)), plain_text("é".encode())
        ('2024-01-05 10:00:00', 'é')
    """
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    if is_missing(value):
        return ""
    if isinstance(value, float):
        return (
            str(int(value))
            if value.is_integer() and abs(value) < _LARGEST_WHOLE
            else float.__repr__(value)
        )
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=plain_text)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return _text_of_scalar(value)


def _text_of_scalar(value: Any) -> str:  # noqa: ANN401 - of any library
    kind = type(value).__name__
    if kind in ("bool", "bool_"):
        return "true" if value else "false"
    if kind in ("float16", "float32"):  # converted to 64 bits they would have spurious digits
        return str(value).removesuffix(".0")
    if kind == "datetime64":
        moment = value.item()
        return plain_text(value.astype("M8[us]").item() if isinstance(moment, int) else moment)
    if hasattr(value, "as_py"):
        return plain_text(value.as_py())
    if hasattr(value, "tolist") and getattr(value, "ndim", None):
        return plain_text(value.tolist())
    return str(value)


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
        >>> [whole_number(value) for value in (3, 3.0, " 3 ", "3.0", Decimal(3), 3.5, True, "")]
        [3, 3, 3, 3, 3, None, None, None]
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
