"""Compares column and label names regardless of case, spaces and composed accents."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_UNSEEN = re.compile("[\ufeff\u200b\u200c\u200d\u2060\u00ad\0]")
_HYPHEN = re.compile(r"(?<=[^\W_])-+(?=[^\W_])|(?<=[\s_])-+(?=[\s_])")  # no sign as in "A-", "-1"
_BETWEEN = re.compile(r"[\s_]+")


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


def find_name(name: str, columns: Sequence[str]) -> str | None:
    """The column called `name`, or the only one that differs just in case, spaces, "_" or "-".

    Example:
        >>> find_name("subject", ("id", "Subject")), find_name("text", ("Text", "TEXT"))
        ('Subject', None)
        >>> find_name("text", ("text", "TEXT"))
        'text'
    """
    if name in columns:
        return name
    key = folded(name)
    alike = [column for column in columns if key and folded(column) == key]
    return alike[0] if len(alike) == 1 else None


def find_names(names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...] | None:
    """The columns with these names, or None if one is missing."""
    matches = [find_name(name, columns) for name in names]
    return None if None in matches else tuple(name for name in matches if name is not None)
