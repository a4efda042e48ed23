"""The training of a task: its epochs, the fine-tuning of an encoder, and models that write."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import keras
import numpy as np

from bertcnn.data import BatchPlan, choose_lengths, pad, plan_scoring
from bertcnn.errors import SettingsError
from bertcnn.inference import SpansModel
from bertcnn.models import Bert, extract
from bertcnn.settings import (
    EncoderSettings,
    QuestionTrainingSettings,
    Settings,
    WriterTrainingSettings,
)
from bertcnn.shapes import Shapes
from bertcnn.tasks.windows import Window
from bertcnn.training import (
    BIASES_AND_NORMALISATION,
    Arrays,
    Batches,
    BestEpoch,
    EndsInTime,
    Epoch,
    LayerwiseAdamW,
    RunOptions,
    Savepoints,
    Start,
    Trainer,
    WarmupInverseSquareRoot,
    WarmupLinearDecay,
    batch_parts,
    by_epochs,
    compute_policy,
    load_start,
    make_figures,
    on_used_pieces,
    put_back,
    renumbered,
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


def load_encoder(encoder: str, max_tokens: int, precision: Any, options: RunOptions) -> Start:  # noqa: ANN401 - of the settings
    """Load an encoder; raises SettingsError for texts that are longer than its positions."""
    start = load_start(
        encoder, max_tokens, seed=options.seed, progress=options.progress, precision=precision
    )
    positions = start.encoder.settings.max_positions
    if max_tokens > positions:
        raise SettingsError(
            f"max_tokens {max_tokens} and an encoder with {positions} positions",
            expected=f"at most {positions}",
            fix="give a smaller max_tokens, or another encoder",
        )
    return start


def with_savepoints(
    options: RunOptions, folder: Path | None, training: Settings, **identity: object
) -> RunOptions:
    """The options with savepoints in a folder, if given, of a training with this identity."""
    if folder is None:
        return options
    identity = {**identity, "training": training.model_dump(), "seed": options.seed}
    return replace(options, savepoints=Savepoints(folder, identity, options.progress))


def origin(training: Settings, options: RunOptions, *packages: str) -> dict[str, Any]:
    """The fields of `config.json` that say how a model was trained, and with which software."""
    versions = {name: version(name) for name in ("bertcnn", "keras", *packages)}
    return {"training": training, "seed": options.seed, "versions": versions}


def encoder_origin(start: Start) -> dict[str, Any]:
    """The fields of `config.json` that say which encoder a model has."""
    return {"encoder_name": start.name, "lowercase": start.tokenizer.settings.lowercase}


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


class KerasSpans:
    """The Keras model as a `SpansModel`: the reference for compiled ones."""

    name = "keras"

    def __init__(self, model: keras.Model, pad_id: int) -> None:
        self._model, self._pad_id = keras.Model(model.input, model.output), pad_id
        self._model.compile(jit_compile=False)

    def run(self, token_ids: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores float32 [T, scores] of each window, in order; ids are int32 [T]."""
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        outputs: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(token_ids)
        for plan in plan_scoring(lengths, TOKEN_BUDGET):
            inputs = pad(token_ids, plan, self._pad_id).inputs()
            scores = self._model.predict_on_batch(inputs)
            for row, row_scores in zip(plan.rows, scores, strict=True):
                outputs[row] = row_scores[: lengths[row]]
        return outputs


class Windowed(Protocol):
    """Examples that are read in windows: those to learn from, or the held-out ones."""

    @property
    def windows(self) -> Sequence[Window]:
        """All examples, in order."""

    def with_windows(self, windows: list[Window]) -> Self:
        """The same examples with other token ids."""

    def scores(self, model: SpansModel) -> list[Any]:
        """The model's output for each example."""

    def measured(self, model: SpansModel) -> dict[str, float]:
        """`val_f1`, and more, for `fine_tune`."""


Part = TypeVar("Part", bound=Windowed)


class FineTuned(NamedTuple):
    """A trained model, with the encoder's whole vocabulary, and its scores of held-out examples."""

    encoder: EncoderSettings
    tensors: dict[str, np.ndarray]
    scores: list[Any]
    kept_epoch: int


def fine_tune_windows(
    start: Start,
    parts: tuple[Part, Part],
    network: Callable[[Bert], keras.Model],
    examples: Callable[[Part, int], Examples],
    figures: Callable[[Any, Mapping[str, Any]], dict[str, Any]],
    shapes: Callable[[EncoderSettings], Shapes],
    training: QuestionTrainingSettings,
    options: RunOptions,
) -> FineTuned:
    """Train on the first part and keep the epoch with the best F1 on the second.

    Only embeddings of tokens that occur are trained.

    Args:
        start: the encoder.
        parts: examples to learn from, and held-out ones.
        network: makes the network on an encoder.
        examples: makes training examples of windows, for an id of padding.
        figures: as for `fine_tune`.
        shapes: maps an encoder to the network's weights.
        training: the schedule.
        options: progress, callbacks and savepoints.
    """
    pad_ids = np.array([start.tokenizer.pad_id])
    token_ids = [[window.token_ids for window in part.windows] for part in parts]
    small, used = on_used_pieces(
        start.encoder,
        [pad_ids, *token_ids[0], *token_ids[1]],
        training.dropout,
        dropout=training.dropout,
        policy=compute_policy(training.precision),
    )
    (small_pad,) = renumbered([pad_ids], used)[0].tolist()
    learned, held_out = (
        part.with_windows(
            [
                replace(window, token_ids=own)
                for window, own in zip(part.windows, renumbered(ids, used), strict=True)
            ]
        )
        for part, ids in zip(parts, token_ids, strict=True)
    )
    model = network(small)
    reference = KerasSpans(model, small_pad)
    kept = fine_tune(
        model,
        examples(learned, small_pad),
        figures,
        training,
        options,
        lambda: held_out.measured(reference),
    )
    scores = held_out.scores(reference)
    put_back(start.encoder, small, used)
    tokens = start.encoder.settings.vocabulary_size
    encoder = small.settings.model_copy(update={"vocabulary_size": tokens})
    tensors = {**extract(model.weights), **extract(start.encoder.weights)}
    return FineTuned(encoder, {name: tensors[name] for name in shapes(encoder)}, scores, kept)


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
