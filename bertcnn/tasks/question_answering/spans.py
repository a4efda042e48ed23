"""The scores of tokens, and the best answer spans over all windows of a context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bertcnn.inference import SpansModel
from bertcnn.tasks.windows import Window, score_windows


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (exclusive) of the context.

    The score is the start score of its first token plus the end score of its last token.
    """

    start: int
    end: int
    score: float


@dataclass(frozen=True)
class SpanScores:
    """The scores of a question's best spans (best first) and of "no answer".

    The score of "no answer" is the start plus end score of [CLS], minimum over all windows (Devlin
    et al. 2019, section 4.3).
    """

    spans: tuple[Span, ...]
    none: float

    @property
    def margin(self) -> float:
        """Score of the best span minus score of "no answer"."""
        return self.spans[0].score - self.none if self.spans else -np.inf

    def probabilities(self, threshold: float, temperature: float) -> np.ndarray:
        """The probabilities of the spans, then of "no answer" with `threshold` added."""
        scores = np.array([*(span.score for span in self.spans), self.none + threshold])
        shares = np.exp((scores - scores.max()) / temperature)
        probabilities: np.ndarray = shares / shares.sum()
        return probabilities


def best_spans(
    windows: Sequence[Window],
    scores: Sequence[np.ndarray],
    rows: int,
    *,
    longest: int,
    most: int = 20,
) -> list[SpanScores]:
    """The best spans for each question.

    A span starts and ends in the context and has at most `longest` tokens. If two windows contain
    the same characters, the higher score counts. `scores` are float32 [T, 2] for each window.
    """
    candidates: list[dict[tuple[int, int], float]] = [{} for _ in range(rows)]
    none = np.full(rows, np.inf)
    for window, both in zip(windows, scores, strict=True):
        none[window.row] = min(none[window.row], float(both[0].sum()))
        # [n, 2]: of start and end
        logits = both[window.first : window.first + len(window.spans)].astype(np.float64)
        if not len(logits):
            continue
        ends = np.pad(logits[:, 1], (0, longest - 1), constant_values=-np.inf)
        # [n, longest]: by start and length
        sums = logits[:, :1] + sliding_window_view(ends, longest)
        for flat_index in np.argsort(-sums, axis=None, kind="stable")[:most].tolist():
            start, more = divmod(flat_index, longest)
            if start + more >= len(logits):
                break
            key = (int(window.spans[start, 0]), int(window.spans[start + more, 1]))
            score = float(sums[start, more])
            candidates[window.row][key] = max(score, candidates[window.row].get(key, -np.inf))
    results = []
    for row in range(rows):
        ranked = sorted(candidates[row].items(), key=lambda item: (-item[1], item[0]))[:most]
        spans = tuple(Span(*bounds, score) for bounds, score in ranked)
        results.append(SpanScores(spans, float(none[row]) if spans else 0.0))
    return results


def scored_windows(
    model: SpansModel, windows: Sequence[Window], rows: int, longest: int
) -> list[SpanScores]:
    """The best spans for `rows` questions; raises BundleError for scores that are not finite."""
    return best_spans(windows, score_windows(model, windows), rows, longest=longest)


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
