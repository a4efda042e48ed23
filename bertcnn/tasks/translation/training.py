"""Trains a translator: teacher forcing, label smoothing, and the epoch that validates best."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, choose_lengths, plan_scoring, plan_training
from bertcnn.data.prefetch import prefetch
from bertcnn.errors import TrainingError
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import TranslationTrainingSettings
from bertcnn.training.optimizer import (
    BIASES_AND_NORMALISATION,
    LayerwiseAdamW,
    WarmupInverseSquareRoot,
)
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import Arrays, make_figures, make_parts_step

logger = logging.getLogger(__name__)

_BETA_2 = 0.98  # Vaswani et al. 2017, section 5.3
_TOKEN_BUDGET = 4096  # of a validation batch


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids.

    Attributes:
        sources: per pair int32 [S], with the end token.
        targets: per pair int32 [T], with the end token.
        start_id: what a target is written behind.
        pad_id: padding.
    """

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    start_id: int
    pad_id: int

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def lengths(self) -> np.ndarray:
        """The longer of both sides, int [pairs]."""
        return np.array([max(map(len, pair)) for pair in zip(self.sources, self.targets)])  # noqa: B905

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch.

        Targets are shifted right behind the start token in the inputs; padding and filler rows have
        the weight 0.
        """
        shape = (plan.size, plan.length)
        source, target = (np.full(shape, self.pad_id, np.int32) for _ in range(2))
        for slot, row in enumerate(plan.rows):
            source[slot, : len(self.sources[row])] = self.sources[row]
            target[slot, : len(self.targets[row])] = self.targets[row]
        given = np.concatenate([np.full((plan.size, 1), self.start_id, np.int32), target], axis=1)
        weights = (target != self.pad_id).astype(np.float32)
        return (
            {"source_ids": source, "target_ids": given[:, :-1]},
            {"target_ids": target, "weights": weights},
        )


def translation_figures(smoothing: float) -> Any:  # noqa: ANN401 - an `Objective`
    """A function of logits [B, T, V] and targets to the weighted sums of loss and right tokens.

    The loss is the cross-entropy with label smoothing (Szegedy et al. 2016, section 7).
    """

    def figures(logits: Any, targets: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        ops, true, weights = keras.ops, targets["target_ids"], targets["weights"]
        logs = ops.log_softmax(logits, axis=-1)
        likely = ops.take_along_axis(logs, true[..., None], axis=-1)[..., 0]  # [B, T]
        losses = -(1.0 - smoothing) * likely - smoothing * ops.mean(logs, axis=-1)
        right = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), true)
        return {
            "loss": ops.sum(losses * weights),
            "tokens_right": ops.sum(ops.cast(right, "float32") * weights),
        }

    return figures


@dataclass(frozen=True)
class TranslationEpoch:
    """Figures of an epoch.

    Attributes:
        epoch: from 1.
        loss: mean a token in training, smoothed.
        valid_loss: the same on the validation pairs, without dropout or smoothing.
        valid_accuracy: share of their tokens predicted right, the true ones before them given.
    """

    epoch: int
    loss: float
    valid_loss: float
    valid_accuracy: float


@dataclass
class _State:
    """How far a training is; all of it is in a savepoint."""

    epoch: int = 1
    losses: list[float] = field(default_factory=list)  # of this epoch's batches
    history: list[TranslationEpoch] = field(default_factory=list)
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As JSON and tensors."""
        history = [asdict(one) for one in self.history]
        return {"epoch": self.epoch, "losses": self.losses, "history": history}, self.kept

    @classmethod
    def of_parts(cls, saved: Mapping[str, Any], kept: dict[str, np.ndarray]) -> _State:
        """What `parts` gave."""
        history = [TranslationEpoch(**one) for one in saved["history"]]
        return cls(saved["epoch"], list(saved["losses"]), history, kept)

    @property
    def best(self) -> TranslationEpoch | None:
        """The epoch with the lowest loss on the validation pairs, the first of several."""
        return min(self.history, key=lambda one: one.valid_loss, default=None)


