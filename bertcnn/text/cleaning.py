"""Makes any Python string safe to tokenise, changing nothing a reader would miss."""

from __future__ import annotations

import re
from unicodedata import category

import numpy as np

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INVISIBLE = ("Cc", "Cf")  # Unicode's control and format characters
# as clean_text sees it: two halves are one
_CHARACTER = re.compile("[\ud800-\udbff][\udc00-\udfff]|.", re.DOTALL)


def clean_text(text: str) -> str:
    r"""`text` without the two things no tokenizer accepts: lone surrogates and NUL characters.

    Both become U+FFFD, which BERT's normaliser then drops. Everything else stays as it is.

    Example:
        >>> clean_text("no \ud83d signal\x00") == "no \ufffd signal\ufffd"
        True
    """
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    try:
        text.encode("utf-8")
    # two halves that belong together are joined, a half alone is replaced
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cleaned_positions(text: str, cleaned: str) -> np.ndarray | None:
    r"""Where each character of `cleaned`, which `clean_text` made of `text`, comes from.

    Returns:
        int32 [characters + 1], the places in `text`, the last one its length; None if they are
        the same places, as nearly always.

    Example:
        >>> cleaned_positions("a\ud83d\ude00b", clean_text("a\ud83d\ude00b")).tolist()
        [0, 1, 3, 4]
    """
    if len(text) == len(cleaned):
        return None
    return np.array([*(match.start() for match in _CHARACTER.finditer(text)), len(text)], np.int32)


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen.

    Only white space, control and format characters, and what `clean_text` replaces.
    """
    return all(
        char.isspace() or char == REPLACEMENT or category(char) in _INVISIBLE
        for char in clean_text(text)
    )


def split_lines(text: str) -> list[str]:
    r"""The lines of a text. Only "\n" and "\r\n" end them, and "\r" in a text without "\n".

    Example:
        >>> split_lines("a\u2028b\r\nc\x0cd\n"), split_lines("a\rb")
        (['a\u2028b', 'c\x0cd'], ['a', 'b'])
    """
    text = text.replace("\r\n", "\n")
    end = "\n" if "\n" in text else "\r"
    return text.removesuffix(end).split(end)
