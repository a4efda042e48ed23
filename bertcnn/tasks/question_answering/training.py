"""Fine-tunes an encoder for question answering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.windows import Window
from bertcnn.training import Arrays

_NOT_HERE = -1e9  # added to the scores of tokens outside the context
_CLASSIFY = 0  # position of [CLS], which means "no answer"


@dataclass(frozen=True)
class LabelledWindows:
    """Windows with the position of the answer in each.

    Attributes:
        token_ids: per window int32 [T].
        context: int32 [windows, 2], first token of the context and the index after its last token.
        places: int32 [windows, 2], first and last answer token; [CLS] (0, 0) if not inside.
    """

    token_ids: Sequence[np.ndarray]
    context: np.ndarray
    places: np.ndarray
    pad_id: int

    @classmethod
    def of(
        cls, windows: Sequence[Window], questions: Sequence[Question], pad_id: int
    ) -> LabelledWindows:
        """Label windows with the first of the question's answers that each contains."""
        context, labels = np.full((2, len(windows), 2), _CLASSIFY, np.int32)
        for row, window in enumerate(windows):
            context[row] = window.first, window.first + len(window.spans)
            question = questions[window.row]
            for start, answer in zip(question.starts, question.answers, strict=True):
                tokens = window.tokens_of(start, start + len(answer))
                if tokens is not None:
                    labels[row] = tokens
                    break
        return cls([window.token_ids for window in windows], context, labels, pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [windows]."""
        return np.array([len(ids) for ids in self.token_ids])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; filler rows have weight 0."""
        inputs = pad(self.token_ids, plan, self.pad_id).inputs()
        context = np.full((plan.size, 2), plan.length, np.int32)
        labels, weights = np.zeros((plan.size, 2), np.int32), np.zeros(plan.size, np.float32)
        rows = slice(len(plan.rows))
        context[rows], labels[rows] = self.context[plan.rows], self.places[plan.rows]
        weights[rows] = 1
        first, end = context[:, :1], context[:, 1:]
        positions = np.arange(plan.length)
        allowed = (positions == _CLASSIFY) | ((positions >= first) & (positions < end))
        return inputs, {
            "places": labels,
            "allowed": allowed.astype(np.float32),
            "weights": weights,
        }


def span_figures(scores: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """The mean cross-entropy of start and end among [CLS] and the context's tokens.

    `scores` are float32 [B, T, 2]; the loss is the weighted sum over the rows.
    """
    ops = keras.ops
    blocked = (1.0 - targets["allowed"])[:, :, None] * _NOT_HERE
    logs = ops.log_softmax(ops.cast(scores, "float32") + blocked, axis=1)  # [B, T, 2]
    chosen = ops.take_along_axis(logs, targets["places"][:, None, :], axis=1)[:, 0]  # [B, 2]
    return {"loss": -ops.sum(ops.mean(chosen, axis=-1) * targets["weights"])}
