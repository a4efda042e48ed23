"""The pieces of many texts, for which each different word is taken apart once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from tokenizers import Tokenizer

# white space that parts words here, besides " "; at other white space the tokenizer parts them
_AS_SPACE = ("\t", "\n", "\r")
# words that the tokenizer is given at a time: alone, each would take it three times as long
_OF_A_LINE = 64


@dataclass(frozen=True)
class TokenizedWords:
    """The pieces of texts, one text after the other.

    Attributes:
        ids: int32 [pieces].
        places: int32 [pieces, 2], the first character of each in its text and the one behind its
            last.
        lengths: int64 [texts], pieces of each.
    """

    ids: np.ndarray
    places: np.ndarray
    lengths: np.ndarray

    @property
    def first(self) -> np.ndarray:
        """The first piece of each text, int64 [texts]."""
        return np.cumsum(self.lengths) - self.lengths

    def without_middle(self, most: int, head: int) -> TokenizedWords:
        """The first `head` pieces of texts with more than `most`, and as many of the end as fit."""
        place = ranges(np.zeros_like(self.lengths), self.lengths)
        length = np.repeat(self.lengths, self.lengths)
        kept = (length <= most) | (place < head) | (place >= length - (most - head))
        return TokenizedWords(self.ids[kept], self.places[kept], np.minimum(self.lengths, most))


def tokenize_words(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenizedWords:
    """The pieces of texts.

    A word, here what stands between white space, has the same pieces wherever it stands, and people
    use few words again and again.

    Args:
        tokenizer: one that takes a word apart without looking at the others, as BERT's does.
        texts: any that it accepts.
    """
    words = [_words(text) for text in texts]  # of each at least one, maybe ""
    numbers = {
        word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(words)))
    }
    different = _tokenize_different_words(tokenizer, list(numbers))
    words_of = np.fromiter(map(len, words), np.int64, len(words))
    # the words of all texts
    sequence = np.fromiter(map(numbers.__getitem__, chain.from_iterable(words)), np.int64)
    first, counts = np.cumsum(words_of) - words_of, different.lengths[sequence]
    begins = _begins(chain.from_iterable(words))
    begins -= np.repeat(begins[first], words_of)  # in the own text
    chosen = ranges(different.first[sequence], counts)
    places = different.places[chosen] + np.repeat(begins, counts)[:, None]
    return TokenizedWords(different.ids[chosen], places, np.add.reduceat(counts, first))


def ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Each `first` and the numbers after it, as many as `counts` says, int64.

    Example:
        >>> ranges(np.array([5, 0]), np.array([3, 2])).tolist()
        [5, 6, 7, 0, 1]
    """
    return np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)


def _words(text: str) -> list[str]:
    """What stands between white space, and "" between two of its characters."""
    for character in _AS_SPACE:
        text = text.replace(character, " ")
    return text.split(" ")


def _begins(words: Iterable[str]) -> np.ndarray:
    """Where each word begins in the line of all, int32 [words]."""
    sizes = np.fromiter(map(len, words), np.int32) + np.int32(1)  # with the space behind it
    return np.cumsum(sizes, dtype=np.int32) - sizes


def _tokenize_different_words(tokenizer: Tokenizer, words: list[str]) -> TokenizedWords:
    """The pieces of each word."""
    begins = _begins(words)
    starts = range(0, len(words), _OF_A_LINE)
    lines = tokenizer.encode_batch(
        [" ".join(words[start : start + _OF_A_LINE]) for start in starts], add_special_tokens=False
    )
    ids = np.fromiter(chain.from_iterable(line.ids for line in lines), np.int32)
    places = [
        np.array(line.offsets, np.int32).reshape(-1, 2) + begins[start]
        for start, line in zip(starts, lines, strict=True)
    ]
    together = np.concatenate([np.empty((0, 2), np.int32), *places])
    word_of = np.searchsorted(begins, together[:, 0], side="right") - 1
    return TokenizedWords(
        ids, together - begins[word_of, None], np.bincount(word_of, minlength=len(words))
    )