def train_translator(
    model: keras.Model,
    train: EncodedPairs,
    valid: EncodedPairs,
    settings: TranslationTrainingSettings,
    *,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
) -> Sequence[TranslationEpoch]:
    """Train `model` in place; it ends with the weights of the epoch that validates best.

    Args:
        model: a `Transformer` or a `RecurrentTranslator`.
        train: pairs to learn from.
        valid: pairs that choose the epoch.
        settings: how.
        seed: of the order of the pairs.
        progress: called for every batch.
        savepoints: where the training is saved from time to time, and goes on from.

    Raises:
        TrainingError: the loss became infinite or NaN.
        OutputError: a savepoint cannot be written.
    """
    lengths = choose_lengths(
        np.concatenate([train.lengths, valid.lengths]), settings.compiled_shapes
    )
    batch_size = min(settings.batch_size, len(train))
    optimizer = LayerwiseAdamW(
        WarmupInverseSquareRoot(settings.learning_rate, settings.warmup_steps),
        lambda _: 1.0,
        weight_decay=0.0,
        clip_norm=settings.gradient_clip,
        not_decayed=BIASES_AND_NORMALISATION,
        beta_2=_BETA_2,
    )
    step = make_parts_step(model, optimizer, translation_figures(settings.label_smoothing))
    measure = make_figures(model, translation_figures(0.0))
    steps = math.ceil(len(train) / batch_size)
    state = _State()
    saved = None if savepoints is None else savepoints.restore(model, optimizer)
    progress.stage("training", steps * settings.epochs, "batches")
    if saved is not None:
        state = _State.of_parts(*saved)
        done = steps * (state.epoch - 1) + len(state.losses)
        progress.note(f"resuming an interrupted training at epoch {state.epoch}")
        progress.advance(done)

    def is_over() -> bool:
        best = state.best
        waited = 0 if best is None else state.epoch - 1 - best.epoch
        return state.epoch > settings.epochs or (
            settings.patience is not None and waited >= settings.patience
        )

    while not is_over():
        chance = np.random.default_rng([seed, state.epoch])
        plans = plan_training(train.lengths, lengths, batch_size, chance)
        shown = {"valid_loss": state.history[-1].valid_loss} if state.history else {}
        for inputs, targets in prefetch(_batches(train, plans[len(state.losses) :])):
            total = max(1.0, float(targets["weights"].sum()))
            targets = {**targets, "weights": targets["weights"] / np.float32(total)}
            state.losses.append(_finite(step([(inputs, targets)])["loss"]))
            if savepoints is not None:
                done = steps * (state.epoch - 1) + len(state.losses)
                savepoints.offer(done, model, optimizer, state.parts)
            progress.advance(1, loss=float(np.mean(state.losses[-50:])), **shown)
        figures = TranslationEpoch(
            state.epoch, float(np.mean(state.losses)), *_measured(measure, valid, lengths)
        )
        logger.info("%s", figures)
        state.history.append(figures)
        if state.best is figures:
            state.kept = extract(model.trainable_variables)
        state.epoch, state.losses = state.epoch + 1, []
    assign(model.trainable_variables, state.kept, error=TrainingError)
    return tuple(state.history)


def _batches(
    pairs: EncodedPairs, plans: Sequence[BatchPlan]
) -> Generator[tuple[Arrays, Arrays], None, None]:
    for plan in plans:
        yield pairs.batch(plan)


def _measured(measure: Any, pairs: EncodedPairs, lengths: Sequence[int]) -> tuple[float, float]:  # noqa: ANN401
    """Loss and share of right predictions a token."""
    sums = np.zeros(3)
    for plan in plan_scoring(pairs.lengths, _TOKEN_BUDGET, lengths):
        inputs, targets = pairs.batch(plan)
        figures = measure(inputs, targets)
        sums += figures["loss"], figures["tokens_right"], targets["weights"].sum()
    return _finite(sums[0] / sums[2]), float(sums[1] / sums[2])


def _finite(loss: float) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss}",
            expected="a finite loss",
            fix="lower the learning rate and train again",
        )
    return float(loss)
