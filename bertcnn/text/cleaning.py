"""Replaces characters in strings that tokenizers reject."""

from __future__ import annotations

import re
from unicodedata import category

import numpy as np

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INVISIBLE = ("Cc", "Cf")  # Unicode's control and format characters
# a surrogate pair counts as one, as in clean_text
_CHARACTER = re.compile("[\ud800-\udbff][\udc00-\udfff]|.", re.DOTALL)


def clean_text(text: str) -> str:
    r"""Replaces lone surrogates and NUL characters, which no tokenizer accepts, by U+FFFD.

    BERT's normaliser drops U+FFFD.

    Example:
        >>> clean_text("no \ud83d signal\x00") == "no \ufffd signal\ufffd"
        True
    """
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    try:
        text.encode("utf-8")
    # joins surrogate pairs, replaces lone surrogates
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cleaned_positions(text: str, cleaned: str) -> np.ndarray | None:
    r"""Maps the characters of `cleaned`, the result of `clean_text`, to those of `text`.

    Returns:
        int32 [characters + 1], positions in `text`, the last one its length; None if the lengths
        are equal, so that positions are too.

    Example:
        >>> cleaned_positions("a\ud83d\ude00b", clean_text("a\ud83d\ude00b")).tolist()
        [0, 1, 3, 4]
    """
    if len(text) == len(cleaned):
        return None
    return np.array([*(match.start() for match in _CHARACTER.finditer(text)), len(text)], np.int32)


def is_blank(text: str) -> bool:
    """Whether `text` only has white space, control and format characters, and U+FFFD."""
    return all(
        char.isspace() or char == REPLACEMENT or category(char) in _INVISIBLE
        for char in clean_text(text)
    )


def split_lines(text: str) -> list[str]:
    r"""The lines of a text, ended by "\n" or "\r\n", or by "\r" in a text without "\n".

    Example:
        >>> split_lines("a\u2028b\r\nc\x0cd\n"), split_lines("a\rb")
        (['a\u2028b', 'c\x0cd'], ['a', 'b'])
    """
    text = text.replace("\r\n", "\n")
    end = "\n" if "\n" in text else "\r"
    return text.removesuffix(end).split(end)
