"""Texts as words and windows, and the scores of windows as scores of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.inference import SpansModel
from bertcnn.settings import TokenLabelSettings
from bertcnn.tasks.windows import (
    Window,
    cut_windows,
    encode_with_spans,
    score_windows,
    window_tokenizer,
)
from bertcnn.text import CONTINUES


@dataclass(frozen=True, eq=False)
class ReadTexts:
    """Texts as words and windows.

    Attributes:
        words: per text int32 [words, 2], the characters of each word.
        first_tokens: per text int [words], the text's token that each word begins with.
        windows: of all texts, in order.
        starts: int [windows], the text's token that each window begins with.
    """

    words: list[np.ndarray]
    first_tokens: list[np.ndarray]
    windows: list[Window]
    starts: np.ndarray

    @property
    def token_ids(self) -> list[np.ndarray]:
        """Token ids of the windows, int32 [T] each."""
        return [window.token_ids for window in self.windows]

    def scores(self, model: SpansModel) -> list[np.ndarray]:
        """Scores of the words of each text, float32 [words, tags].

        The first word piece of a word carries its scores (Devlin et al. 2019, section 5.3). Where
        windows overlap, the one with the most text on both sides of the piece counts.

        Raises:
            BundleError: the scores are not finite.
        """
        results = score_windows(model, self.windows)
        sides = [np.full(len(words), -1) for words in self.words]
        merged = [np.zeros((len(words), 0), np.float32) for words in self.words]
        for window, start, values in zip(self.windows, self.starts.tolist(), results, strict=True):
            row, length = window.row, len(window.spans)
            if not merged[row].shape[1]:
                merged[row] = np.zeros((len(self.words[row]), values.shape[1]), np.float32)
            places = self.first_tokens[row] - start
            side = np.minimum(places, length - 1 - places)
            chosen = (side >= 0) & (side > sides[row])
            merged[row][chosen] = values[window.first + places[chosen]]
            sides[row][chosen] = side[chosen]
        return merged


class TextReader:
    """Reads texts as words and windows.

    A word is what BERT's tokenizer splits at spaces and punctuation; its word pieces belong to it.
    """

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool, settings: TokenLabelSettings
    ) -> None:
        self._settings = settings
        self._tokenizer = window_tokenizer(vocabulary, lowercase)
        self.pad_id = self._tokenizer.pad_id

    def read(self, texts: Sequence[str], *, cut: bool = False) -> ReadTexts:
        """Read texts; with `cut`, texts with too many windows lose their end.

        Raises:
            TableError: a text needs more windows than the settings allow.
        """
        words, first_tokens, windows, starts = [], [], [], []
        for row, (ids, spans) in enumerate(encode_with_spans(self._tokenizer, texts)):
            own = list(cut_windows(row, ids[:1], ids[1:], spans, self._settings, cut=cut))
            own_starts = [number * self._settings.stride for number in range(len(own))]
            seen = own_starts[-1] + len(own[-1].spans) if own else 0
            begins = self._tokenizer.kinds(ids[1:-1]) & CONTINUES == 0
            first = np.flatnonzero(begins[:seen])
            last = np.append(np.flatnonzero(begins)[1:], len(spans))[: len(first)] - 1
            words.append(np.stack([spans[first, 0], spans[last, 1]], axis=1))
            first_tokens.append(first)
            windows += own
            starts += own_starts
        return ReadTexts(words, first_tokens, windows, np.array(starts, np.int64))
