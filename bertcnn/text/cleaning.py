"""Makes any Python string safe to tokenise, changing nothing a reader would miss."""

from __future__ import annotations

from unicodedata import category

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_INVISIBLE = ("Cc", "Cf")  # Unicode's control and format characters


def clean_text(text: str) -> str:
    r"""`text` without the two things no tokenizer accepts: lone surrogates and NUL characters.

    Both become U+FFFD, which BERT's normaliser then drops. Everything else stays, character for character.

    Example:
        >>> clean_text("no \ud83d signal\x00") == "no \ufffd signal\ufffd"
        True
    """
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # two halves that belong together are joined, a half alone is replaced
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen: only white space, control and format characters, and what `clean_text` replaces."""
    return all(char.isspace() or char == REPLACEMENT or category(char) in _INVISIBLE for char in clean_text(text))
