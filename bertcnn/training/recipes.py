"""The recipes: `full` trains everything, `frozen` the head alone, `few-shot` makes the most of few rows, `auto` chooses."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, pad
from bertcnn.data.packing import PackedPlan, lay_out
from bertcnn.errors import TrainingError
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn, CnnHead
from bertcnn.models.forward import Inputs
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import FEW_SHOT, FROZEN, FROZEN_SEVERAL, FULL, HeadSettings, Recipe, TrainingSettings
from bertcnn.training.features import Embed, TokenizedRows, keras_embed
from bertcnn.training.few_shot import train_few_shot
from bertcnn.training.fit import Examples, Fit, FitResult
from bertcnn.training.head import packed_head, train_head
from bertcnn.training.pieces import on_used_pieces, put_back, renumbered
from bertcnn.training.savepoints import Savepoints

_CPU_FLOPS = 1e11  # of training on one of today's laptops and two-core servers, measured
_GPU_FLOPS = 1e13
_PATIENCE_MINUTES = 15.0
_TRAINED, _COMPILED = 0.5, 6e12  # what of a bare product's speed training on real tokens has, and what compiling costs in its FLOPs
_PRODUCT, _TIMES = (1024, 384, 1536), 20  # the bare product, and how often it is timed: about a tenth of a second
FEW_ROWS_PER_LABEL = 20
_STEPS_PER_LABEL = 5  # of all labels together, fewer of which teach an encoder no better than none


@dataclass(frozen=True)
class _Way:
    """How `full` can be done: as often, for so many epochs, and once more on all rows or not."""

    trainings: int
    epochs: int
    refit: bool


@dataclass(frozen=True)
class RecipeChoice:
    """Which recipe, why, and what of its settings changes for lack of time: trainings, epochs, or one more training on all rows."""

    recipe: Recipe
    reason: str
    changes: dict[str, Any] = field(default_factory=dict)


def on_gpu() -> bool:
    """Whether Keras computes on a GPU."""
    return any(device.startswith("gpu") for device in keras.distribution.list_devices())


def choose_recipe(
    encoder: Bert, tokens: int, rows: int, classes: int, settings: TrainingSettings = FULL, *, fewest_epochs: int | None = None
) -> RecipeChoice:
    """`few-shot` where labels have few rows, else `full` where it can be expected to end soon, else `frozen`.

    Where `full` as it is by default would not end soon, it takes fewer trainings, then fewer epochs, as long as these are steps enough for
    the labels: even then it is better than `frozen`, or as good (benchmarks/README.md, "Which recipe").

    How long it would take is reckoned with the usual speed of today's machines, so that the same rows always get the same recipe; only
    where `settings` have a time budget this machine is measured, as it is at this moment.

    Args:
        encoder: what would be trained.
        tokens: of all training rows together.
        rows: training rows.
        classes: labels.
        settings: of the recipe `full`.
        fewest_epochs: that `full` may be cut down to; by default as many as the labels need.
    """
    weights = sum(int(np.prod(weight.shape)) for weight in encoder.weights if weight.path.startswith("layer_"))
    work = 6.0 * weights * tokens * settings.epochs
    budget = settings.time_budget
    device = "a GPU" if on_gpu() else "this CPU"
    if budget is None or on_gpu():
        compiling, seconds = 0.0, work / (_GPU_FLOPS if on_gpu() else _CPU_FLOPS)
    else:
        speed = product_speed()
        compiling, seconds = _COMPILED / speed, work / _TRAINED / speed
        device += f" ({speed / 1e9:.0f} GFLOP/s just now)"
    needed = math.ceil(_STEPS_PER_LABEL * classes * settings.batch_size / rows)
    return _chosen(rows / classes, seconds, device, settings, min(settings.epochs, fewest_epochs or needed), compiling)


def _chosen(
    per_label: float, seconds: float, device: str, settings: TrainingSettings, fewest_epochs: int, compiling: float = 0.0
) -> RecipeChoice:
    """The recipe for so many rows a label, where all epochs of one training take so many seconds on that device, and compiling so many."""
    if per_label < FEW_ROWS_PER_LABEL:
        return RecipeChoice(
            "few-shot", f"{per_label:.0f} rows a label are few: all they tell is learned, names of labels too where they help"
        )
    budget, epochs = settings.time_budget, settings.epochs
    refits = [True, False] if settings.refit and budget else [settings.refit]  # without a budget it is done as asked
    ways = [_Way(trainings, epochs, refit) for refit in refits for trainings in range(settings.trainings, 0, -1)]
    ways += [_Way(1, fewer, refits[-1]) for fewer in range(epochs - 1, fewest_epochs - 1, -1)]

    def minutes(way: _Way, *, with_refit: bool = True) -> float:
        return way.trainings * (2 if way.refit and with_refit else 1) * (compiling + seconds * way.epochs / epochs) / 60

    def fits(way: _Way) -> bool:
        return minutes(way, with_refit=budget is not None) <= (budget or _PATIENCE_MINUTES)

    def cost(way: _Way) -> str:
        return f"about {max(1, round(minutes(way)))} min"

    way = next(filter(fits, ways), None)
    if way is None:
        least = "" if cost(ways[-1]) == cost(ways[0]) else f", {cost(ways[-1])} at the least"
        allowed = "" if budget is None else f", {budget:g} are allowed"
        reason = f"full fine-tuning would take {cost(ways[0])} on {device}{least}{allowed}; --recipe full does it all the same"
        return RecipeChoice("frozen", reason)
    less = [
        f"{taken} {name}{'s' * (taken > 1)} instead of {usual}"
        for name, taken, usual in (("training", way.trainings, settings.trainings), ("epoch", way.epochs, epochs))
        if taken < usual
    ]
    reason = ", ".join([f"full fine-tuning would take {cost(way)} on {device}", *less])
    if settings.refit:
        reason += (
            ", the second time on all rows included" if way.refit else f"; of {budget:g} that leaves none to train once more on all rows"
        )
    return RecipeChoice(
        "full",
        f"{per_label:.0f} rows a label are enough to train the encoder too, and {reason}",
        {name: value for name, value in asdict(way).items() if value != getattr(settings, name)},
    )


def product_speed() -> float:
    """FLOP/s of a matrix product as BERT's are, on the CPU, now: the middle one of several."""
    rows, inner, columns = _PRODUCT
    left, right = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    seconds = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - started)
    return 2.0 * rows * inner * columns / statistics.median(seconds)


