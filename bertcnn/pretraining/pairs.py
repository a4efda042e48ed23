"""Pairs of segments for next sentence prediction; half of the second ones are random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertcnn.settings import PretrainingDataSettings

# how far a segment of another document is searched for, in both directions of the order by length
_NEARBY = 64
_LONGEST_WORD_PIECES = 100


@dataclass(frozen=True)
class Sentences:
    """Documents as ranges of one long array of tokens.

    Attributes:
        starts: int64 [S], start of each sentence, in the order of the documents; a document's
            sentences follow each other without gaps.
        ends: int64 [S], end of each sentence.
        documents: int64 [S], index of its document, ascending.
        keys: uint64 [documents], hash of each document's text: equal for duplicates, and for parts
            of one document.
    """

    starts: np.ndarray
    ends: np.ndarray
    documents: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Pairs of segments, or single segments, as ranges of the array of tokens.

    Attributes:
        first_starts: int64 [n], start of segment A.
        first_ends: int64 [n], end of segment A.
        second_starts: int64 [n], start of segment B; equal to its end if there is none.
        second_ends: int64 [n], end of segment B.
        next_labels: int32 [n], 0 if B follows A, 1 if it comes from another document.
        next_weights: float32 [n], 0 if the label is not used: there is no B, or no other document
            to draw one from.
    """

    first_starts: np.ndarray
    first_ends: np.ndarray
    second_starts: np.ndarray
    second_ends: np.ndarray
    next_labels: np.ndarray
    next_weights: np.ndarray

    def __len__(self) -> int:
        return len(self.first_starts)

    @property
    def lengths(self) -> np.ndarray:
        """int64 [n], number of tokens with [CLS] and [SEP]."""
        second = self.second_ends - self.second_starts
        return self.first_ends - self.first_starts + second + np.where(second > 0, 3, 2)

    def take(self, places: np.ndarray) -> Pairs:
        """The pairs at `places`, in that order."""
        return Pairs(*(getattr(self, name)[places] for name in self.__dataclass_fields__))


def draw_pairs(
    sentences: Sentences,
    tokens: np.ndarray,
    continues: np.ndarray,
    settings: PretrainingDataSettings,
    generator: np.random.Generator,
) -> Pairs:
    """Turn documents into pairs of segments (Devlin et al. 2019, appendix A.2).

    Consecutive sentences are joined up to the length of a row, or with probability
    `short_fraction` up to a random shorter length. A run of two or more sentences becomes a pair,
    split after a random sentence. Exactly half of the pairs become random ones: they exchange
    their segments B, each for one of about the same length from a document with another text. So
    every token is seen once, and neither lengths nor duplicate documents reveal the label.
    (google-research/bert, `create_pretraining_data.py`, draws B from any other document and uses
    the replaced B again.)

    A single sentence of at least `halve_from` tokens is split at a word in its middle half. A
    shorter one stays a single segment, `[CLS] A [SEP]`, with weight 0 for next sentence
    prediction. If there is no other document for a pair, its weight is 0 too, and so is that of
    one pair whose B does follow, which keeps the two kinds equal in number.

    Args:
        sentences: sentences of some documents.
        tokens: the array of tokens that they refer to.
        continues: bool [V], pieces that continue a word; no word is split.
        settings: lengths and shares.
        generator: source of randomness.
    """
    if not settings.next_sentence:
        longest = settings.sequence_length - 2
        starts, ends, _, _ = _join(
            _cut(sentences, tokens, continues, longest), longest, settings, generator
        )
        return Pairs(
            starts,
            ends,
            ends,
            ends,
            np.zeros(len(starts), np.int32),
            np.zeros(len(starts), np.float32),
        )
    longest = settings.sequence_length - 3
    cut = _cut(sentences, tokens, continues, longest)
    starts, ends, documents, middles = _join(cut, longest, settings, generator)
    lengths = ends - starts
    single = middles == starts
    halved = np.flatnonzero(
        single & (lengths >= max(2, settings.halve_from)) & (settings.halve_from > 0)
    )
    quarter = lengths[halved] // 4
    drawn = (
        starts[halved]
        + np.maximum(1, quarter)
        + (generator.random(len(halved)) * (lengths[halved] - 2 * quarter)).astype(np.int64)
    )
    middles[halved] = _at_word(np.minimum(drawn, ends[halved] - 1), ends[halved], tokens, continues)
    # from here on, the end of segment A
    middles = np.where((middles == starts) | (middles >= ends), ends, middles)
    pairs = Pairs(
        starts,
        middles,
        middles.copy(),
        ends.copy(),
        np.zeros(len(starts), np.int32),
        (middles < ends).astype(np.float32),
    )
    return _exchange(pairs, sentences.keys[documents], longest, generator)


