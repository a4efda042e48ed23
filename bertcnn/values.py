"""Any value as text, and names compared regardless of case, spaces and composed accents."""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
from decimal import Decimal
from typing import Any

_LARGEST_WHOLE = 1e22  # numbers of cards, orders, phones are smaller; repr has an exponent above
_MISSING_TYPES = frozenset(("NAType", "NaTType", "MaskedConstant"))  # of pandas and NumPy
_UNSEEN = re.compile("[\ufeff\u200b\u200c\u200d\u2060\u00ad\0]")
_HYPHEN = re.compile(r"(?<=[^\W_])-+(?=[^\W_])|(?<=[\s_])-+(?=[\s_])")  # no sign as in "A-", "-1"
_BETWEEN = re.compile(r"[\s_]+")


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


def folded(name: str) -> str:
    r"""The key for comparing names.

    Spaces, underscores and hyphens between words are equal; other signs are kept.

    Example:
        >>> folded("\ufeff Ticket_Text ") == folded("ticket text")
        True
        >>> folded("Catégorie") == folded("CATE\u0301GORIE")
        True
        >>> [folded(name) for name in ("A-", "score -1", "C++", "m²", "Lost-Card")]
        ['a-', 'score -1', 'c++', 'm²', 'lost card']
    """
    narrow = "".join(
        unicodedata.normalize("NFKC", char) if unicodedata.east_asian_width(char) in "FH" else char
        for char in _UNSEEN.sub("", name)
    )
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", narrow).casefold())
    return _BETWEEN.sub(" ", _HYPHEN.sub(" ", plain)).strip()
