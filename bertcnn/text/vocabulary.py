"""Learns a WordPiece vocabulary from text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final

from bertcnn.errors import SettingsError, TableError
from bertcnn.settings import TokenizerSettings
from bertcnn.text.cleaning import clean_text
from bertcnn.text.wordpiece import LONGEST_WORD, SPECIAL_TOKENS, WordPieceTokenizer

PUBLISHED_SIZE: Final = 30_522  # pieces of bert-base-uncased
CONTINUATION: Final = "##"  # prefix of a piece that continues a word
_Pair = tuple[int, int]


def learn_vocabulary(
    documents: Iterable[str],
    *,
    size: int | None = None,
    lowercase: bool = True,
    min_frequency: int = 2,
    min_documents: int = 3,
    words: Callable[[str], Sequence[str]] | None = None,
) -> list[str]:
    """Learns a vocabulary by byte pair encoding; the special tokens come first.

    After the special tokens comes every character in at least `min_documents` documents, as the
    first of a word and as a later one (`a`, `##a`; marks and ideographs, always separate words,
    once). Then the most frequent pair of neighbouring pieces becomes one piece, repeatedly
    (Sennrich et al. 2016, algorithm 1, on the words of BERT's tokenizer). A piece must occur in
    `min_documents` documents, so a name or a number from one person's ticket never gets into a
    vocabulary. Words with other characters are encoded as [UNK].

    The result is deterministic. Memory grows with the number of distinct words. The trainer of the
    `tokenizers` library does not count documents, and its order of pieces varies between runs.

    Args:
        documents: texts, read once.
        size: number of pieces with the special tokens; None for up to 30,522.
        lowercase: also strips accents, as in `TokenizerSettings`.
        min_frequency: minimum occurrences of a piece of several characters.
        min_documents: minimum documents with a piece.
        words: splits a document into words; BERT's tokenizer by default.

    Returns:
        The pieces in the order of their ids.

    Raises:
        SettingsError: the text supports fewer pieces, or needs more; or a setting is below 1.
        TableError: fewer than `min_documents` documents, or these have no character in common.

    Example:
        >>> learn_vocabulary(["no 4711", "no, no", "Nono?", "yes"])
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'n', 'o', '##n', '##o', 'no']
    """
    _check(documents, size, min_frequency, min_documents)
    tokenizer = WordPieceTokenizer(SPECIAL_TOKENS, TokenizerSettings(lowercase=lowercase))
    counted = _count_words(
        documents,
        words or (lambda text: tokenizer.words(tokenizer.normalize(clean_text(text)))),
        min_documents,
    )
    alphabet = list(_alphabet(counted, words or tokenizer.words))
    if not alphabet:
        raise TableError(
            f"{counted.documents:,} documents of which no {min_documents} have a character in"
            " common",
            expected="documents of ordinary text",
            fix="give more documents, or check that these are the right ones",
        )
    pieces = [*SPECIAL_TOKENS, *alphabet]
    limit = PUBLISHED_SIZE if size is None else size
    if len(pieces) > limit and size is not None:
        raise SettingsError(
            f"a vocabulary of {size:,} pieces for a text with {len(alphabet):,} characters to keep"
            " (first and later ones of words)",
            expected=f"at least {len(pieces):,} pieces",
            fix="give a larger size",
        )
    _merge(pieces, counted, limit, min_frequency)
    if size is not None and len(pieces) < size:
        raise SettingsError(
            f"a vocabulary of {size:,} pieces from {counted.documents:,} documents",
            expected=(
                f"at most {len(pieces):,}, since no more occur {min_frequency} times and in"
                f" {min_documents} documents"
            ),
            fix="give a smaller size or more text",
        )
    return pieces


# === Words ===


@dataclass(frozen=True, eq=False)
class _Words:
    """The distinct words of a text.

    Attributes:
        frequencies: occurrences of each word; 0 for a character of words too long to tokenize.
        places: documents with the word, at most `enough`. A piece is in `enough` documents exactly
            if its words have that many in total: either one word has them, or the lists are
            complete.
        enough: minimum documents with a piece.
    """

    frequencies: dict[str, int]
    places: dict[str, tuple[int, ...]]
    documents: int
    enough: int


def _check(
    documents: Iterable[str], size: int | None, min_frequency: int, min_documents: int
) -> None:
    if isinstance(documents, str):
        raise SettingsError(
            "documents was one string",
            expected="several documents, a string each",
            fix="put them in a list",
        )
    for name, value, least in (
        ("size", size, 1),
        ("min_frequency", min_frequency, 1),
        ("min_documents", min_documents, 1),
    ):
        if value is not None and value < least:
            raise SettingsError(
                f"{name} was {value}",
                expected=f"at least {least}",
                fix=f"give {name!r} such a value",
            )


def _count_words(
    documents: Iterable[str], split: Callable[[str], Sequence[str]], enough: int
) -> _Words:
    frequencies: Counter[str] = Counter()
    documents_of: dict[str, tuple[int, ...]] = {}
    anywhere = tuple(range(-enough, 0))  # shared by all words with enough documents
    number = -1
    for number, document in enumerate(documents):
        counts: Counter[str] = Counter()
        for word in split(document):
            if len(word) <= LONGEST_WORD:
                counts[word] += 1
            else:
                counts.update(dict.fromkeys(word, 0))
        for word, times in counts.items():
            frequencies[word] += times
            numbers = documents_of.get(word, ())
            if len(numbers) < enough:
                documents_of[word] = (*numbers, number) if len(numbers) + 1 < enough else anywhere
    if number + 1 < enough:
        raise TableError(
            f"a text of {number + 1} documents",
            expected=(
                f"at least {enough}, since a piece is learned only if it is seen in {enough}"
                " documents"
            ),
            fix="give more documents",
        )
    return _Words(frequencies, documents_of, number + 1, enough)


def _alphabet(words: _Words, split: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """The pieces of one character: first characters of words, then later ones."""
    documents_of: defaultdict[str, set[int]] = defaultdict(set)
    for word, numbers in words.places.items():
        for char in set(word):
            if len(documents_of[char]) < words.enough:
                documents_of[char].update(numbers)
    kept = sorted(char for char, numbers in documents_of.items() if len(numbers) >= words.enough)
    yield from kept
    yield from (CONTINUATION + char for char in kept if len(split(f"0{char}0")) == 1)


# === Merging ===


class _Merges:
    """Words as pieces, with counts of all neighbouring pairs, updated by each merge.

    Merges append to `pieces`. Words with a character outside `pieces` are ignored: they are [UNK].
    """

    def __init__(self, pieces: list[str], words: _Words) -> None:
        self.pieces, self._enough = pieces, words.enough
        self._ids = {piece: index for index, piece in enumerate(pieces)}
        self._words: list[list[int]] = []  # the pieces of each word
        self._frequencies: list[int] = []
        self._places: list[tuple[int, ...]] = []
        self.counts: defaultdict[_Pair, int] = defaultdict(int)
        self._found_in: defaultdict[_Pair, set[int]] = defaultdict(set)
        for word, frequency in words.frequencies.items():
            written = [
                self._ids.get(char if position == 0 else CONTINUATION + char, -1)
                for position, char in enumerate(word)
            ]
            if len(written) > 1 and -1 not in written:
                self._words.append(written)
                self._frequencies.append(frequency)
                self._places.append(words.places[word])
                self._add(len(self._words) - 1)

    def seen_enough(self, pair: _Pair) -> bool:
        documents: set[int] = set()
        for word in self._found_in[pair]:
            documents.update(self._places[word])
            if len(documents) >= self._enough:
                return True
        return False

    def merge(self, pair: _Pair) -> set[_Pair]:
        """Replaces a pair by one piece, added if new; returns the new pairs of all words."""
        left, right = pair
        piece = self.pieces[left] + self.pieces[right].removeprefix(CONTINUATION)
        if piece not in self._ids:
            self._ids[piece] = len(self.pieces)
            self.pieces.append(piece)
        new: set[_Pair] = set()
        for word in list(self._found_in[pair]):
            before = self._remove(word)
            self._words[word] = _joined(self._words[word], left, right, self._ids[piece])
            new |= self._add(word) - before
        del self.counts[pair], self._found_in[pair]
        return new

    def _add(self, word: int) -> set[_Pair]:
        written = self._words[word]
        pairs = list(pairwise(written))
        for pair in pairs:
            self.counts[pair] += self._frequencies[word]
            self._found_in[pair].add(word)
        return set(pairs)

    def _remove(self, word: int) -> set[_Pair]:
        written = self._words[word]
        pairs = list(pairwise(written))
        for pair in pairs:
            self.counts[pair] -= self._frequencies[word]
            self._found_in[pair].discard(word)
        return set(pairs)


def _joined(written: list[int], left: int, right: int, piece: int) -> list[int]:
    joined: list[int] = []
    for part in written:
        if joined and joined[-1] == left and part == right:
            joined[-1] = piece
        else:
            joined.append(part)
    return joined


def _merge(pieces: list[str], words: _Words, limit: int, min_frequency: int) -> None:
    """Adds the most frequent pairs to `pieces` up to `limit`; ties go to earlier pieces."""
    merges = _Merges(pieces, words)
    waiting = [(-count, pair) for pair, count in merges.counts.items() if count >= min_frequency]
    heapify(waiting)
    while waiting and len(pieces) < limit:
        negative, pair = heappop(waiting)
        count = merges.counts.get(pair, 0)
        if count < min_frequency:
            continue
        if count < -negative:  # earlier merges used some of its words
            heappush(waiting, (-count, pair))
        elif merges.seen_enough(pair):
            for new_pair in merges.merge(pair):
                heappush(waiting, (-merges.counts[new_pair], new_pair))