def recipe_settings(recipe: Recipe, changes: dict[str, object], *, several: bool = False) -> TrainingSettings:
    """The recipe's defaults, where rows may have several labels if so, with `changes`; unknown names and impossible values are refused.

    Epochs that are asked for hold as they are, also on a small file.
    """
    defaults = {"few-shot": FEW_SHOT, "frozen": FROZEN_SEVERAL if several else FROZEN}.get(recipe, FULL)
    as_asked = {"fewest_steps": 0} if "epochs" in changes else {}
    return TrainingSettings(**{**defaults.model_dump(), **as_asked, **changes})


def train(  # noqa: PLR0913 - what a training is made of
    encoder: Bert,
    train_rows: TokenizedRows,
    valid_rows: TokenizedRows,
    head: HeadSettings,
    recipe: Recipe,
    settings: TrainingSettings,
    *,
    seed: int,
    progress: Progress,
    embed_with: Callable[[Bert], Embed] = keras_embed,
    savepoints: Savepoints | None = None,
    known: np.ndarray | None = None,
    label_names: Sequence[np.ndarray] | None = None,
    refit: bool = False,
    like: FitResult | None = None,
) -> tuple[BertCnn, FitResult]:
    """Train a classifier on `encoder`, which is changed by the recipes `full` and `few-shot`.

    Args:
        encoder: what the classifier stands on.
        train_rows: rows to learn from.
        valid_rows: rows that choose the epoch whose weights are kept.
        head: shape of the CNN head.
        recipe: "full", "frozen" or "few-shot".
        settings: how.
        seed: of initial weights, dropout and order.
        progress: told how far it is.
        embed_with: makes what computes an encoder's output where only the head is trained; by default Keras computes it.
        savepoints: where the training is saved from time to time, and goes on from; by default it is not.
        known: int [K], training rows to be answered at the end, except by `full`, since what that takes is at hand.
        label_names: token ids of each label's name, for `few-shot`.
        refit: whether to learn from `valid_rows` too in the end, when they have told all they can; only where `full` does not train the
            encoder, as `bertcnn.refit` does it there.
        like: a result on fewer rows, to be repeated, for `full`; by default `valid_rows` choose.

    Returns:
        The classifier with the weights of that epoch, and the story of its training.
    """
    classes = int(max(train_rows.labels.max(), valid_rows.labels.max())) + 1 if train_rows.sets is None else train_rows.sets.shape[1]
    cnn_head = CnnHead(encoder.settings.width, classes, head, seed=seed, name="head")
    given = train_rows, valid_rows, settings
    common: dict[str, Any] = {"seed": seed, "progress": progress, "savepoints": savepoints}
    if recipe == "full":
        result = fit_everything(encoder, cnn_head, *given, like=like, **common)
    elif recipe == "frozen":
        result = train_head(embed_with(encoder), cnn_head, *given, known=known, refit=refit, **common)
    else:
        few = partial(train_few_shot, encoder, cnn_head, embed_with=embed_with, label_names=label_names)
        result = few(*given, known=known, refit=refit, **common)
    return BertCnn(encoder, cnn_head, name="classifier"), result


def fit_everything(
    encoder: Bert,
    head: CnnHead,
    train: TokenizedRows,
    valid: TokenizedRows,
    settings: TrainingSettings,
    *,
    seed: int,
    progress: Progress,
    **kept: Any,  # noqa: ANN401
) -> FitResult:
    """Train encoder and head, on the pieces that occur, as the recipe `full` does; both end with the trained weights."""
    small, used = on_used_pieces(encoder, [*train.token_ids, *valid.token_ids], settings, packed=settings.packed)
    packing, learning = packed_head(head, train.lengths, valid.lengths, settings)

    def examples(rows: TokenizedRows) -> Examples:
        token_ids = renumbered(rows.token_ids, used)

        def collate(plan: BatchPlan | PackedPlan) -> Inputs:
            return lay_out(token_ids, plan) if isinstance(plan, PackedPlan) else pad(token_ids, plan).inputs()

        return Examples(collate, rows.lengths, rows.labels, packing, rows.sets)

    model, layers = BertCnn(small, learning, name="classifier"), encoder.settings.layers
    result = Fit(model, examples(train), examples(valid), settings, layers=layers, seed=seed, progress=progress, **kept).run()
    assign(head.weights, extract(learning.weights), error=TrainingError)
    put_back(encoder, small, used)
    return result
