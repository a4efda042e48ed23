"""Fine-tunes an encoder to answer questions, and keeps the epoch that answers best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, choose_lengths
from bertcnn.progress import Progress
from bertcnn.settings import QuestionTrainingSettings
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.windows import Window
from bertcnn.training.callbacks import BestEpoch
from bertcnn.training.optimizer import (
    BIASES_AND_NORMALISATION,
    LayerwiseAdamW,
    WarmupLinearDecay,
)
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Arrays, batch_parts
from bertcnn.training.trainer import Trainer, by_epochs, shuffled

_NOT_HERE = -1e9  # added to the scores of tokens that no answer has
_CLASSIFY = 0  # the place of [CLS], which stands for "no answer"


@dataclass(frozen=True)
class LabelledWindows:
    """Windows, and where the answer is in each.

    Attributes:
        windows: to learn from.
        places: int32 [windows, 2], the answer's first and last token; 0 and 0, [CLS], where it is
            not in the window.
        pad_id: padding.
    """

    windows: Sequence[Window]
    places: np.ndarray
    pad_id: int

    @classmethod
    def of(
        cls, windows: Sequence[Window], questions: Sequence[Question], pad_id: int
    ) -> LabelledWindows:
        """The windows of these questions; of several answers, the first one that is in a window."""
        places = np.full((len(windows), 2), _CLASSIFY, np.int32)
        for row, window in enumerate(windows):
            question = questions[window.row]
            for start, answer in zip(question.starts, question.answers, strict=True):
                found = window.tokens_of(start, start + len(answer))
                if found is not None:
                    places[row] = found
                    break
        return cls(windows, places, pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each, int [windows]."""
        return np.array([len(window.token_ids) for window in self.windows])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; filler rows have the weight 0."""
        shape = (plan.size, plan.length)
        tokens = np.full(shape, self.pad_id, np.int32)
        segments, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        allowed = np.zeros(shape, np.float32)
        mask[:, 0] = allowed[:, _CLASSIFY] = 1
        for slot, row in enumerate(plan.rows):
            window = self.windows[row]
            length = len(window.token_ids)
            tokens[slot, :length], segments[slot, :length] = window.token_ids, window.segment_ids
            mask[slot, :length] = 1
            allowed[slot, window.first : window.first + len(window.spans)] = 1
        places = np.zeros((plan.size, 2), np.int32)
        places[: len(plan.rows)] = self.places[plan.rows]
        weights = (np.arange(plan.size) < len(plan.rows)).astype(np.float32)
        return (
            {"token_ids": tokens, "segment_ids": segments, "padding_mask": mask},
            {"places": places, "allowed": allowed, "weights": weights},
        )


def span_figures(scores: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """The mean of both cross-entropies, of start and end among [CLS] and the context's tokens.

    Args:
        scores: float32 [B, T, 2].
        targets: `places` int32 [B, 2], `allowed` float32 [B, T], `weights` float32 [B].

    Returns:
        `loss`, the weighted sum over the rows.
    """
    ops = keras.ops
    blocked = (1.0 - targets["allowed"])[:, :, None] * _NOT_HERE
    logs = ops.log_softmax(ops.cast(scores, "float32") + blocked, axis=1)  # [B, T, 2]
    chosen = ops.take_along_axis(logs, targets["places"][:, None, :], axis=1)[:, 0]  # [B, 2]
    return {"loss": -ops.sum(ops.mean(chosen, axis=-1) * targets["weights"])}


def train_answers(
    model: keras.Model,
    train: LabelledWindows,
    settings: QuestionTrainingSettings,
    evaluate: Callable[[], dict[str, float]],
    *,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> int:
    """Train `model` in place; it ends with the weights of the epoch with the best F1.

    Args:
        model: a `BertQuestionAnswering`.
        train: windows to learn from.
        settings: how.
        evaluate: gives `val_exact` and `val_f1` of the model as it is, on questions held out.
        seed: of the order of the windows.
        progress: called for every batch.
        savepoints: where the training is saved from time to time, and goes on from.
        callbacks: of Keras.

    Returns:
        The epoch that was kept, from 1.

    Raises:
        TrainingError: a loss or a gradient became infinite or NaN.
        OutputError: a savepoint cannot be written.
    """
    lengths = choose_lengths(train.lengths, settings.compiled_shapes)
    batch_size = min(settings.batch_size, len(train.windows))
    steps = math.ceil(len(train.windows) / batch_size)
    total = steps * settings.epochs
    best = BestEpoch("val_f1")
    Trainer(
        model,
        LayerwiseAdamW(
            WarmupLinearDecay(settings.learning_rate, int(total * settings.warmup_fraction), total),
            lambda _: 1.0,
            weight_decay=settings.weight_decay,
            clip_norm=settings.gradient_clip,
            not_decayed=BIASES_AND_NORMALISATION,
        ),
        span_figures,
        by_epochs(
            shuffled(train.lengths, lengths, batch_size, seed),
            lambda plan: batch_parts(*train.batch(plan)),
        ),
        epoch_ends=range(steps, total + 1, steps),
        progress=progress,
        evaluate=evaluate,
        callbacks=[best, *callbacks],
        savepoints=savepoints,
        shown=("loss", "f1"),
    ).run()
    return best.kept
