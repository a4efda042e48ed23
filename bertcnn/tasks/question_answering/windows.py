"""Windows: a question and a part of its context as model input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import category

import numpy as np

from bertcnn.errors import SettingsError, TableError, one_line
from bertcnn.settings import QuestionSettings, TokenizerSettings
from bertcnn.text import WordPieceTokenizer, is_blank

_NO_LIMIT = 1 << 30  # tokens


@dataclass(frozen=True, eq=False)
class Window:
    """A question and a part of its context: [CLS] question [SEP] part [SEP].

    Attributes:
        row: index of the question.
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
    outside: tuple[int, int] = (0, _NO_LIMIT)

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last token of a character range; None if the range is not fully inside."""
        if start < self.outside[0] or end > self.outside[1]:
            return None
        touched = np.flatnonzero((self.spans[:, 1] > start) & (self.spans[:, 0] < end))
        if not len(touched):
            return None
        return self.first + int(touched[0]), self.first + int(touched[-1])


class QuestionReader:
    """Makes windows from questions and contexts."""

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool, settings: QuestionSettings
    ) -> None:
        self.settings = settings
        self._tokenizer = WordPieceTokenizer(
            vocabulary, TokenizerSettings(lowercase=lowercase, max_tokens=_NO_LIMIT, head_tokens=1)
        )
        self.pad_id = self._tokenizer.pad_id

    def windows(
        self, questions: Sequence[str], contexts: Sequence[str], *, cut: bool = False
    ) -> list[Window]:
        """All windows of all pairs, in order; a blank context has none.

        With `cut`, a context that needs too many windows is truncated.

        Raises:
            SettingsError: a question is blank or too long.
            TableError: a context needs more windows than the settings allow.
        """
        question_ids = {question: self._question(question) for question in dict.fromkeys(questions)}
        encoded = self._tokenizer.encode(contexts, spans=True)
        windows: list[Window] = []
        end = 0
        for row, (question, context, ids) in enumerate(
            zip(questions, contexts, encoded.token_ids, strict=True)
        ):
            start, end = end, end + len(ids)
            spans = _with_marks(context, encoded.spans[start + 1 : end - 1])
            windows += self._windows(row, question_ids[question], ids[1:-1], spans, cut)
        return windows

    def _question(self, question: str) -> np.ndarray:
        if not isinstance(question, str) or is_blank(question):
            raise SettingsError(
                f"the question {one_line(question)}", expected="some words", fix="ask a question"
            )
        tokens = self._tokenizer.encode([question]).token_ids[0]
        if len(tokens) - 2 > self.settings.question_tokens:
            raise SettingsError(
                f"a question of {len(tokens) - 2} tokens ({one_line(question, 40)})",
                expected=f"at most {self.settings.question_tokens}",
                fix="ask a shorter one",
            )
        return tokens

    def _windows(
        self, row: int, question: np.ndarray, tokens: np.ndarray, spans: np.ndarray, cut: bool
    ) -> Iterator[Window]:
        if not len(tokens):
            return
        settings, end = self.settings, question[-1:]
        room = settings.max_tokens - len(question) - 1
        further = max(0, math.ceil((len(tokens) - room) / settings.stride))
        starts = [window * settings.stride for window in range(1 + further)]
        if len(starts) > settings.windows and not cut:
            raise TableError(
                f"a context of {len(tokens):,} tokens ({len(starts):,} windows)",
                expected=f"at most {settings.windows} windows of {room} tokens, each"
                f" {settings.stride} further on",
                fix="give a shorter text, or allow more windows",
            )
        for start in starts[: settings.windows]:
            part = slice(start, start + room)
            ids = np.concatenate([question, tokens[part], end])
            before = int(spans[start - 1, 1]) if start else 0
            after = int(spans[part.stop, 0]) if part.stop < len(spans) else _NO_LIMIT
            yield Window(row, ids, len(question), spans[part], (before, after))


def _with_marks(context: str, spans: np.ndarray) -> np.ndarray:
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
