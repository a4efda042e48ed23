"""Pairs of segments for next sentence prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bertcnn.settings import PretrainingDataSettings

# search distance for a segment of another document, in both directions of the order by length
_NEARBY = 64
_LONGEST_WORD_PIECES = 100


@dataclass(frozen=True)
class Sentences:
    """Documents as ranges of one long array of tokens.

    Attributes:
        starts: int64 [S], start of each sentence; a document's sentences are contiguous.
        ends: int64 [S], end of each sentence.
        documents: int64 [S], index of its document, ascending.
        keys: uint64 [documents], text hash; equal for duplicates and for parts of one document.
    """

    starts: np.ndarray
    ends: np.ndarray
    documents: np.ndarray
    keys: np.ndarray


# segments A and B as ranges of tokens; a single segment has an empty B
PAIR: Final = np.dtype(
    [
        ("first_start", np.int64),
        ("first_end", np.int64),
        ("second_start", np.int64),
        ("second_end", np.int64),
        ("next_label", np.int32),  # 0 if B follows A, 1 if it comes from another document
        ("next_weight", np.float32),  # 0 if the label is not used: no B, or no other document
    ]
)


def pair_lengths(pairs: np.ndarray) -> np.ndarray:
    """Tokens of each pair with [CLS] and [SEP], int64 [n]."""
    second = pairs["second_end"] - pairs["second_start"]
    return pairs["first_end"] - pairs["first_start"] + second + np.where(second > 0, 3, 2)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenated ranges: the index of each number's range, and the numbers themselves.

    Example:
        >>> [part.tolist() for part in ranges(np.array([7, 0]), np.array([2, 3]))]
        [[0, 0, 1, 1, 1], [7, 8, 0, 1, 2]]
    """
    which = np.repeat(np.arange(len(starts)), lengths)
    return which, np.arange(len(which)) + (starts - (np.cumsum(lengths) - lengths))[which]


def draw_pairs(
    sentences: Sentences,
    tokens: np.ndarray,
    continues: np.ndarray,
    settings: PretrainingDataSettings,
    generator: np.random.Generator,
) -> np.ndarray:
    """Turn documents into pairs of segments (Devlin et al. 2019, appendix A.2).

    Consecutive sentences are joined up to the length of a row, or with probability `short_fraction`
    up to a random shorter length. A run of two or more sentences becomes a pair, split after a
    random sentence. Exactly half of the pairs become random: they exchange their segments B with
    others of similar length from documents with another text. Every token is seen once, and neither
    lengths nor duplicate documents reveal the label. (google-research/bert,
    `create_pretraining_data.py`, draws B from any other document and reuses the replaced B.)

    A single sentence of at least `halve_from` tokens is split at a word in its middle half. A
    shorter one stays a single segment, `[CLS] A [SEP]`, with next-sentence weight 0. If there is no
    other document for a pair, its weight is 0 too; so is the weight of one pair whose B does
    follow, to keep both kinds equally frequent.

    The sentences are ranges of `tokens`. Words are not split: `continues`, bool [V], marks pieces
    that continue a word.

    Returns:
        `PAIR` [n].
    """
    longest = settings.sequence_length - (3 if settings.next_sentence else 2)
    cut = _cut(sentences, tokens, continues, longest)
    starts, ends, documents, middles = _join(cut, longest, settings, generator)
    pairs = np.zeros(len(starts), PAIR)
    pairs["first_start"], pairs["second_end"] = starts, ends
    pairs["first_end"] = pairs["second_start"] = ends
    if not settings.next_sentence:
        return pairs
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
    divided = (starts < middles) & (middles < ends)
    pairs["first_end"][divided] = pairs["second_start"][divided] = middles[divided]
    pairs["next_weight"][divided] = 1.0
    return _exchange(pairs, sentences.keys[documents], longest, generator)


