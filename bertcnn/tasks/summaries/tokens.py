"""Summaries as token ids, and back as text that is spelled as in its source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.models import SearchSettings
from bertcnn.tasks.writing import WrittenText
from bertcnn.text import CLASSIFY, CONTINUATION, PAD, SEPARATE, SPECIAL_TOKENS, WordPieceTokenizer

_CLOSING = frozenset(",.;:!?%)]}'’/-")  # no space before
_OPENING = frozenset("([{'’/-£$€#")  # no space after


@dataclass(frozen=True)
class SpecialIds:
    """The ids of a vocabulary's special tokens; those in `never` are not written."""

    start: int
    end: int
    pad: int
    never: tuple[int, ...]

    @classmethod
    def of(cls, vocabulary: Sequence[str]) -> SpecialIds:
        """Look them up."""
        ids = {piece: index for index, piece in enumerate(vocabulary) if piece in SPECIAL_TOKENS}
        never = tuple(index for piece, index in ids.items() if piece != SEPARATE)
        return cls(ids[CLASSIFY], ids[SEPARATE], ids[PAD], never)

    def search(self, length: int, beam: int, length_penalty: float = 0.6) -> SearchSettings:
        """Settings that write at most `length` tokens."""
        return SearchSettings(
            length, self.start, self.end, self.pad, beam, length_penalty, self.never
        )

    def written(self, text: WrittenText) -> list[int]:
        """The ids of the best summary, without end token and padding."""
        best = text.token_ids[0]
        return [int(one) for one in best if one not in (self.end, self.pad)]


def target_ids(
    tokenizer: WordPieceTokenizer, summaries: Sequence[str], longest: int
) -> list[np.ndarray]:
    """Ids of each summary and the end token, int32 [T] with T at most `longest`."""
    return [
        np.append(ids[1:-1][: longest - 1], ids[-1])
        for ids in tokenizer.encode(summaries).token_ids
    ]


def joined(pieces: Iterable[str]) -> str:
    """Words of WordPieces, with spaces between them."""
    return " ".join(pieces).replace(f" {CONTINUATION}", "")


def spelled(
    token_ids: Sequence[int],
    source_ids: Sequence[int],
    spans: Sequence[Sequence[int]],
    source: str,
    vocabulary: Sequence[str],
) -> str:
    """The text of a summary's tokens, with a capital first letter.

    BERT's tokens have no upper case and no spaces next to punctuation. So the longest runs of
    tokens that the source has too are taken from the source as they stand, such as "£44.90".

    Args:
        token_ids: of the summary, without special tokens.
        source_ids: of the source, without special tokens.
        spans: first character and end of each source token.
        source: the text.
        vocabulary: tokens by id.

    Example:
        >>> vocabulary = ["netflix", "14", ".", "99", "costs"]
        >>> spans = [(0, 7), (9, 11), (11, 12), (12, 14)]
        >>> spelled([4, 1, 2, 3], [0, 1, 2, 3], spans, "Netflix: 14.99", vocabulary)
        'Costs 14.99'
    """
    text, position = "", 0
    while position < len(token_ids):
        start, length = _longest_run(token_ids[position:], source_ids)
        piece = vocabulary[token_ids[position]]
        if length:
            part = source[spans[start][0] : spans[start + length - 1][1]]
        else:
            part = piece.removeprefix(CONTINUATION)
        is_joined = piece.startswith(CONTINUATION) or _is_joined(text, part)
        text += part if is_joined else f" {part}"
        position += max(1, length)
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]


def _longest_run(token_ids: Sequence[int], source_ids: Sequence[int]) -> tuple[int, int]:
    """Where the longest beginning of `token_ids` stands in the source first, and its length."""
    best = 0, 0
    for start in range(len(source_ids)):
        length = 0
        for own, other in zip(token_ids, source_ids[start:], strict=False):
            if own != other:
                break
            length += 1
        if length > best[1]:
            best = start, length
    return best


def _is_joined(text: str, part: str) -> bool:
    if not text or part[0] in _CLOSING or text[-1] in _OPENING:
        return True
    return text[-1] in ".," and text[-2:-1].isdigit() and part[0].isdigit()  # a decimal
