"""Explains logits exactly by windows of words, and selects phrases to show.

A logit is a sum: the bias, each filter's largest activation times its weight, and the share of the
mean token embedding. A filter's share belongs to the window of tokens with that activation. The
window may include [CLS], [SEP] or padding, but these have no characters.

Phrases consist of whole words. A window's share is divided evenly among its tokens, and a word gets
the sum of its tokens' shares. The fewest words, at most eight, with more than half of the total
positive share are selected. Selected words form one phrase if they are adjacent or have one word
between them; punctuation ends a phrase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category

import numpy as np

from bertcnn.inference.engines import Evidence
from bertcnn.inference.output_layer import OutputLayer
from bertcnn.settings import PHRASES, HeadSettings
from bertcnn.text import CONTINUES, JOINS, PUNCTUATION, EncodedTexts, WordPieceTokenizer

_MOST_WORDS = 8
_ENOUGH = 0.5  # of the total positive share
_ROUNDING = 1e-6  # tolerance for a sum of shares
_LONGEST = 80  # characters per phrase in a cell
_NOWHERE = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Part:
    """A window or phrase with its contribution to a logit.

    Attributes:
        start: index of the first character.
        end: index after the last character; equal to `start` for no characters.
        words: the text; " ... " where the middle of a long text was cut.
        share: the contribution, negative if it lowers the logit.
    """

    start: int
    end: int
    words: str
    share: float


@dataclass(frozen=True)
class Explanation:
    """Why a text got its label: `logit` = `bias` + `mean` + the windows' shares.

    Attributes:
        label: the explained label; None for a blank text, unless a label was given.
        logit: its logit, before temperature scaling.
        bias: the label's bias.
        mean: share of the mean token embedding.
        windows: the windows of the filters' maxima with their shares, sorted by absolute size.
        phrases: phrases to show, the most important first; see `bertcnn.inference.evidence`.
        reason: why the decision was made, as text.
    """

    label: str | None
    logit: float
    bias: float
    mean: float
    windows: tuple[Part, ...]
    phrases: tuple[Part, ...]
    reason: str = ""


class Explainer:
    """Maps the filters' activations to positions in texts."""

    def __init__(
        self, layer: OutputLayer, head: HeadSettings, tokenizer: WordPieceTokenizer
    ) -> None:
        filters = head.filters * len(head.window_sizes)
        self._bias = layer.bias
        self._kernel = np.ascontiguousarray(layer.kernel[:filters].T)  # [C, W * N]
        # [C, D]
        self._mean_kernel = np.ascontiguousarray(layer.kernel[filters:].T).astype(np.float64)
        self._widths = np.repeat(np.array(head.window_sizes, np.int32), head.filters)  # [W * N]
        self._tokenizer = tokenizer

    def spans(
        self, texts: Sequence[str], encoded: EncodedTexts, evidence: Evidence, labels: np.ndarray
    ) -> np.ndarray:
        """The phrases that moved each answer most, for many texts at once.

        `labels` are the labels to explain, int [rows]; negative for none.

        Returns:
            int32 [rows, PHRASES, 2], first character and index after the last; zeros if fewer.
        """
        return self._phrases(texts, encoded, evidence, labels)[0]

    def explain(
        self,
        texts: Sequence[str],
        encoded: EncodedTexts,
        evidence: Evidence,
        logits: np.ndarray,
        labels: np.ndarray,
        names: Sequence[str],
    ) -> list[Explanation]:
        """Every additive term of each text's logit.

        `logits` are float32 [rows, C]; `labels` to explain int [rows], negative for none.
        """
        lengths = encoded.lengths
        first_tokens = np.cumsum(lengths) - lengths
        phrases, moved = self._phrases(texts, encoded, evidence, labels)
        explanations = []
        for row, label in enumerate(labels.tolist()):
            if label < 0:
                explanations.append(Explanation(None, 0.0, 0.0, 0.0, (), ()))
                continue
            shares = evidence.activations[row].astype(np.float64) * self._kernel[label]  # [W * N]
            tokens = _Tokens.of_row(
                texts[row],
                encoded,
                row,
                int(first_tokens[row]),
            )
            logit, bias = float(logits[row, label]), float(self._bias[label])
            shown = [
                Part(start, end, words_of(texts[row], start, end), share)
                for (start, end), share in zip(
                    phrases[row].tolist(), moved[row].tolist(), strict=True
                )
                if end > start
            ]
            windows = self._windows(tokens, evidence.windows[row], shares)
            mean = float(evidence.means[row] @ self._mean_kernel[label])
            explanations.append(Explanation(names[label], logit, bias, mean, windows, tuple(shown)))
        return explanations

    def _windows(self, tokens: _Tokens, starts: np.ndarray, shares: np.ndarray) -> tuple[Part, ...]:
        """Each distinct window with the sum of its filters' shares."""
        window_shares: dict[tuple[int, int], float] = {}
        for start, width, share in zip(
            starts.tolist(), self._widths.tolist(), shares.tolist(), strict=True
        ):
            if share:
                window_shares[start, width] = window_shares.get((start, width), 0.0) + share
        return tuple(
            tokens.part(*window, share)
            for window, share in sorted(window_shares.items(), key=lambda item: -abs(item[1]))
        )

    def _phrases(
        self, texts: Sequence[str], encoded: EncodedTexts, evidence: Evidence, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Phrases, int32 [rows, PHRASES, 2], and their shares, [rows, PHRASES]."""
        spans, moved = np.zeros((len(texts), PHRASES, 2), np.int32), np.zeros((len(texts), PHRASES))
        if not len(texts):
            return spans, moved
        words = _Words(encoded, self._tokenizer)
        shares = evidence.activations * np.where(
            labels[:, None] >= 0, self._kernel[labels], np.float32(0)
        )  # [rows, W * N]
        rows, candidates, strengths = words.phrases(
            np.add.reduceat(self._by_token(encoded.lengths, evidence.windows, shares), words.first)
        )
        order = np.lexsort((-strengths, rows))
        rank = _ranks(rows[order])
        best = order[rank < PHRASES]
        indices = rows[best], rank[rank < PHRASES]
        spans[indices], moved[indices] = candidates[best], strengths[best]
        for row in np.flatnonzero(
            [not text.isascii() for text in texts]
        ).tolist():  # include combining marks
            for span in spans[row]:
                span[1] = _behind_marks(texts[row], int(span[1])) if span[1] else 0
        return spans, moved

    def _by_token(self, lengths: np.ndarray, windows: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Divide window shares [rows, W * N] evenly among their tokens.

        Returns float64 [tokens of all rows], without [CLS] and [SEP].
        """
        first = np.maximum(windows, 1)
        # after the last token, at most [SEP]
        end = np.minimum(windows + self._widths, lengths[:, None].astype(np.int32) - 1)
        each = np.where(end > first, shares / np.maximum(end - first, 1), np.float32(0)).ravel()
        base = (np.cumsum(lengths) - lengths)[:, None]
        tokens = int(lengths.sum())
        # a difference array: add at the first token, subtract after the last
        changes = np.bincount((base + first).ravel(), each, tokens) - np.bincount(
            (base + end).ravel(), each, tokens
        )
        return np.cumsum(changes)


class _Words:
    """The words of many texts in one sequence.

    [CLS] and [SEP] are words that are never selected, so no phrase crosses texts.

    Attributes:
        first: int [words], index of each word's first token among the tokens of all texts.
    """

    def __init__(self, encoded: EncodedTexts, tokenizer: WordPieceTokenizer) -> None:
        ids, (starts, ends) = np.concatenate(encoded.token_ids), encoded.spans.T
        lengths = encoded.lengths
        marker = starts == ends
        cut = np.zeros(len(ids), bool)  # where the middle of a long text was cut
        cut[(np.cumsum(lengths) - lengths + encoded.cut)[encoded.truncated]] = True
        # the preceding token also precedes it in the text
        follows = ~(cut | marker | np.roll(marker, 1))
        touches = follows & (starts == np.roll(ends, 1))
        kinds = tokenizer.kinds(ids)
        joins = (kinds & JOINS > 0) & touches & np.roll(touches, -1)
        goes_on = follows & ((kinds & CONTINUES > 0) | joins | np.roll(joins, 1))
        self.first = np.flatnonzero(~goes_on)
        plain = ~(marker | (kinds & PUNCTUATION > 0))
        self._plain = np.logical_or.reduceat(plain, self.first)
        self._starts = np.minimum.reduceat(np.where(plain, starts, _NOWHERE), self.first)
        self._ends = np.maximum.reduceat(np.where(plain, ends, 0), self.first)
        self._rows = np.repeat(np.arange(len(lengths)), lengths)[self.first]
        self._cut = cut[self.first]

    def phrases(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The phrases of all texts, from the words' shares, float [words].

        Returns:
            Row indices, int [phrases]; positions, int32 [phrases, 2]; shares, float [phrases].
        """
        chosen = self._chosen(shares)
        between = self._plain[1:-1] & chosen[:-2] & chosen[2:] & ~(self._cut[1:-1] | self._cut[2:])
        chosen[1:-1] |= between
        begins = chosen.copy()
        begins[1:] &= ~chosen[:-1] | self._cut[1:]
        numbers = np.cumsum(begins)[chosen] - 1
        first = np.flatnonzero(begins)
        ends = np.zeros(len(first), np.int32)
        ends[numbers] = self._ends[chosen]  # words are in order, so the last one's end stays
        return (
            self._rows[first],
            np.stack([self._starts[first], ends], axis=1),
            np.bincount(numbers, shares[chosen], len(first)),
        )

    def _chosen(self, shares: np.ndarray) -> np.ndarray:
        """The fewest words with more than half of the positive share, bool [words]."""
        speaks_for = np.where(self._plain, np.maximum(shares, 0), 0)
        order = np.lexsort((-speaks_for, self._rows))  # by row, the largest share first
        rank = _ranks(self._rows)  # the rows are already sorted
        sums = np.cumsum(speaks_for[order]) - speaks_for[order]
        # share of the row's words with larger shares
        before = sums - np.repeat(sums[rank == 0], np.bincount(self._rows))
        whole = np.bincount(self._rows, speaks_for)[self._rows]
        chosen = np.zeros(len(shares), bool)
        chosen[order] = (
            (speaks_for[order] > _ROUNDING)
            & (before <= _ENOUGH * whole + _ROUNDING)
            & (rank < _MOST_WORDS)
        )
        return chosen


@dataclass(frozen=True)
class _Tokens:
    """One text's tokens: positions, int32 [T, 2], and the number of tokens before the cut.

    Without a cut, that is all tokens.
    """

    text: str
    places: np.ndarray
    before_cut: int

    @classmethod
    def of_row(cls, text: str, encoded: EncodedTexts, row: int, first: int) -> _Tokens:
        count = len(encoded.token_ids[row])
        return cls(
            text,
            encoded.spans[first : first + count],
            int(encoded.cut[row]),
        )

    def part(self, first: int, width: int, share: float) -> Part:
        """The window of `width` tokens at index `first`."""
        tokens = range(max(first, 1), min(first + width, len(self.places) - 1))
        if not tokens:  # [SEP] or padding
            return Part(len(self.text), len(self.text), "", share)
        start = int(self.places[tokens[0], 0])
        end = _behind_marks(self.text, int(self.places[tokens[-1], 1]))
        if not tokens[0] < self.before_cut <= tokens[-1]:
            return Part(start, end, self.text[start:end], share)
        left, right = int(self.places[self.before_cut - 1, 1]), int(self.places[self.before_cut, 0])
        return Part(start, end, f"{self.text[start:left]} ... {self.text[right:end]}", share)


def words_of(text: str, start: int, end: int) -> str:
    """A phrase on one line, without the separator of phrases."""
    return " ".join(text[start:end].replace("|", " ").split())


def because(text: str, spans: Sequence[Sequence[int]]) -> str:
    """The phrases as shown in a cell, the most important first.

    Duplicates are dropped; each phrase has at most 80 characters. `spans` have the first character
    and the index after the last of each phrase; 0 and 0 for none.

    Example:
        >>> because("My router's led is NOT working, not working", [(12, 15), (19, 30), (32, 43)])
        'led | NOT working'
    """
    shown: dict[str, str] = {}
    for start, end in spans:
        phrase = words_of(text, start, end)
        phrase = phrase if len(phrase) <= _LONGEST else f"{phrase[: _LONGEST - 1]}…"
        shown.setdefault(phrase.casefold(), phrase)
    return " | ".join(filter(None, shown.values()))


def _behind_marks(text: str, end: int) -> int:
    """Move `end` past combining marks, which the tokenizer drops."""
    while end < len(text) and not text[end].isascii() and category(text[end])[0] == "M":
        end += 1
    return end


def _ranks(rows: np.ndarray) -> np.ndarray:
    """For ascending row numbers, each element's index within its row.

    Example:
        >>> _ranks(np.array([0, 0, 2, 2, 2])).tolist()
        [0, 1, 0, 1, 2]
    """
    return np.arange(len(rows)) - np.searchsorted(rows, rows)