def _cut(
    sentences: Sentences, tokens: np.ndarray, continues: np.ndarray, longest: int
) -> Sentences:
    """Cut sentences of more than `longest` tokens into equal pieces, at words if possible."""
    lengths = sentences.ends - sentences.starts
    if not len(lengths) or lengths.max() <= longest:
        return sentences
    roomy = max(1, longest - 8)  # leaves room to move a cut to the next word
    pieces = np.where(lengths > longest, -(-lengths // roomy), 1)
    which, piece = ranges(np.zeros_like(pieces), pieces)
    starts = sentences.starts[which] + piece * lengths[which] // pieces[which]
    inner = np.flatnonzero(piece > 0)
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
    positions: np.ndarray, ends: np.ndarray, tokens: np.ndarray, continues: np.ndarray
) -> np.ndarray:
    """Move each position to the next word start before its end, or else to its end."""
    positions = positions.copy()
    left = np.arange(len(positions))
    for _ in range(_LONGEST_WORD_PIECES):
        left = left[positions[left] < ends[left]]
        left = left[continues[tokens[positions[left]]]]
        if not len(left):
            break
        positions[left] += 1
    return positions


def _join(
    sentences: Sentences,
    longest: int,
    settings: PretrainingDataSettings,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and document of each run, and the start of a random inner sentence.

    Consecutive sentences are joined into runs that fit. A run of one sentence returns its own start
    as the inner one.
    """
    reached = np.cumsum(sentences.ends - sentences.starts)  # [S]
    first = np.unique(sentences.documents, return_index=True)[1]
    stop = np.append(first[1:], len(reached))
    rounds = [np.zeros((3, 0), np.int64)]
    while len(first):  # the first run of each document, then the second of each, ...
        targets = np.full(len(first), longest)
        short = generator.random(len(first)) < settings.short_fraction
        targets[short] = generator.integers(2, longest + 1, int(short.sum()))
        before = np.where(first > 0, reached[first - 1], 0)
        end = np.clip(np.searchsorted(reached, before + targets, side="right"), first + 1, stop)
        inner = first + 1 + (generator.random(len(first)) * (end - first - 1)).astype(np.int64)
        rounds.append(np.stack([first, end, np.where(end - first > 1, inner, first)]))
        going = end < stop
        first, stop = end[going], stop[going]
    runs, ends, inner = np.concatenate(rounds, axis=1)
    order = np.argsort(runs, kind="stable")
    runs, ends, inner = runs[order], ends[order], inner[order]
    return (
        sentences.starts[runs],
        sentences.ends[ends - 1],
        sentences.documents[runs],
        sentences.starts[inner],
    )


def _exchange(
    pairs: np.ndarray, keys: np.ndarray, longest: int, generator: np.random.Generator
) -> np.ndarray:
    whole = generator.permutation(np.flatnonzero(pairs["next_weight"]))
    half = (len(whole) + int(generator.integers(2))) // 2
    takers, true = whole[:half], whole[half:]
    seconds = (pairs["second_end"] - pairs["second_start"])[takers]
    takers = takers[np.argsort(seconds, kind="stable")]
    donors, fits = _other_documents(takers, keys)
    lonely, takers, donors = takers[~fits], takers[fits], donors[fits]
    exchanged = pairs.copy()
    room = longest - (pairs["first_end"] - pairs["first_start"])[takers]
    starts = pairs["second_start"][donors]
    exchanged["second_start"][takers] = starts
    exchanged["second_end"][takers] = np.minimum(pairs["second_end"][donors], starts + room)
    exchanged["next_label"][takers] = 1
    exchanged["next_weight"][lonely] = 0
    if len(lonely):
        exchanged["next_weight"][true[: max(0, len(true) - len(takers))]] = 0
    return exchanged


def _other_documents(takers: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each taker a donor of similar length, each used once, and whether its key differs."""
    donors = np.roll(takers, -1)
    for index in np.flatnonzero(keys[takers] == keys[donors]).tolist():
        if keys[takers[index]] != keys[donors[index]]:  # fixed by an earlier exchange
            continue
        near = np.arange(max(0, index - _NEARBY), min(len(takers), index + _NEARBY + 1))
        good = near[
            (keys[takers[index]] != keys[donors[near]])
            & (keys[takers[near]] != keys[donors[index]])
        ]
        if len(good):
            other = good[np.argmin(np.abs(good - index))]
            donors[index], donors[other] = donors[other], donors[index]
    return donors, keys[takers] != keys[donors]
