"""Joins decoded words with spaces as a person would write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from unicodedata import category, east_asian_width

_ENDS: Final = frozenset(".,;:!?%)]}…”’»›。、，．！？；：）」』】〉》")  # no space before these
_BEGINS: Final = frozenset("([{“‘«‹¿¡#@$（「『【〈《")  # no space after these
# no space on either side between letters or digits: don't, e-mail, and/or
_LINKS: Final = frozenset("'’-_/\\")
_IN_NUMBERS: Final = {
    ".": (1, 100),
    ",": (3, 3),
    ":": (2, 2),
}  # fewest and most digits after them: 12.50, 1,000, 10:30
_QUOTE: Final = '"'  # alternately opens and closes a quotation
# characters that BERT's tokenizer makes separate words, from languages without spaces
_IDEOGRAPHS: Final = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)


def join_words(words: Iterable[str]) -> str:
    r"""Joins words into one line of text.

    Words are separated by a space, except:

    - before closing marks (`. , ; : ! ? % ) ] }` and similar) and after opening marks (`( [ { # @ $
      ¿ ¡` and opening quotation marks)
    - around `' - _ / \` between letters or digits
    - after `. , :` inside a likely number (12.50, 1,000, 10:30)
    - inside a pair of `"`
    - between Chinese or Japanese characters if one is an ideograph

    This is a guess, since the tokenizer makes the same words of "and / or" and "and/or". Tokenising
    the result gives the same words.

    Example:
        >>> words = ["it", "'", "s", "$", "12", ".", "50", "(", "not", '"', "free", '"', ")", "!"]
        >>> join_words(words)
        'it\'s $12.50 (not "free")!'
    """
    listed = list(words)
    parts = listed[:1]
    quoted = parts == [_QUOTE]  # whether a quotation is open
    for index in range(1, len(listed)):
        inside = quoted and _QUOTE in (listed[index - 1], listed[index])
        if not inside and _are_apart(listed, index):
            parts.append(" ")
        quoted ^= listed[index] == _QUOTE
        parts.append(listed[index])
    return "".join(parts)


def _are_apart(words: list[str], index: int) -> bool:
    before, after = words[index - 1], words[index]
    if after in _ENDS or before in _BEGINS or _links(words, index) or _links(words, index - 1):
        return False
    if before in _IN_NUMBERS and index > 1 and words[index - 2].isdecimal() and after.isdecimal():
        fewest, most = _IN_NUMBERS[before]
        return not fewest <= len(after) <= most
    return not (
        (_IDEOGRAPHS.match(before) or _IDEOGRAPHS.match(after))
        and _is_wide(before[-1])
        and _is_wide(after[0])
    )


def _links(words: list[str], index: int) -> bool:
    """Whether the word at `index` joins its neighbours without spaces."""
    return (
        words[index] in _LINKS
        and 0 < index < len(words) - 1
        and words[index - 1][-1].isalnum()
        and words[index + 1][0].isalnum()
    )


def _is_wide(char: str) -> bool:
    """Whether it is a letter or mark of a script without spaces, for use next to an ideograph."""
    return east_asian_width(char) in "WF" and category(char)[0] in "LP"
