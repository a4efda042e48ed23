"""The recipes: `full` trains everything, `frozen` the head, `few-shot` for few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertcnn.data.batches import BatchPlan, pad
from bertcnn.data.packing import PackedPlan, lay_out
from bertcnn.errors import TrainingError
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn, CnnHead
from bertcnn.models.forward import Inputs
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import (
    FEW_SHOT,
    FROZEN,
    FROZEN_MULTI_LABEL,
    FULL,
    HeadSettings,
    Recipe,
    TrainingSettings,
)
from bertcnn.training.features import Embed, TokenizedRows, keras_embed
from bertcnn.training.few_shot import train_few_shot
from bertcnn.training.fit import Examples, FitResult, Trainer
from bertcnn.training.head import packed_head, train_head
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.vocabulary_pruning import on_used_pieces, put_back, renumbered


def recipe_settings(
    recipe: Recipe, changes: dict[str, object], *, multi_label: bool = False
) -> TrainingSettings:
    """The recipe's defaults, where rows may have several labels if so, with `changes`.

    Unknown names and impossible values are refused.
    Epochs that are asked for hold as they are, also on a small file.
    """
    defaults = {"few-shot": FEW_SHOT, "frozen": FROZEN_MULTI_LABEL if multi_label else FROZEN}.get(
        recipe, FULL
    )
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
    unlabelled: Sequence[np.ndarray] = (),
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
        embed_with: makes what computes an encoder's output where only the head is trained; by
            default Keras computes it.
        savepoints: where the training is saved from time to time, and goes on from; by default it
            is not.
        known: int [K], training rows to be answered at the end, except by `full`, since what that
            takes is at hand.
        label_names: token ids of each label's name, for `few-shot`.
        unlabelled: token ids of rows without a label, likewise.
        refit: whether to learn from `valid_rows` too in the end, when they have told all they can;
            only where `full` does not train the encoder, as `bertcnn.training.refit` does it there.
        like: a result on fewer rows, to be repeated, for `full`; by default `valid_rows` choose.

    Returns:
        The classifier with the weights of that epoch, and the story of its training.
    """
    classes = (
        int(max(train_rows.labels.max(), valid_rows.labels.max())) + 1
        if train_rows.multi_hot is None
        else train_rows.multi_hot.shape[1]
    )
    cnn_head = CnnHead(encoder.settings.width, classes, head, seed=seed, name="head")
    given = cnn_head, train_rows, valid_rows, settings
    common: dict[str, Any] = {"seed": seed, "progress": progress, "savepoints": savepoints}
    if recipe == "full":
        result = fit_everything(encoder, *given, like=like, **common)
    elif recipe == "frozen":
        result = train_head(embed_with(encoder), *given, known=known, refit=refit, **common)
    else:
        common |= {
            "label_names": label_names,
            "unlabelled": unlabelled,
            "known": known,
            "refit": refit,
        }
        result = train_few_shot(encoder, *given, embed_with=embed_with, **common)
    return BertCnn(encoder, cnn_head, name="classifier"), result


def fit_everything(  # noqa: PLR0913 - what a training is made of
    encoder: Bert,
    head: CnnHead,
    train: TokenizedRows,
    valid: TokenizedRows,
    settings: TrainingSettings,
    *,
    seed: int,
    progress: Progress,
    savepoints: Savepoints | None = None,
    like: FitResult | None = None,
) -> FitResult:
    """Train encoder and head, on the pieces that occur, as the recipe `full` does.

    Both end with the trained weights; see `Trainer`.
    """
    small, used = on_used_pieces(
        encoder, [*train.token_ids, *valid.token_ids], settings, packed=settings.packed
    )
    packing, learning = packed_head(head, train.lengths, valid.lengths, settings)

    def examples(rows: TokenizedRows) -> Examples:
        token_ids = renumbered(rows.token_ids, used)

        def collate(plan: BatchPlan | PackedPlan) -> Inputs:
            return (
                lay_out(token_ids, plan)
                if isinstance(plan, PackedPlan)
                else pad(token_ids, plan).inputs()
            )

        return Examples(collate, rows.lengths, rows.labels, packing, rows.multi_hot)

    model, layers = BertCnn(small, learning, name="classifier"), encoder.settings.layers
    rows = examples(train), examples(valid)
    result = Trainer(
        model,
        *rows,
        settings,
        layers=layers,
        seed=seed,
        progress=progress,
        savepoints=savepoints,
        like=like,
    ).run()
    assign(head.weights, extract(learning.weights), error=TrainingError)
    put_back(encoder, small, used)
    return result
