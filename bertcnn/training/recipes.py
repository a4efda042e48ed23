"""The recipes: `full` trains everything, `frozen` and `few-shot` the head on features computed once, `auto` chooses."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bertcnn.data.batches import BatchPlan, pad
from bertcnn.data.packing import PackedPlan, Packing, lay_out, places
from bertcnn.errors import TrainingError
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn, CnnHead
from bertcnn.models.forward import Forward, Inputs, padded_up_to
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import FEW_SHOT, FROZEN, FULL, HeadSettings, Recipe, TrainingSettings
from bertcnn.training.fit import Examples, FitResult, class_weights, fit, positive_weights
from bertcnn.training.probe import start_from_probe
from bertcnn.training.savepoints import Savepoints

_TOKENS = "embeddings/tokens"
_CPU_FLOPS = 1e11  # of training on one of today's laptops and two-core servers, measured
_GPU_FLOPS = 1e13
_PATIENCE_MINUTES = 15.0
_TRAINED, _COMPILED = 0.5, 6e12  # what of a bare product's speed training on real tokens has, and what compiling costs in its FLOPs
_PRODUCT, _TIMES = (1024, 384, 1536), 20  # the bare product, and how often it is timed: about a tenth of a second
FEW_ROWS_PER_LABEL = 20

Store = Callable[[np.ndarray, np.ndarray], None]  # is given rows int [b] and their token embeddings float32 [b, T, D]
Embed = Callable[[Sequence[np.ndarray], Store], None]  # is given rows of token ids, and stores each


@dataclass(frozen=True)
class TokenizedRows:
    """Labelled rows after tokenising.

    Attributes:
        token_ids: per row, int32 [T].
        labels: int [rows], 0 to C - 1; of a row with several labels its rarest.
        sets: bool [rows, C], which row has which label, if rows may have several; by default each has one.
    """

    token_ids: list[np.ndarray]
    labels: np.ndarray
    sets: np.ndarray | None = None

    def arrays(self) -> list[np.ndarray]:
        """All of it, as few arrays."""
        return [self.labels, self.lengths, np.concatenate(self.token_ids), *([] if self.sets is None else [self.sets])]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, int [rows]."""
        return np.fromiter(map(len, self.token_ids), np.int64, len(self.token_ids))


@dataclass(frozen=True)
class RecipeChoice:
    """Which recipe, and why."""

    recipe: Recipe
    reason: str


def on_gpu() -> bool:
    """Whether Keras computes on a GPU."""
    return any(device.startswith("gpu") for device in keras.distribution.list_devices())


def choose_recipe(encoder: Bert, tokens: int, rows: int, classes: int, settings: TrainingSettings = FULL) -> RecipeChoice:
    """`few-shot` where labels have few rows, else `full` where it can be expected to end soon, else `frozen`.

    How long it would take is reckoned with the usual speed of today's machines, so that the same rows always get the same recipe; only
    where `settings` have a time budget this machine is measured, as it is at this moment.

    Args:
        encoder: what would be trained.
        tokens: of all training rows together.
        rows: training rows.
        classes: labels.
        settings: of the recipe `full`.
    """
    weights = sum(int(np.prod(weight.shape)) for weight in encoder.weights if weight.path.startswith("layer_"))
    work = 6.0 * weights * tokens * settings.epochs
    budget = settings.time_budget
    device = "a GPU" if on_gpu() else "this CPU"
    if budget is None or on_gpu():
        seconds = work / (_GPU_FLOPS if on_gpu() else _CPU_FLOPS)
    else:
        speed = product_speed()
        seconds = (work / _TRAINED + _COMPILED) / speed
        device += f" ({speed / 1e9:.0f} GFLOP/s just now)"
    per_label = rows / classes
    cost = f"full fine-tuning would take about {max(1, round(seconds / 60))} min on {device}"
    if per_label < FEW_ROWS_PER_LABEL:
        return RecipeChoice("few-shot", f"{per_label:.0f} rows a label are few: the head alone is trained")
    if seconds > 60 * (budget or _PATIENCE_MINUTES):
        allowed = "" if budget is None else f", {budget:g} are allowed"
        return RecipeChoice("frozen", f"{cost}{allowed}; --recipe full does it all the same")
    return RecipeChoice("full", f"{per_label:.0f} rows a label are enough to train the encoder too, and {cost}")


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


