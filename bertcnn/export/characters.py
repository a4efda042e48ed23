"""The tokenizer's normalisation as a table of all Unicode characters, for other tokenizers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from bertcnn.text import WordPieceTokenizer

CODE_POINTS: Final = 0x110000
ITSELF: Final = -1  # in a replacement: the original character
_BLOCK = 256
_SURROGATES = range(0xD800, 0xE000)  # halves of UTF-16 pairs, not characters
# the normaliser leaves it unchanged, never produces it, and moves no accent past it
_BETWEEN = "0"
_SPACE = ord(" ")


@dataclass(frozen=True, eq=False)
class CharacterTable:
    """A replacement for every character; words are then separated by spaces.

    Attributes:
        kinds: int16 [0x110000], index of each code point's replacement.
        replacements: code points, `ITSELF` for the original; punctuation is put between spaces.
    """

    kinds: np.ndarray
    replacements: tuple[tuple[int, ...], ...]


def character_table(tokenizer: WordPieceTokenizer) -> CharacterTable:
    """Build the table by calling a tokenizer's own normaliser, so that both always agree.

    The normaliser handles characters independently, with one exception: it sorts several combining
    marks on a letter. That matters only if two of them are kept (marks newer than the list of
    stripped marks, and the Hangul tone marks).

    Example:
        >>> from bertcnn.settings import TokenizerSettings
        >>> tokenizer = WordPieceTokenizer(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], TokenizerSettings()
        ... )
        >>> table = character_table(tokenizer)
        >>> found = [table.replacements[table.kinds[ord(char)]] for char in "aÉ."]
        >>> [[chr(point) if point >= 0 else point for point in points] for points in found]
        [[-1], ['e'], [' ', -1, ' ']]
    """
    kinds = np.zeros(CODE_POINTS, np.int16)
    number_of: dict[tuple[int, ...], int] = {(ITSELF,): 0}
    for characters in _blocks():
        for character, normalized in zip(
            characters, _normalized(tokenizer, characters), strict=True
        ):
            if normalized == character:
                continue
            replacement = tuple(ITSELF if part == character else ord(part) for part in normalized)
            kinds[ord(character)] = number_of.setdefault(replacement, len(number_of))
    replacements = list(number_of)
    spaced = {ord(mark) for mark in _punctuation(tokenizer)}
    for index, replacement in enumerate(replacements):
        replacements[index] = tuple(
            point
            for part in replacement
            for point in ((_SPACE, part, _SPACE) if part in spaced else (part,))
        )
    wrapped = replacements.index((_SPACE, ITSELF, _SPACE))
    for mark in spaced:
        if kinds[mark] == 0:
            kinds[mark] = wrapped
    return CharacterTable(kinds, tuple(replacements))


def _blocks() -> Iterator[str]:
    """Every character except surrogates, in blocks."""
    for start in range(0, CODE_POINTS, _BLOCK):
        if start not in _SURROGATES:
            yield "".join(map(chr, range(start, start + _BLOCK)))


def _normalized(tokenizer: WordPieceTokenizer, characters: str) -> list[str]:
    """Normalise each character independently, but in one call, since many calls take seconds."""
    if _BETWEEN in characters:
        return [tokenizer.normalize(character) for character in characters]
    return tokenizer.normalize(_BETWEEN.join(characters)).split(_BETWEEN)


def _punctuation(tokenizer: WordPieceTokenizer) -> Iterator[str]:
    for characters in _blocks():
        words = tokenizer.words(_BETWEEN + _BETWEEN.join(characters) + _BETWEEN)
        yield from (word for word in words if len(word) == 1 and word != _BETWEEN)
