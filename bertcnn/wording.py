"""Readable numbers, and texts that are safe to show."""

from __future__ import annotations

import unicodedata

_HIDDEN = "\N{REPLACEMENT CHARACTER}"
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def visible(text: str) -> str:
    r"""Replace every control character and every invisible character of a text.

    The result cannot control a terminal or hide anything. Replaced are escape sequences, line
    breaks, marks of the writing direction, tags and lone surrogates. Kept are spaces of any width,
    and the joiners of Persian, Indian scripts and emoji between two characters outside ASCII.

    Example:
        >>> visible("bill\x1b[31ming\u202e") == "bill\ufffd[31ming\ufffd"
        True
    """
    if text.isprintable():
        return text
    return "".join(
        (
            character
            if character.isprintable()
            or unicodedata.category(character) == "Zs"
            or _joins(text, place)
            else _HIDDEN
        )
        for place, character in enumerate(text)
    )


def _joins(text: str, place: int) -> bool:
    if text[place] not in _JOINERS or place == 0:
        return False
    neighbours = text[place - 1] + text[place + 1 : place + 2]
    return (
        len(neighbours) == 2 and neighbours.isprintable() and not any(map(str.isascii, neighbours))
    )


def count(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> count(1, "row"), count(1200, "row")
        ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share as a percentage that is never rounded to 0% or 100%.

    Example:
        >>> percent(0.123), percent(0.0004), percent(0.9999)
        ('12%', 'under 1%', 'over 99%')
    """
    if 0 < share < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < share < 1 else f"{share:.0%}"


def duration(seconds: float) -> str:
    """Seconds as a readable duration.

    Example:
        >>> duration(4.2), duration(75), duration(7300)
        ('4 s', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def memory_size(number: float) -> str:
    """Bytes as a readable size.

    Example:
        >>> memory_size(512), memory_size(1500), memory_size(350_024_000), memory_size(4.1e9)
        ('512 bytes', '1.5 kB', '350 MB', '4.1 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            return f"{number / unit:.{0 if number >= 10 * unit else 1}f} {name}"
    return f"{number} bytes"
