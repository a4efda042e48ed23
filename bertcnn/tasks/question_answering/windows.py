"""Windows: a question and a part of its context as model input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import QuestionSettings
from bertcnn.tasks.windows import Window, cut_windows, encode_with_spans, window_tokenizer
from bertcnn.text import is_blank


class QuestionReader:
    """Makes windows from questions and contexts."""

    def __init__(
        self, vocabulary: Sequence[str], lowercase: bool, settings: QuestionSettings
    ) -> None:
        self.settings = settings
        self._tokenizer = window_tokenizer(vocabulary, lowercase)
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
        encoded = zip(questions, encode_with_spans(self._tokenizer, contexts), strict=True)
        return [
            window
            for row, (question, (ids, spans)) in enumerate(encoded)
            for window in cut_windows(
                row, question_ids[question], ids[1:], spans, self.settings, cut=cut
            )
        ]

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
