"""Decides which labels with different spellings are the same.

Two labels are the same if they look the same (white space, invisible characters, composed accents),
or if file formats write one value in both ways: 7.0 and 7, TRUE and true, 2024-01-05T00:00:00 and
2024-01-05. Otherwise case matters: "Billing" and "billing" are two labels.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from bertcnn.wording import count

_SHOWN = 4
_FEWEST_DIGITS_LOST = 23  # a whole float of this many digits has an exponent as text

# Soft hyphens, zero-width spaces, byte order marks, marks of writing direction. Joiners only next
# to ASCII, since some scripts need them.
_INVISIBLE = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_EMOJI_OR_TEXT = re.compile("[\ufe0e\ufe0f]")  # variation selectors after an emoji
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?(e\+[0-9]{1,2})?", re.IGNORECASE)
_CLOCK = r"([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
_DATE = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:[T ]{_CLOCK})?")
_BOOLEANS = {
    spelling: spelling.lower()
    for word in ("true", "false")
    for spelling in (word, word.title(), word.upper())
}


def clean_label(name: str) -> str:
    r"""A label in NFC, with single spaces and without invisible characters.

    Example:
        >>> clean_label("\ufeff Lost\u00a0 card\u200b ")
        'Lost card'
    """
    return " ".join(unicodedata.normalize("NFC", _INVISIBLE.sub("", name)).split()) or name.strip()


def label_key(name: str) -> str:
    """A key that is equal for labels that are the same.

    Example:
        >>> names = ("7.0", "7.50", "TRUE", "2024-01-05T00:00:00", " Lost  card")
        >>> [label_key(name) for name in names]
        ['7', '7.50', 'true', '2024-01-05', 'Lost card']
    """
    name = _EMOJI_OR_TEXT.sub("", clean_label(name))
    if name in _BOOLEANS:
        return _BOOLEANS[name]
    if _NUMBER.fullmatch(name):
        return _whole(name) or name
    date = _DATE.fullmatch(name)
    return _moment(*date.groups()) if date else name


def _whole(number: str) -> str:
    """A whole number without ".0" or an exponent; "" for any other number."""
    if "." not in number and "+" not in number:
        return number
    value = Decimal(number)
    if value != value.to_integral_value() or value.adjusted() >= _FEWEST_DIGITS_LOST:
        return ""
    return str(int(value))


def _moment(
    day: str, time: str | None, seconds: str | None, fraction: str | None, zone: str | None
) -> str:
    clock = f"{time or '00:00'}:{seconds or '00'}"
    fraction = (fraction or "").rstrip("0")
    zone = "" if zone in (None, "Z", "+00:00", "+0000") else f"{zone}"
    if clock == "00:00:00" and not fraction and not zone:
        return day
    return f"{day} {clock}{'.' if fraction else ''}{fraction}{zone}"


def one_spelling(names: Iterable[str], *, values: bool = True) -> dict[str, str]:
    """Maps each label to its new spelling; omits labels that stay.

    The commonest spelling of a label wins. With `values`, dates always have a canonical spelling,
    true and false if both occur, and whole numbers if no number has decimals (2.0 next to 2.5 may
    be a version). Labels in a program need `values=False`, since it compares them with its own.

    Example:
        >>> one_spelling(["7.0", "8", "8", "network ", "network"])
        {'7.0': '7', 'network ': 'network'}
        >>> one_spelling(["7.0", "8", "8", "network ", "network"], values=False)
        {'network ': 'network'}
    """
    counts = Counter(names)
    ways: dict[str, Counter[str]] = defaultdict(Counter)
    for name, number in counts.items():
        ways[label_key(name)][clean_label(name) if values else name] += number
    usual = _usual(ways) if values else set()
    shown = {
        key: key if key in usual else min(variants, key=lambda name: (-variants[name], name))
        for key, variants in ways.items()
    }
    return {name: shown[key] for name in counts if shown[key := label_key(name)] != name}


def _usual(keys: Collection[str]) -> set[str]:
    numbers = {key for key in keys if _NUMBER.fullmatch(key)}
    usual = set() if any("." in key for key in numbers) else numbers
    usual |= {key for key in keys if _DATE.fullmatch(key)}
    return usual | {"true", "false"} if "true" in keys and "false" in keys else usual


def describe_spellings(names: Iterable[str], spelled: Mapping[str, str]) -> str:
    """A sentence about the labels that `one_spelling` changed; "" for none.

    Example:
        >>> describe_spellings(["7.0", "7", "7"], {"7.0": "7"}).split(": ")[1]
        "'7.0' 1x is '7'"
    """
    if not spelled:
        return ""
    counts = Counter(names)
    order = sorted(spelled, key=lambda name: (-counts[name], name))
    shown = "; ".join(f"{name!r} {counts[name]:,}x is {spelled[name]!r}" for name in order[:_SHOWN])
    more = f"; and {len(order) - _SHOWN} more" if len(order) > _SHOWN else ""
    return (
        f"{count(len(order), 'spelling')} of a label that means the same as another or is a value"
        f" in another format: {shown}{more}"
    )


class KnownLabels:
    """Finds the model's spelling of a label; `merged` maps merged labels to the label they became.

    Example:
        >>> known = KnownLabels(["7", "Lost card"], {"Found card": "Lost card"})
        >>> known.find("7.0"), known.find("found card"), known.find("Found\u00a0card")
        ('7', None, 'Lost card')
    """

    def __init__(self, labels: Iterable[str], merged: Mapping[str, str] | None = None) -> None:
        exact = {**(merged or {}), **{name: name for name in labels}}
        self._by_key = {
            label_key(name): label
            for name, label in sorted(exact.items(), key=lambda pair: pair[0] == pair[1])
        }
        self._found: dict[str, str | None] = {**exact}

    def find(self, name: str) -> str | None:
        """The model's label for `name`, or None."""
        if name not in self._found:
            self._found[name] = self._by_key.get(label_key(name))
        return self._found[name]

    def spelled(self, name: str) -> str:
        """The model's label for `name`, or else `clean_label(name)`."""
        return self.find(name) or clean_label(name)