def recipe_settings(recipe: Recipe, changes: dict[str, object]) -> TrainingSettings:
    """The recipe's defaults with `changes`; unknown names and impossible values are refused."""
    defaults = {"few-shot": FEW_SHOT, "frozen": FROZEN}.get(recipe, FULL)
    return TrainingSettings(**{**defaults.model_dump(), **changes})


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
    embed: Embed | None = None,
    savepoints: Savepoints | None = None,
    known: np.ndarray | None = None,
) -> tuple[BertCnn, FitResult]:
    """Train a classifier on `encoder`, which is changed by the recipe `full`.

    Args:
        encoder: what the classifier stands on.
        train_rows: rows to learn from.
        valid_rows: rows that choose the epoch whose weights are kept.
        head: shape of the CNN head.
        recipe: "full", "frozen" or "few-shot".
        settings: how.
        seed: of initial weights, dropout and order.
        progress: told how far it is.
        embed: computes the encoder's output where it is not trained; by default Keras does.
        savepoints: where the training is saved from time to time, and goes on from; by default it is not.
        known: int [K], training rows to be answered at the end where the encoder is not trained, since what that takes is at hand.

    Returns:
        The classifier with the weights of that epoch, and the story of its training.
    """
    classes = int(max(train_rows.labels.max(), valid_rows.labels.max())) + 1 if train_rows.sets is None else train_rows.sets.shape[1]
    cnn_head = CnnHead(encoder.settings.width, classes, head, seed=seed, name="head")
    parts = train_rows, valid_rows
    if recipe == "full":
        result = fit_everything(encoder, cnn_head, train_rows, valid_rows, settings, seed=seed, progress=progress, savepoints=savepoints)
    else:
        embed, probe = embed or keras_embed(encoder), recipe == "few-shot"
        result = _train_head(embed, cnn_head, parts, settings, seed, progress, savepoints, known, probe=probe)
    return BertCnn(encoder, cnn_head, name="classifier"), result


def on_used_pieces(
    encoder: Bert, token_ids: Sequence[np.ndarray], settings: TrainingSettings, *, packed: bool = False
) -> tuple[Bert, np.ndarray]:
    """The same encoder as it is trained: with token embeddings only for the pieces that occur.

    A token embedding that no row uses gets no gradient and no decay, so leaving it out of the network changes nothing but the
    time: of a table of 30,522 rows some thousands occur, and AdamW would read and write all the others in every step.

    Returns:
        The smaller encoder, and the ids of its pieces in the large one, ascending, int [pieces].
    """
    used = np.unique(np.concatenate([*token_ids, [0]]))
    changes = {"vocabulary_size": len(used), "attention_dropout": settings.attention_dropout}
    small = Bert(encoder.settings.model_copy(update=changes), packed=packed, seed=encoder.seed, name="bert")
    values = extract(encoder.weights)
    assign(small.weights, {**values, _TOKENS: values[_TOKENS][used]}, error=TrainingError)
    return small, used


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
    packing, learning = _packed(head, train.lengths, valid.lengths, settings)

    def examples(rows: TokenizedRows) -> Examples:
        token_ids = [np.searchsorted(used, ids).astype(np.int32) for ids in rows.token_ids]

        def collate(plan: BatchPlan | PackedPlan) -> Inputs:
            return lay_out(token_ids, plan) if isinstance(plan, PackedPlan) else pad(token_ids, plan).inputs()

        return Examples(collate, rows.lengths, rows.labels, packing, rows.sets)

    model, layers = BertCnn(small, learning, name="classifier"), encoder.settings.layers
    result = fit(model, examples(train), examples(valid), settings, layers=layers, seed=seed, progress=progress, **kept)
    assign(head.weights, extract(learning.weights), error=TrainingError)
    trained, tokens = extract(small.weights), extract(encoder.weights)[_TOKENS]
    tokens[used] = trained[_TOKENS]
    assign(encoder.weights, {**trained, _TOKENS: tokens}, error=TrainingError)
    return result


def fit_head(
    head: CnnHead,
    train: Examples,
    valid: Examples,
    settings: TrainingSettings,
    *,
    seed: int,
    progress: Progress,
    **kept: Any,  # noqa: ANN401
) -> FitResult:
    """Train a head on token embeddings from `Features.collate`, as the recipe `frozen` does; `kept` is for `fit`."""
    packing, learning = _packed(head, train.lengths, valid.lengths, settings)
    result = fit(learning, replace(train, packing=packing), valid, settings, layers=0, seed=seed, progress=progress, **kept)
    assign(head.weights, extract(learning.weights), error=TrainingError)
    return result


def _packed(head: CnnHead, lengths: np.ndarray, others: np.ndarray, settings: TrainingSettings) -> tuple[Packing | None, CnnHead]:
    """How texts of these lengths share rows, and the head for such rows with the weights of `head`; None and `head` if they do not."""
    if not settings.packed:
        return None, head
    packing = Packing(lengths, settings.batch_size, int(others.max()))
    return packing, head.of_documents(packing.documents)


