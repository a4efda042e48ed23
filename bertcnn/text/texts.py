"""Texts that a caller passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from bertcnn.errors import SettingsError, one_line
from bertcnn.values import is_missing


def check_texts(texts: Sequence[str]) -> list[str]:
    """`texts` as a list of strings; a missing text, None or NaN, is blank as in a file.

    Raises:
        SettingsError: it is not a sequence of strings; the message names the first other value.
    """
    if not isinstance(texts, Iterable):
        raise SettingsError(
            f"{one_line(texts)} of type {type(texts).__name__}",
            expected="a list of strings",
            fix="pass a list: [text]",
        )
    if isinstance(texts, str):
        raise SettingsError(
            "one string", expected="a list of strings", fix="put the text in a list: [text]"
        )
    if isinstance(texts, Set | Mapping):
        raise SettingsError(
            f"texts in a {type(texts).__name__}",
            expected="a list of strings, whose order the answers have",
            fix="pass a list of the texts",
        )
    if getattr(texts, "ndim", 1) != 1:
        raise SettingsError(
            f"texts of shape {getattr(texts, 'shape', '?')}",
            expected="one dimension: a string for each row",
            fix="pass one column, such as table['text']",
        )
    as_python = getattr(texts, "to_pylist", None)  # PyArrow arrays, whose items are not strings
    values = list(texts) if as_python is None else as_python()
    checked = ["" if not isinstance(text, str) and is_missing(text) else text for text in values]
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise SettingsError(
                f"{one_line(text)} of type {type(text).__name__} as text number {row + 1}",
                expected="a string",
                fix="pass strings",
            )
    return checked
