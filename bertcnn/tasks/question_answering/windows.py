"""Windows: a question and a part of its context as model input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import QuestionSettings, TokenizerSettings
from bertcnn.tasks.windows import NO_LIMIT, Window, cut_windows, with_marks
from bertcnn.text import WordPieceTokenizer, is_blank


class QuestionReader:
    """Makes windows from questions and contexts."""

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool, settings: QuestionSettings
    ) -> None:
        self.settings = settings
        self._tokenizer = WordPieceTokenizer(
            vocabulary, TokenizerSettings(lowercase=lowercase, max_tokens=NO_LIMIT, head_tokens=1)
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
            spans = with_marks(context, encoded.spans[start + 1 : end - 1])
            windows += cut_windows(
                row, question_ids[question], ids[1:], spans, self.settings, cut=cut
            )
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