def _train_head(  # noqa: PLR0913 - what a training is made of
    embed: Embed,
    head: CnnHead,
    parts: tuple[TokenizedRows, TokenizedRows],
    settings: TrainingSettings,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None,
    known: np.ndarray | None,
    *,
    probe: bool,
) -> FitResult:
    """Compute every token's embedding once, then train the head on them, from a linear probe or from nothing."""
    with tempfile.TemporaryDirectory(prefix="bertcnn-features-") as folder:
        progress.stage("computing encoder features", sum(len(part.labels) for part in parts))

        features = [
            Features(embed, head.width, rows.token_ids, Path(folder) / name, progress)
            for name, rows in zip(("train", "valid"), parts, strict=True)
        ]
        train_part, valid_part = (
            Examples(part.collate, rows.lengths, rows.labels, sets=rows.sets) for part, rows in zip(features, parts, strict=True)
        )
        if probe:
            means = features[0].means(np.arange(len(parts[0].labels)))
            start_from_probe(head, means, *_weighted(parts[0], head.classes, settings))
        result = fit_head(head, train_part, valid_part, settings, seed=seed, progress=progress, savepoints=savepoints)
        if known is None:
            return result
        logits = Forward(head, result.padded_lengths).rows(features[0].of(known).collate, parts[0].lengths[known])
        return replace(result, known=(logits, features[0].means(known)))


def _weighted(rows: TokenizedRows, classes: int, settings: TrainingSettings) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and what each counts, as `start_from_probe` takes them."""
    if rows.sets is None:
        return rows.labels, class_weights(rows.labels, classes, settings.class_weight)[rows.labels]
    return rows.sets, np.where(rows.sets, positive_weights(rows.sets, settings.class_weight), np.float32(1))


def keras_embed(encoder: Bert) -> Embed:
    """The encoder's output, computed by Keras."""

    def embed(token_ids: Sequence[np.ndarray], store: Store) -> None:
        forward = Forward(keras.Model(encoder.input, encoder.sequence_output), padded_up_to(encoder.settings.max_positions))
        for plan in forward.plan(np.fromiter(map(len, token_ids), np.int64, len(token_ids))):
            store(plan.rows, forward(pad(token_ids, plan).inputs()))

    return embed


class Features:
    """The encoder's token embeddings of every row, kept on disk in half precision.

    Args:
        embed: computes them, once, here.
        width: D.
        token_ids: per row, int32 [T].
        path: a new file for them; 2 bytes x D a token.
        progress: told of every batch.
    """

    def __init__(self, embed: Embed, width: int, token_ids: Sequence[np.ndarray], path: Path, progress: Progress) -> None:
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        self._width = width
        self._values = np.memmap(path, np.float16, "w+", shape=(int(self._ends[-1]), self._width))

        def store(rows: np.ndarray, hidden: np.ndarray) -> None:
            for place, row in enumerate(rows):
                self._values[self._starts[row] : self._ends[row]] = hidden[place, : lengths[row]]
            progress.advance(len(rows))

        embed(token_ids, store)

    def of(self, rows: np.ndarray) -> Features:
        """Those of some of the rows, int [rows], as if they were all."""
        part = copy(self)
        part._starts, part._ends = self._starts[rows], self._ends[rows]
        return part

    def means(self, rows: np.ndarray) -> np.ndarray:
        """Each row's mean token embedding, float32 [rows, D]."""
        return np.stack([self._values[self._starts[row] : self._ends[row]].mean(axis=0, dtype=np.float32) for row in rows])

    def collate(self, plan: BatchPlan | PackedPlan) -> Inputs:
        """The head's input for a planned batch; filler rows are zeros, with one token if they are not packed."""
        if isinstance(plan, PackedPlan):
            return self._lay_out(plan)
        hidden = np.zeros((plan.size, plan.length, self._width), np.float32)
        mask = np.zeros((plan.size, plan.length), np.int32)
        for place, row in enumerate(plan.rows):
            values = self._values[self._starts[row] : self._ends[row]]
            hidden[place, : len(values)] = values
            mask[place, : len(values)] = 1
        mask[len(plan.rows) :, 0] = 1
        return {"sequence_output": hidden, "padding_mask": mask}

    def _lay_out(self, plan: PackedPlan) -> Inputs:
        hidden = np.zeros((len(plan.slots), plan.length, self._width), np.float32)
        document_ids = np.zeros(hidden.shape[:2], np.int32)
        for text, row, number, where in places(plan, self._ends - self._starts):
            hidden[row, where], document_ids[row, where] = self._values[self._starts[text] : self._ends[text]], number
        return {"sequence_output": hidden, "document_ids": document_ids}
