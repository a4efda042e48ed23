"""Fine-tunes an encoder to answer questions, and keeps the epoch that answers best."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, choose_lengths, plan_training
from bertcnn.data.prefetch import prefetch
from bertcnn.errors import TrainingError
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import QuestionTrainingSettings
from bertcnn.tasks.question_answering.questions import Question
from bertcnn.tasks.question_answering.windows import Window
from bertcnn.training.optimizer import (
    BIASES_AND_NORMALISATION,
    LayerwiseAdamW,
    WarmupLinearDecay,
)
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Arrays, make_parts_step

logger = logging.getLogger(__name__)

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
            {"places": places, "allowed": allowed, "weights": weights / weights.sum()},
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


@dataclass(frozen=True)
class QuestionEpoch:
    """Figures of an epoch.

    Attributes:
        epoch: from 1.
        loss: mean in training.
        exact: share of the validation questions answered exactly, with the best threshold.
        f1: mean F1 there.
    """

    epoch: int
    loss: float
    exact: float
    f1: float


@dataclass
class _State:
    """How far a training is; all of it is in a savepoint."""

    epoch: int = 1
    losses: list[float] = field(default_factory=list)
    history: list[QuestionEpoch] = field(default_factory=list)
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        history = [asdict(one) for one in self.history]
        return {"epoch": self.epoch, "losses": self.losses, "history": history}, self.kept

    @classmethod
    def of_parts(cls, saved: Mapping[str, Any], kept: dict[str, np.ndarray]) -> _State:
        history = [QuestionEpoch(**one) for one in saved["history"]]
        return cls(saved["epoch"], list(saved["losses"]), history, kept)


def train_answers(
    model: keras.Model,
    train: LabelledWindows,
    settings: QuestionTrainingSettings,
    evaluate: Callable[[], tuple[float, float]],
    *,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
) -> Sequence[QuestionEpoch]:
    """Train `model` in place; it ends with the weights of the epoch with the best F1.

    Args:
        model: a `BertQuestionAnswering`.
        train: windows to learn from.
        settings: how.
        evaluate: gives exact match and F1 of the model as it is, on questions held out.
        seed: of the order of the windows.
        progress: called for every batch.
        savepoints: where the training is saved from time to time, and goes on from.

    Raises:
        TrainingError: the loss became infinite or NaN.
        OutputError: a savepoint cannot be written.
    """
    lengths = choose_lengths(train.lengths, settings.compiled_shapes)
    batch_size = min(settings.batch_size, len(train.windows))
    steps = math.ceil(len(train.windows) / batch_size)
    total = steps * settings.epochs
    optimizer = LayerwiseAdamW(
        WarmupLinearDecay(settings.learning_rate, int(total * settings.warmup_fraction), total),
        lambda _: 1.0,
        weight_decay=settings.weight_decay,
        clip_norm=settings.gradient_clip,
        not_decayed=BIASES_AND_NORMALISATION,
    )
    step = make_parts_step(model, optimizer, span_figures)
    state = _State()
    saved = None if savepoints is None else savepoints.restore(model, optimizer)
    progress.stage("training", total, "batches")
    if saved is not None:
        state = _State.of_parts(*saved)
        progress.note(f"resuming an interrupted training at epoch {state.epoch}")
        progress.advance(steps * (state.epoch - 1) + len(state.losses))
    while state.epoch <= settings.epochs:
        chance = np.random.default_rng([seed, state.epoch])
        plans = plan_training(train.lengths, lengths, batch_size, chance)
        shown = {"f1": state.history[-1].f1} if state.history else {}
        for inputs, targets in prefetch(_batches(train, plans[len(state.losses) :])):
            state.losses.append(_finite(step([(inputs, targets)])["loss"]))
            if savepoints is not None:
                done = steps * (state.epoch - 1) + len(state.losses)
                savepoints.offer(done, model, optimizer, state.parts)
            progress.advance(1, loss=float(np.mean(state.losses[-50:])), **shown)
        best = max((one.f1 for one in state.history), default=-1.0)
        figures = QuestionEpoch(state.epoch, float(np.mean(state.losses)), *evaluate())
        logger.info("%s", figures)
        state.history.append(figures)
        if figures.f1 > best:
            state.kept = extract(model.trainable_variables)
        state.epoch, state.losses = state.epoch + 1, []
    assign(model.trainable_variables, state.kept, error=TrainingError)
    return tuple(state.history)


def _batches(
    train: LabelledWindows, plans: Sequence[BatchPlan]
) -> Generator[tuple[Arrays, Arrays], None, None]:
    for plan in plans:
        yield train.batch(plan)


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss}",
            expected="a finite loss",
            fix="lower the learning rate and train again",
        )
    return float(loss)
