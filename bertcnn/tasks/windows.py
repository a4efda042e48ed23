"""Windows: overlapping parts of a long text, with the place of each token in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from unicodedata import category

import numpy as np

from bertcnn.errors import BundleError, TableError
from bertcnn.inference import SpansModel
from bertcnn.settings import TokenizerSettings
from bertcnn.text import WordPieceTokenizer

NO_LIMIT = 1 << 30  # tokens


class WindowLimits(Protocol):
    """Sizes in tokens; settings have them."""

    @property
    def max_tokens(self) -> int:
        """Longest window, with everything before and after its part of the text."""

    @property
    def stride(self) -> int:
        """Tokens between the starts of two windows."""

    @property
    def windows(self) -> int:
        """Most windows of a text."""


@dataclass(frozen=True, eq=False)
class Window:
    """A part of a text: [CLS] part [SEP], or [CLS] question [SEP] part [SEP].

    Attributes:
        row: index of the question or text.
        token_ids: int32 [T].
        first: index of the first context token.
        spans: int32 [n, 2], character range of each context token in the original context.
        outside: end of the last token before this part, and start of the first token after it; 0
            and a very large number if there is no such token.
    """

    row: int
    token_ids: np.ndarray
    first: int
    spans: np.ndarray
    outside: tuple[int, int] = (0, NO_LIMIT)

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last token of a character range; None if the range is not fully inside."""
        if start < self.outside[0] or end > self.outside[1]:
            return None
        touched = np.flatnonzero((self.spans[:, 1] > start) & (self.spans[:, 0] < end))
        if not len(touched):
            return None
        return self.first + int(touched[0]), self.first + int(touched[-1])


def cut_windows(
    row: int,
    before: np.ndarray,
    tokens: np.ndarray,
    spans: np.ndarray,
    limits: WindowLimits,
    *,
    cut: bool = False,
) -> Iterator[Window]:
    """The windows of one text; none for a text without tokens.

    `before` is int32, what each window begins with; `tokens` int32 [n + 1] are the text's, ended by
    [SEP], and `spans` int32 [n, 2] their characters. `cut` truncates a text with too many windows.

    Raises:
        TableError: the text needs more windows than the limits allow.
    """
    tokens, end = tokens[:-1], tokens[-1:]
    if not len(tokens):
        return
    room = limits.max_tokens - len(before) - 1
    further = max(0, math.ceil((len(tokens) - room) / limits.stride))
    starts = [window * limits.stride for window in range(1 + further)]
    if len(starts) > limits.windows and not cut:
        raise TableError(
            f"a context of {len(tokens):,} tokens ({len(starts):,} windows)",
            expected=f"at most {limits.windows} windows of {room} tokens, each"
            f" {limits.stride} further on",
            fix="give a shorter text, or allow more windows",
        )
    for start in starts[: limits.windows]:
        part = slice(start, start + room)
        ids = np.concatenate([before, tokens[part], end])
        last = int(spans[start - 1, 1]) if start else 0
        after = int(spans[part.stop, 0]) if part.stop < len(spans) else NO_LIMIT
        yield Window(row, ids, len(before), spans[part], (last, after))


def window_tokenizer(vocabulary: Sequence[str], lowercase: bool) -> WordPieceTokenizer:
    """A tokenizer that cuts no text, so that it can be read in windows."""
    return WordPieceTokenizer(
        vocabulary, TokenizerSettings(lowercase=lowercase, max_tokens=NO_LIMIT, head_tokens=1)
    )


def encode_with_spans(
    tokenizer: WordPieceTokenizer, texts: Sequence[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The ids of each text, int32 [T], and the characters of its own tokens, int32 [T - 2, 2]."""
    encoded, end = tokenizer.encode(texts, spans=True), 0
    for text, ids in zip(texts, encoded.token_ids, strict=True):
        start, end = end, end + len(ids)
        yield ids, with_marks(text, encoded.spans[start + 1 : end - 1])


def score_windows(model: SpansModel, windows: Sequence[Window]) -> list[np.ndarray]:
    """The scores of windows, float32 [T, scores]; raises BundleError if one is not finite."""
    scores = model.run([window.token_ids for window in windows])
    if not all(np.isfinite(one).all() for one in scores):
        raise BundleError(
            "a model whose scores are not finite",
            expected="numbers",
            fix="copy the model again from where it came, or train it again",
        )
    return scores


def with_marks(context: str, spans: np.ndarray) -> np.ndarray:
    """Spans extended by combining marks, such as accents, that follow a token."""
    if context.isascii() or not len(spans):
        return spans
    ends = spans[:, 1].copy()
    for token, end in enumerate(ends.tolist()):
        while end < len(context) and category(context[end])[0] == "M":
            end += 1
        ends[token] = end
    ends[:-1] = np.minimum(ends[:-1], np.maximum(spans[1:, 0], spans[:-1, 1]))
    return np.stack([spans[:, 0], ends], axis=1)
