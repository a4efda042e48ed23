"""Tokenises many texts, each distinct word only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

# white space that separates words here, besides " "; the tokenizer splits at the rest
_AS_SPACE = ("\t", "\n", "\r")
# words per call of the tokenizer: one at a time takes three times as long
_OF_A_LINE = 64


@dataclass(frozen=True)
class TokenizedWords:
    """The pieces of texts, one text after the other.

    Attributes:
        ids: int32 [pieces].
        places: int32 [pieces, 2], the start and end of each piece in its text, in characters.
        lengths: int64 [texts], pieces of each text.
    """

    ids: np.ndarray
    places: np.ndarray
    lengths: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """The index of each text's first piece, int64 [texts]."""
        return np.cumsum(self.lengths) - self.lengths

    def without_middle(self, most: int, head: int) -> TokenizedWords:
        """Truncates texts to `most` pieces: the first `head` and the rest from the end."""
        position = ranges(np.zeros_like(self.lengths), self.lengths)
        length = np.repeat(self.lengths, self.lengths)
        kept = (length <= most) | (position < head) | (position >= length - (most - head))
        return TokenizedWords(self.ids[kept], self.places[kept], np.minimum(self.lengths, most))


def tokenize_words(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenizedWords:
    """Tokenises texts with a cache of words; `tokenizer` must treat words independently."""
    words = [_words(text) for text in texts]  # at least one for each text, possibly ""
    numbers = {
        word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(words)))
    }
    different = _tokenize_different_words(tokenizer, list(numbers))
    words_of = np.fromiter(map(len, words), np.int64, len(words))

    sequence = np.fromiter(map(numbers.__getitem__, chain.from_iterable(words)), np.int64)
    first, counts = np.cumsum(words_of) - words_of, different.lengths[sequence]
    begins = _begins(chain.from_iterable(words))
    begins -= np.repeat(begins[first], words_of)  # relative to the text
    chosen = ranges(different.first[sequence], counts)
    spans = different.places[chosen] + np.repeat(begins, counts)[:, None]
    return TokenizedWords(different.ids[chosen], spans, np.add.reduceat(counts, first))


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Concatenates ranges, int64: each starts at `first` and has `counts` numbers.

    Example:
        >>> ranges(np.array([5, 0]), np.array([3, 2])).tolist()
        [5, 6, 7, 0, 1]
    """
    return np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)


def _words(text: str) -> list[str]:
    """The parts between white space characters, "" between two in a row."""
    for character in _AS_SPACE:
        text = text.replace(character, " ")
    return text.split(" ")


def _begins(words: Iterable[str]) -> np.ndarray:
    sizes = np.fromiter(map(len, words), np.int32) + np.int32(1)  # with the space after it
    return np.cumsum(sizes, dtype=np.int32) - sizes


def _tokenize_different_words(tokenizer: Tokenizer, words: list[str]) -> TokenizedWords:
    begins = _begins(words)
    starts = range(0, len(words), _OF_A_LINE)
    lines = tokenizer.encode_batch(
        [" ".join(words[start : start + _OF_A_LINE]) for start in starts], add_special_tokens=False
    )
    ids = np.fromiter(chain.from_iterable(line.ids for line in lines), np.int32)
    spans = [
        np.array(line.offsets, np.int32).reshape(-1, 2) + begins[start]
        for start, line in zip(starts, lines, strict=True)
    ]
    together = np.concatenate([np.empty((0, 2), np.int32), *spans])
    word_of = np.searchsorted(begins, together[:, 0], side="right") - 1
    return TokenizedWords(
        ids, together - begins[word_of, None], np.bincount(word_of, minlength=len(words))
    )
