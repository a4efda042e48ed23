"""The training of a task: its epochs, the fine-tuning of an encoder, and models that write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import keras
import numpy as np

from bertcnn.data import BatchPlan, choose_lengths, plan_scoring
from bertcnn.errors import SettingsError
from bertcnn.settings import QuestionTrainingSettings, WriterTrainingSettings
from bertcnn.training import (
    BIASES_AND_NORMALISATION,
    Arrays,
    Batches,
    BestEpoch,
    EndsInTime,
    Epoch,
    LayerwiseAdamW,
    RunOptions,
    Trainer,
    WarmupInverseSquareRoot,
    WarmupLinearDecay,
    batch_parts,
    by_epochs,
    make_figures,
    shuffled,
)

TOKEN_BUDGET: Final = 4096  # per validation batch
_BETA_2 = 0.98  # Vaswani et al. 2017, section 5.3


class Examples(Protocol):
    """Training examples of a task."""

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [rows]."""

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; filler rows have weight 0."""


def epochs_of(
    train: Examples,
    settings: QuestionTrainingSettings | WriterTrainingSettings,
    padded_lengths: Sequence[int],
    seed: int,
) -> tuple[Batches, range]:
    """Shuffled batches, and the last step of each epoch."""
    rows = len(train.lengths)
    batch_size = min(settings.batch_size, rows)
    steps = math.ceil(rows / batch_size)
    batches = by_epochs(
        shuffled(train.lengths, padded_lengths, batch_size, seed),
        lambda plan: batch_parts(*train.batch(plan)),
    )
    return batches, range(steps, steps * settings.epochs + 1, steps)


def check_max_tokens(max_tokens: int, positions: int) -> None:
    """Raise SettingsError for windows that are longer than an encoder's positions."""
    if max_tokens > positions:
        raise SettingsError(
            f"max_tokens {max_tokens} and an encoder with {positions} positions",
            expected=f"at most {positions}",
            fix="give a smaller max_tokens, or another encoder",
        )


def fine_tune(
    model: keras.Model,
    train: Examples,
    figures: Callable[[Any, Mapping[str, Any]], dict[str, Any]],
    settings: QuestionTrainingSettings,
    options: RunOptions,
    evaluate: Callable[[], dict[str, float]],
) -> int:
    """Train an encoder with a linear layer in place; returns the epoch with the best F1.

    The weights of that epoch are kept (Devlin et al. 2019, appendix A.3).

    Args:
        model: the network.
        train: its training examples.
        figures: maps outputs and targets of a batch to the summed loss.
        settings: the schedule.
        options: progress, callbacks and savepoints.
        evaluate: returns `val_f1`, and more, on held-out examples.
    """
    lengths = choose_lengths(train.lengths, settings.compiled_shapes)
    batches, ends = epochs_of(train, settings, lengths, options.seed)
    steps, best = ends[-1], BestEpoch("val_f1")
    Trainer(
        model,
        LayerwiseAdamW(
            WarmupLinearDecay(settings.learning_rate, int(steps * settings.warmup_fraction), steps),
            lambda _: 1.0,
            weight_decay=settings.weight_decay,
            clip_norm=settings.gradient_clip,
            not_decayed=BIASES_AND_NORMALISATION,
        ),
        figures,
        batches,
        epoch_ends=ends,
        progress=options.progress,
        evaluate=evaluate,
        callbacks=[best, *options.callbacks],
        savepoints=options.savepoints,
        shown=("loss", "f1"),
    ).run()
    return best.kept


def next_token_figures(smoothing: float) -> Any:  # noqa: ANN401 - an `Objective`
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


def train_writer(
    model: keras.Model,
    train: Examples,
    valid: Examples,
    settings: WriterTrainingSettings,
    options: RunOptions,
) -> tuple[tuple[Epoch, ...], Epoch]:
    """Train a model that writes in place, and keep the epoch with the lowest validation loss.

    Returns all epochs and the one that was kept.
    """
    lengths = choose_lengths(
        np.concatenate([train.lengths, valid.lengths]), settings.compiled_shapes
    )
    batches, ends = epochs_of(train, settings, lengths, options.seed)
    measure = make_figures(model, next_token_figures(0.0))
    best = BestEpoch("val_loss", highest=False, patience=settings.patience)
    in_time = (
        []
        if options.deadline is None
        else [EndsInTime(options.deadline, len(lengths), whole=False)]
    )
    history = Trainer(
        model,
        LayerwiseAdamW(
            WarmupInverseSquareRoot(settings.learning_rate, settings.warmup_steps),
            lambda _: 1.0,
            weight_decay=settings.weight_decay,
            clip_norm=settings.gradient_clip,
            not_decayed=BIASES_AND_NORMALISATION,
            beta_2=_BETA_2,
        ),
        next_token_figures(settings.label_smoothing),
        batches,
        epoch_ends=ends,
        progress=options.progress,
        evaluate=lambda: _validated(measure, valid, lengths),
        callbacks=[best, *in_time, *options.callbacks],
        savepoints=options.savepoints,
        shown=("loss", "val_loss"),
    ).run()
    return history, history[best.kept - 1]


def _validated(measure: Any, valid: Examples, lengths: Sequence[int]) -> dict[str, float]:  # noqa: ANN401
    """Mean loss per token and token accuracy, without dropout or label smoothing."""
    loss, right, tokens = next_token_sums(measure, valid, lengths)
    return {"val_loss": loss / tokens, "val_accuracy": right / tokens}


def next_token_sums(
    measure: Any,  # noqa: ANN401 - made by `make_figures`
    examples: Examples,
    lengths: Sequence[int],
) -> tuple[float, float, float]:
    """Sums over examples, padded to `lengths`: loss, right tokens, and tokens."""
    sums = np.zeros(3)
    for plan in plan_scoring(examples.lengths, TOKEN_BUDGET, lengths):
        inputs, targets = examples.batch(plan)
        figures = measure(inputs, targets)
        sums += figures["loss"], figures["tokens_right"], targets["weights"].sum()
    loss, right, tokens = sums.tolist()
    return loss, right, tokens
