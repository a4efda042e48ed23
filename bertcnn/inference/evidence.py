"""Because: which windows of words made a logit, exactly, and phrases to show for them.

A logit is a sum: the bias, plus each filter's largest activation times its weight, plus the share
of the mean token embedding. The filter's share belongs to the one window of tokens that gave that
activation. What a filter saw at [CLS], [SEP] or past the end is part of its window too, but has no
characters.

Phrases, for people, are made of whole words. The share of a window is divided evenly among its
tokens, and a word gets what its tokens got. The fewest words that hold more than half of what spoke
for the label are chosen, at most eight. Chosen neighbours make a phrase, also with one word between
them; punctuation ends one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category

import numpy as np

from bertcnn.inference.engines import Evidence
from bertcnn.inference.output_layer import LastLayer
from bertcnn.settings import PHRASES, HeadSettings
from bertcnn.text.wordpiece import CONTINUES, JOINS, PUNCTUATION, EncodedTexts, WordPieceTokenizer

_MOST_WORDS = 8
_ENOUGH = 0.5  # of what spoke for the label
_ROUNDING = 1e-6  # what a sum of shares may be off
_LONGEST = 80  # characters of a phrase in a cell
_NOWHERE = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Part:
    """A place in a text, with what it added to a logit.

    Attributes:
        start: its first character.
        end: the one behind its last; the same as `start` if it has no characters.
        words: what stands there; " ... " where a text over the limit lost its middle.
        share: added to the logit, or taken from it if negative.
    """

    start: int
    end: int
    words: str
    share: float


@dataclass(frozen=True)
class Explanation:
    """Why a text got its label: `bias`, `mean` and the windows' shares add up to `logit`.

    Attributes:
        label: the label explained; None for a text in which nothing can be seen, unless one was
            asked for.
        logit: its logit, before the temperature of the calibration.
        bias: what the label gets in any text.
        mean: share of the mean of the token embeddings.
        windows: the windows that won, each with the sum of the filters that chose it, the largest
            first by size.
        phrases: what to show a person, the most important first; see `bertcnn.inference.evidence`
            for how they are made.
        reason: why the decision about the text is what it is, in words.
    """

    label: str | None
    logit: float
    bias: float
    mean: float
    windows: tuple[Part, ...]
    phrases: tuple[Part, ...]
    reason: str = ""


class Explainer:
    """Turns what the filters found into places in texts.

    Args:
        layer: the model's last layer.
        head: shape of the CNN head.
        tokenizer: the model's.
    """

    def __init__(self, layer: LastLayer, head: HeadSettings, tokenizer: WordPieceTokenizer) -> None:
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

        Args:
            texts: as they were given.
            encoded: their tokens, with spans.
            evidence: what the filters found.
            labels: int [rows], the labels to explain; negative for none.

        Returns:
            int32 [rows, PHRASES, 2], first character and the one behind the last; 0 and 0 where
            there are no more phrases.
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
        """Everything that made each text's logit of its label.

        Args:
            texts: as they were given.
            encoded: their tokens, with spans.
            evidence: what the filters found.
            logits: float32 [rows, C].
            labels: int [rows], the labels to explain; negative for none.
            names: of all labels.
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
                self._tokenizer.settings.head_tokens,
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
        """Each different window with the sum of its filters' shares."""
        found: dict[tuple[int, int], float] = {}
        for start, width, share in zip(
            starts.tolist(), self._widths.tolist(), shares.tolist(), strict=True
        ):
            if share:
                found[start, width] = found.get((start, width), 0.0) + share
        return tuple(
            tokens.part(*place, share)
            for place, share in sorted(found.items(), key=lambda item: -abs(item[1]))
        )

    def _phrases(
        self, texts: Sequence[str], encoded: EncodedTexts, evidence: Evidence, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Phrases, int32 [rows, PHRASES, 2], and what each added to the logit, [rows, PHRASES]."""
        spans, moved = np.zeros((len(texts), PHRASES, 2), np.int32), np.zeros((len(texts), PHRASES))
        if not len(texts):
            return spans, moved
        words = _Words(encoded, self._tokenizer)
        shares = evidence.activations * np.where(
            labels[:, None] >= 0, self._kernel[labels], np.float32(0)
        )  # [rows, W * N]
        rows, found, strengths = words.phrases(
            np.add.reduceat(self._by_token(encoded.lengths, evidence.windows, shares), words.first)
        )
        order = np.lexsort((-strengths, rows))
        rank = _ranks(rows[order])
        best = order[rank < PHRASES]
        place = rows[best], rank[rank < PHRASES]
        spans[place], moved[place] = found[best], strengths[best]
        for row in np.flatnonzero(
            [not text.isascii() for text in texts]
        ).tolist():  # a letter takes the marks above and below it along
            for span in spans[row]:
                span[1] = _behind_marks(texts[row], int(span[1])) if span[1] else 0
        return spans, moved

    def _by_token(self, lengths: np.ndarray, windows: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Shares [rows, W * N] of windows, divided evenly among their tokens.

        float64 [tokens of all rows], without [CLS] and [SEP].
        """
        first = np.maximum(windows, 1)
        # behind the last token, at most on [SEP]
        end = np.minimum(windows + self._widths, lengths[:, None].astype(np.int32) - 1)
        each = np.where(end > first, shares / np.maximum(end - first, 1), np.float32(0)).ravel()
        base = (np.cumsum(lengths) - lengths)[:, None]
        tokens = int(lengths.sum())
        # a window's part is there from its first token until its end
        changes = np.bincount((base + first).ravel(), each, tokens) - np.bincount(
            (base + end).ravel(), each, tokens
        )
        return np.cumsum(changes)


class _Words:
    """The words of many texts, one after the other.

    [CLS] and [SEP] are words that are never chosen, so that no phrase passes them.

    Attributes:
        first: int [words], the first token of each, among the tokens of all texts.
    """

    def __init__(self, encoded: EncodedTexts, tokenizer: WordPieceTokenizer) -> None:
        ids, (starts, ends) = np.concatenate(encoded.token_ids), encoded.spans.T
        lengths = encoded.lengths
        marker = starts == ends
        cut = np.zeros(len(ids), bool)  # where the middle of a long text is missing
        cut[
            (np.cumsum(lengths) - lengths)[encoded.truncated] + 1 + tokenizer.settings.head_tokens
        ] = True
        # the token before stands before it in the text, too
        own = ~(cut | marker | np.roll(marker, 1))
        touches = own & (starts == np.roll(ends, 1))
        kinds = tokenizer.kinds(ids)
        joins = (kinds & JOINS > 0) & touches & np.roll(touches, -1)
        goes_on = own & ((kinds & CONTINUES > 0) | joins | np.roll(joins, 1))
        self.first = np.flatnonzero(~goes_on)
        plain = ~(marker | (kinds & PUNCTUATION > 0))
        self._plain = np.logical_or.reduceat(plain, self.first)
        self._starts = np.minimum.reduceat(np.where(plain, starts, _NOWHERE), self.first)
        self._ends = np.maximum.reduceat(np.where(plain, ends, 0), self.first)
        self._rows = np.repeat(np.arange(len(lengths)), lengths)[self.first]
        self._cut = cut[self.first]

    def phrases(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The phrases of all texts, by the words' shares, float [words].

        Returns:
            Their rows, int [phrases]; their places, int32 [phrases, 2]; their shares, float
            [phrases].
        """
        chosen = self._chosen(shares)
        between = self._plain[1:-1] & chosen[:-2] & chosen[2:] & ~(self._cut[1:-1] | self._cut[2:])
        chosen[1:-1] |= between
        begins = chosen.copy()
        begins[1:] &= ~chosen[:-1] | self._cut[1:]
        numbers = np.cumsum(begins)[chosen] - 1
        first = np.flatnonzero(begins)
        ends = np.zeros(len(first), np.int32)
        ends[numbers] = self._ends[chosen]  # of words in order, the last one's stays
        return (
            self._rows[first],
            np.stack([self._starts[first], ends], axis=1),
            np.bincount(numbers, shares[chosen], len(first)),
        )

    def _chosen(self, shares: np.ndarray) -> np.ndarray:
        """The fewest words that hold more than half of what spoke for the label, bool [words]."""
        speaks_for = np.where(self._plain, np.maximum(shares, 0), 0)
        order = np.lexsort((-speaks_for, self._rows))  # row by row, the strongest word first
        rank = _ranks(self._rows)  # the rows are in order already
        sums = np.cumsum(speaks_for[order]) - speaks_for[order]
        # held by stronger words of the row
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
    """One text's tokens: their places, int32 [T, 2], and how many stand before the cut.

    All, unless the text lost its middle.
    """

    text: str
    places: np.ndarray
    before_cut: int

    @classmethod
    def of_row(
        cls, text: str, encoded: EncodedTexts, row: int, first: int, head_tokens: int
    ) -> _Tokens:
        count = len(encoded.token_ids[row])
        return cls(
            text,
            encoded.spans[first : first + count],
            head_tokens + 1 if encoded.truncated[row] else count,
        )

    def part(self, first: int, width: int, share: float) -> Part:
        """The window of `width` tokens at `first`."""
        tokens = range(max(first, 1), min(first + width, len(self.places) - 1))
        if not tokens:  # [SEP] and what is behind it
            return Part(len(self.text), len(self.text), "", share)
        start = int(self.places[tokens[0], 0])
        end = _behind_marks(self.text, int(self.places[tokens[-1], 1]))
        if not tokens[0] < self.before_cut <= tokens[-1]:
            return Part(start, end, self.text[start:end], share)
        left, right = int(self.places[self.before_cut - 1, 1]), int(self.places[self.before_cut, 0])
        return Part(start, end, f"{self.text[start:left]} ... {self.text[right:end]}", share)


def words_of(text: str, start: int, end: int) -> str:
    """A phrase on one line, without the sign that stands between phrases."""
    return " ".join(text[start:end].replace("|", " ").split())


def because(text: str, spans: Sequence[Sequence[int]]) -> str:
    """The phrases as a cell shows them, the most important first.

    Each stands once, and none is over 80 characters.

    Args:
        text: as it was given.
        spans: first character of each phrase and the one behind its last; 0 and 0 for none.

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
    """`end`, moved behind combining marks, which the tokenizer drops."""
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
