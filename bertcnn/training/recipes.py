"""The recipes: `full` trains encoder and head, `frozen` the head, `few-shot` few rows."""

from __future__ import annotations

from bertcnn.data import BatchPlan, PackedPlan, lay_out, pad
from bertcnn.errors import TrainingError
from bertcnn.models import Bert, BertCnn, CnnHead, Inputs, assign, extract
from bertcnn.settings import (
    FEW_SHOT,
    FROZEN,
    FROZEN_MULTI_LABEL,
    FULL,
    HeadSettings,
    Recipe,
    TrainingSettings,
)
from bertcnn.training.batches import Examples
from bertcnn.training.devices import compute_policy
from bertcnn.training.features import TokenizedRows
from bertcnn.training.few_shot import train_few_shot
from bertcnn.training.fit import fit
from bertcnn.training.head import packed_head, train_head
from bertcnn.training.state import FitResult
from bertcnn.training.training_data import RunOptions, TrainingData
from bertcnn.training.vocabulary_pruning import on_used_pieces, put_back, renumbered


def recipe_settings(
    recipe: Recipe, changes: dict[str, object], *, multi_label: bool = False
) -> TrainingSettings:
    """The recipe's defaults, for multi-label rows if so, with `changes`.

    Unknown names and invalid values are refused. Epochs in `changes` are kept for small files too.
    """
    defaults = {"few-shot": FEW_SHOT, "frozen": FROZEN_MULTI_LABEL if multi_label else FROZEN}.get(
        recipe, FULL
    )
    as_asked = {"fewest_steps": 0} if "epochs" in changes else {}
    return TrainingSettings(**{**defaults.model_dump(), **as_asked, **changes})


def train(
    encoder: Bert,
    data: TrainingData,
    head: HeadSettings,
    recipe: Recipe,
    settings: TrainingSettings,
    run: RunOptions,
) -> tuple[BertCnn, FitResult]:
    """Train a classifier; `full` and `few-shot` also change `encoder`."""
    train, valid = data.train, data.valid
    classes = (
        int(max(train.labels.max(), valid.labels.max())) + 1
        if train.multi_hot is None
        else train.multi_hot.shape[1]
    )
    cnn_head = CnnHead(encoder.settings.width, classes, head, seed=run.seed, name="head")
    if run.head_weights is not None:
        assign(cnn_head.weights, run.head_weights, error=TrainingError)
    if recipe == "full":
        result = fit_with_encoder(encoder, cnn_head, data, settings, run)
    elif recipe == "frozen":
        result = train_head(run.embed_with(encoder), cnn_head, data, settings, run)
    else:
        result = train_few_shot(encoder, cnn_head, data, settings, run)
    return BertCnn(encoder, cnn_head, name="classifier"), result


def fit_with_encoder(
    encoder: Bert, head: CnnHead, data: TrainingData, settings: TrainingSettings, run: RunOptions
) -> FitResult:
    """Train encoder and head in place, as in the recipe `full`; see `fit`.

    Only embeddings of tokens that occur are trained. `settings` may freeze the lowest layers.
    """
    train, valid = data.train, data.valid
    small, used = on_used_pieces(
        encoder,
        [*train.token_ids, *valid.token_ids],
        settings.attention_dropout,
        packed=settings.packed,
        policy=compute_policy(settings.precision),
    )
    freeze(small, settings.frozen_layers(encoder.settings.layers))
    packing, learning = packed_head(head, train.lengths, valid.lengths, settings)

    def examples(rows: TokenizedRows) -> Examples:
        token_ids = renumbered(rows.token_ids, used)

        def collate(plan: BatchPlan | PackedPlan) -> Inputs:
            return (
                lay_out(token_ids, plan)
                if isinstance(plan, PackedPlan)
                else pad(token_ids, plan).inputs()
            )

        return Examples(
            collate, rows.lengths, rows.labels, packing, rows.multi_hot, rows.soft, rows.weights
        )

    model, layers = BertCnn(small, learning, name="classifier"), encoder.settings.layers
    rows = examples(train), examples(valid)
    result = fit(model, *rows, settings, run, layers=layers)
    assign(head.weights, extract(learning.weights), error=TrainingError)
    put_back(encoder, small, used)
    return result


def freeze(encoder: Bert, layers: int) -> None:
    """Freeze the lowest layers and, if there are any, the embeddings; dropout is unchanged."""
    if layers:
        encoder.get_layer("embeddings").trainable = False
    for index in range(layers):
        encoder.get_layer(f"layer_{index}").trainable = False