def _cut(
    sentences: Sentences, tokens: np.ndarray, continues: np.ndarray, longest: int
) -> Sentences:
    """Cut sentences of more than `longest` tokens into about equal pieces, at words if possible."""
    lengths = sentences.ends - sentences.starts
    if not len(lengths) or lengths.max() <= longest:
        return sentences
    roomy = max(1, longest - 8)  # leaves room to move a cut to the next word
    pieces = np.where(lengths > longest, -(-lengths // roomy), 1)
    which = np.repeat(np.arange(len(lengths)), pieces)
    place = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = sentences.starts[which] + place * lengths[which] // pieces[which]
    inner = np.flatnonzero(place > 0)
    moved = _at_word(
        starts[inner],
        np.minimum(sentences.ends[which[inner]], starts[inner] + min(8, longest)),
        tokens,
        continues,
    )
    starts[inner] = np.where(moved - starts[inner] < min(8, longest), moved, starts[inner])
    ends = np.append(starts[1:], sentences.ends[-1:])
    last = np.append(which[1:] != which[:-1], True)
    ends[last] = sentences.ends[which[last]]
    return Sentences(starts, ends, sentences.documents[which], sentences.keys)


def _at_word(
    places: np.ndarray, ends: np.ndarray, tokens: np.ndarray, continues: np.ndarray
) -> np.ndarray:
    """Move each place to the next start of a word, or to its end if there is none before."""
    places = places.copy()
    left = np.arange(len(places))
    for _ in range(_LONGEST_WORD_PIECES):
        left = left[places[left] < ends[left]]
        left = left[continues[tokens[places[left]]]]
        if not len(left):
            break
        places[left] += 1
    return places


def _join(
    sentences: Sentences,
    longest: int,
    settings: PretrainingDataSettings,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Join consecutive sentences into runs that fit.

    Returns:
        Each run's start, end and document, and the start of a random inner sentence (the run's
        own start if it has only one).
    """
    count = len(sentences.starts)
    reached = np.cumsum(sentences.ends - sentences.starts)  # [S]
    first = (
        np.flatnonzero(np.append(True, sentences.documents[1:] != sentences.documents[:-1]))
        if count
        else np.zeros(0, np.int64)
    )
    stop = np.append(first[1:], count).astype(np.int64)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(first):  # the first run of each document, then the second of each, ...
        wanted = np.full(len(first), longest)
        short = generator.random(len(first)) < settings.short_fraction
        wanted[short] = generator.integers(2, longest + 1, int(short.sum()))
        before = np.where(first > 0, reached[first - 1], 0)
        end = np.clip(np.searchsorted(reached, before + wanted, side="right"), first + 1, stop)
        inner = first + 1 + (generator.random(len(first)) * (end - first - 1)).astype(np.int64)
        found.append((first, end, np.where(end - first > 1, inner, first)))
        going = end < stop
        first, stop = end[going], stop[going]
    if not found:
        return (np.zeros(0, np.int64),) * 4
    runs, ends, inner = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(runs, kind="stable")  # the order of the text
    runs, ends, inner = runs[order], ends[order], inner[order]
    return (
        sentences.starts[runs],
        sentences.ends[ends - 1],
        sentences.documents[runs],
        sentences.starts[inner],
    )


def _exchange(
    pairs: Pairs, keys: np.ndarray, longest: int, generator: np.random.Generator
) -> Pairs:
    """Let half of the pairs exchange their segments B."""
    whole = generator.permutation(np.flatnonzero(pairs.next_weights))
    half = (len(whole) + int(generator.integers(2))) // 2
    takers, true = whole[:half], whole[half:]
    seconds = pairs.second_ends[takers] - pairs.second_starts[takers]
    takers = takers[
        np.argsort(seconds, kind="stable")
    ]  # by length; equal lengths stay in random order
    donors, fits = _other_documents(takers, keys)
    second_starts, second_ends = pairs.second_starts.copy(), pairs.second_ends.copy()
    next_labels, next_weights = pairs.next_labels.copy(), pairs.next_weights.copy()
    second_starts[takers] = pairs.second_starts[donors]
    room = longest - (pairs.first_ends - pairs.first_starts)[takers]
    second_ends[takers] = np.minimum(pairs.second_ends[donors], pairs.second_starts[donors] + room)
    next_labels[takers] = 1
    lonely = takers[~fits]
    second_starts[lonely], second_ends[lonely], next_labels[lonely] = (
        pairs.second_starts[lonely],
        pairs.second_ends[lonely],
        0,
    )
    next_weights[lonely] = 0
    next_weights[
        true[: max(0, len(true) - (len(takers) - len(lonely)))] if len(lonely) else true[:0]
    ] = 0
    return Pairs(
        pairs.first_starts, pairs.first_ends, second_starts, second_ends, next_labels, next_weights
    )


def _other_documents(takers: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each taker a donor of similar length, from a document with another key.

    Returns:
        The donors, each used once, and for which takers one with another key was found.
    """
    donors = np.roll(takers, -1)
    for place in np.flatnonzero(keys[takers] == keys[donors]).tolist():
        if keys[takers[place]] != keys[donors[place]]:  # fixed by an earlier exchange
            continue
        near = np.arange(max(0, place - _NEARBY), min(len(takers), place + _NEARBY + 1))
        good = near[
            (keys[takers[place]] != keys[donors[near]])
            & (keys[takers[near]] != keys[donors[place]])
        ]
        if len(good):
            other = good[np.argmin(np.abs(good - place))]
            donors[place], donors[other] = donors[other], donors[place]
    return donors, keys[takers] != keys[donors]
