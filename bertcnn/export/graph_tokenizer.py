"""WordPiece in a TensorFlow graph, with the same ids as `WordPieceTokenizer`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf
import tensorflow_text

from bertcnn.text import CLASSIFY, LONGEST_WORD, SEPARATE, UNKNOWN, WordPieceTokenizer

_MOST_BYTES: Final = 4  # per character in UTF-8
# characters that the normaliser drops, so no text can contain them
_PRIVATE_USE: Final = range(0xE000, 0xF900)
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


class GraphTokenizer(tf.Module):
    """Gives the ids of `WordPieceTokenizer`, by tensorflow-text's FastBertTokenizer.

    FastBertTokenizer alone gives other ids for 145,718 of 1,112,064 characters inside a word:
    137,468 for private use, and 4,300 with a meaning (ellipsis, control and format characters,
    newer letters, accents and punctuation). It also measures long words in bytes instead of
    characters. So characters are first replaced by our normaliser's table, and words are split and
    measured here. Then all ids agree.
    """

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        super().__init__(name="tokenizer")
        table = character_table(tokenizer)
        self._kinds = tf.constant(table.kinds)
        self._replacements = tf.ragged.constant(
            [list(replacement) for replacement in table.replacements], tf.int32
        )
        self._pieces = tensorflow_text.FastBertTokenizer(
            list(tokenizer.vocabulary),
            token_out_type=tf.int32,
            unknown_token=UNKNOWN,
            max_bytes_per_word=LONGEST_WORD * _MOST_BYTES,
            no_pretokenization=True,
            lower_case_nfd_strip_accents=False,
        )
        used = set("".join(tokenizer.vocabulary))
        self._unknown_word = next(chr(point) for point in _PRIVATE_USE if chr(point) not in used)
        self._limit, self._head = tokenizer.settings.max_tokens - 2, tokenizer.settings.head_tokens
        self._classify_id, self._separate_id = (
            tokenizer.vocabulary.index(token) for token in (CLASSIFY, SEPARATE)
        )

    def encode(self, texts: Any) -> Any:  # noqa: ANN401 - TensorFlow's tensors have no useful types
        """Ids from [CLS] to [SEP], ragged int32 [N, T], of UTF-8 texts, string [N].

        Drops bytes that are not UTF-8.
        """
        ids = self._pieces.tokenize(self._words(texts)).merge_dims(1, 2)  # [N, T]
        ids = self._shortened(ids)
        border = tf.ones_like(texts, tf.int32)[:, None]  # [N, 1]
        return tf.concat([border * self._classify_id, ids, border * self._separate_id], axis=1)

    def _words(self, texts: Any) -> Any:  # noqa: ANN401
        """Normalised words, ragged string [N, words]; too long words become unknown words."""
        points = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")  # [N, characters]
        replaced = tf.gather(
            self._replacements, tf.cast(tf.gather(self._kinds, points.flat_values), tf.int32)
        )
        itself = tf.repeat(points.flat_values, replaced.row_lengths())
        replaced = replaced.with_flat_values(
            tf.where(replaced.flat_values < 0, itself, replaced.flat_values)
        )
        normalized = tf.RaggedTensor.from_row_splits(replaced, points.row_splits).merge_dims(1, 2)
        words = tf.strings.split(tf.strings.unicode_encode(normalized, "UTF-8"))
        too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > LONGEST_WORD
        return words.with_flat_values(tf.where(too_long, self._unknown_word, words.flat_values))

    def _shortened(self, ids: Any) -> Any:  # noqa: ANN401
        lengths = ids.row_lengths()
        positions = tf.ragged.range(lengths)
        from_its_end = tf.repeat(lengths - (self._limit - self._head), lengths)
        kept = (positions.flat_values < self._head) | (positions.flat_values >= from_its_end)
        return tf.ragged.boolean_mask(ids, positions.with_flat_values(kept))
