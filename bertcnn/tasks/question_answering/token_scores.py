"""The scores of each token, as first and as last token of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.tasks.windows import Window


@dataclass(frozen=True, eq=False)
class TokenScores:
    """The scores of a window: [CLS] question [SEP] a part of the text [SEP].

    Attributes:
        tokens: the T WordPieces.
        segments: int32 [T], 0 for the question and 1 for the text.
        start: float32 [T], scores as first token of the answer.
        end: float32 [T], scores as last token.
        first: index of the first token of the text, which has n tokens in this window.
        spans: int32 [n, 2], their characters in the text.
        longest: most tokens of an answer.
    """

    tokens: tuple[str, ...]
    segments: np.ndarray
    start: np.ndarray
    end: np.ndarray
    first: int
    spans: np.ndarray
    longest: int

    @classmethod
    def of(
        cls, window: Window, scores: np.ndarray, vocabulary: Sequence[str], longest: int
    ) -> TokenScores:
        """The scores float32 [T, 2] of a window."""
        return cls(
            tokens=tuple(vocabulary[token] for token in window.token_ids),
            segments=(np.arange(len(window.token_ids)) >= window.first).astype(np.int32),
            start=scores[:, 0],
            end=scores[:, 1],
            first=window.first,
            spans=window.spans,
            longest=longest,
        )

    @property
    def no_answer(self) -> float:
        """The score of "no answer": [CLS] as first and as last token."""
        return float(self.start[0] + self.end[0])

    @property
    def sums(self) -> np.ndarray:
        """The scores of all spans, float32 [n, n] by first and last token of the text.

        NaN where the span ends before it starts, or is too long to be an answer.
        """
        text = slice(self.first, self.first + len(self.spans))
        sums = self.start[text, None] + self.end[None, text]
        valid = np.triu(np.ones_like(sums)) - np.triu(np.ones_like(sums), self.longest)
        return np.where(valid > 0, sums, np.nan)
