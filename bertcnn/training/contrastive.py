"""Supervised contrastive training of the encoder, before a head is trained.

It pulls texts with the same label together, and pushes texts with other labels apart.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from bertcnn.data import PackedPlan, lay_out, pack
from bertcnn.layers import DocumentMean
from bertcnn.models import Bert
from bertcnn.progress import Progress
from bertcnn.settings import TrainingSettings
from bertcnn.training.devices import compute_policy
from bertcnn.training.features import TokenizedRows
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share
from bertcnn.training.trainer import Batch, Trainer
from bertcnn.training.vocabulary_pruning import on_used_pieces, put_back, renumbered

_TEMPERATURE = 0.1  # of the cosines (Khosla et al. 2020, section 4.4)
_TEXTS = 256  # per step; more if two labels need them
_TOKENS = 4096  # per step
_OF_NUMBERS = 6 * 384  # layers times width; larger encoders get fewer tokens
_FEWEST_TOKENS = 1024
_ROWS_OF_A_LABEL = 20  # per step
_LONGEST = 128  # tokens read of a text
_MOST_DOCUMENTS = 32  # per row
_NEVER = -1e9


def contrastive_loss(vectors: Any, labels: Any, temperature: float = _TEMPERATURE) -> Any:  # noqa: ANN401
    """Supervised contrastive loss, averaged over rows that share their label with another row.

    Khosla et al. 2020, equation 2. `vectors` are float32 [N, D], of any length, and `labels` int32
    [N], -1 for padding. The result is float32 [], and 0 if no label has two rows.
    """
    vectors = vectors / ops.sqrt(ops.sum(ops.square(vectors), axis=-1, keepdims=True) + 1e-12)
    cosines = ops.matmul(vectors, ops.transpose(vectors)) / temperature  # [N, N]
    there = ops.cast(labels >= 0, "float32")
    others = there[:, None] * there[None, :] * (1.0 - ops.eye(labels.shape[0]))
    alike = others * ops.cast(ops.equal(labels[:, None], labels[None, :]), "float32")
    # log-softmax over the other rows
    shares = cosines - ops.logsumexp(ops.where(others > 0, cosines, _NEVER), axis=-1, keepdims=True)
    count = ops.sum(alike, axis=-1)
    rows = -ops.sum(alike * ops.where(others > 0, shares, 0.0), axis=-1) / ops.maximum(count, 1.0)
    return ops.sum(rows) / ops.maximum(ops.sum(ops.cast(count > 0, "float32")), 1.0)


def tune_by_contrast(
    encoder: Bert, rows: TokenizedRows, settings: TrainingSettings, *, seed: int, progress: Progress
) -> None:
    """Train `encoder` in place by the supervised contrastive loss of mean token embeddings.

    Each of `settings.contrast_steps` steps takes labels in random order, with up to 20 rows each,
    until it holds 256 texts or 4,096 tokens (fewer for encoders larger than MiniLM). The cost
    therefore does not grow with the number of rows. Texts are cut to 128 tokens. The method follows
    Gunel et al. 2021, "Supervised Contrastive Learning for Pre-trained Language Model Fine-tuning",
    but runs before the head is trained, not jointly.
    """
    shortened = [cut(ids) for ids in rows.token_ids]
    lengths = np.fromiter(map(len, shortened), np.int64, len(shortened))
    numbers = encoder.settings.layers * encoder.settings.width
    most = max(_FEWEST_TOKENS, min(_TOKENS, _TOKENS * _OF_NUMBERS // numbers))
    draws = draw_steps(
        rows.labels, lengths, most, np.random.default_rng([seed, settings.contrast_steps])
    )
    steps = [next(draws) for _ in range(settings.contrast_steps)]
    plans = _plans(steps, lengths)

    small, used = on_used_pieces(
        encoder,
        shortened,
        settings.attention_dropout,
        packed=True,
        policy=compute_policy(settings.precision),
    )
    token_ids = renumbered(shortened, used)
    means = DocumentMean(plans[0].slots.shape[1], name="mean", dtype="float32")(
        small.sequence_output, small.input["document_ids"]
    )  # [B, K, D]
    model = keras.Model(small.input, means, name="document_means")
    schedule = WarmupLinearDecay(
        settings.contrast_learning_rate,
        math.ceil(settings.warmup_fraction * len(plans)),
        len(plans),
    )
    share = layer_share(encoder.settings.layers, settings)
    optimizer = LayerwiseAdamW(
        schedule, share, weight_decay=settings.weight_decay, clip_norm=settings.gradient_clip
    )

    def objective(outputs: Any, batch: Any) -> dict[str, Any]:  # noqa: ANN401
        vectors = ops.reshape(outputs, (-1, outputs.shape[-1]))
        return {"loss": contrastive_loss(vectors, ops.reshape(batch["labels"], (-1,)))}

    def batches(position: int | None) -> Generator[Batch, None, None]:
        for number, plan in enumerate(plans[position or 0 :], start=(position or 0) + 1):
            labels = np.where(plan.slots >= 0, rows.labels[plan.slots], -1).astype(np.int32)
            yield Batch([(lay_out(token_ids, plan), {"labels": labels})], number)

    Trainer(
        model,
        optimizer,
        objective,
        batches,
        epoch_ends=[len(plans)],
        progress=progress,
        stage=("contrastive training of the encoder", "batches"),
    ).run()
    put_back(encoder, small, used)


def cut(token_ids: np.ndarray, longest: int = _LONGEST) -> np.ndarray:
    """The beginning of a text and its last token.

    Example:
        >>> cut(np.arange(9), longest=4)
        array([0, 1, 2, 8])
    """
    if len(token_ids) <= longest:
        return token_ids
    return np.concatenate([token_ids[: longest - 1], token_ids[-1:]])


def draw_steps(
    labels: np.ndarray,
    lengths: np.ndarray,
    tokens: int,
    chance: np.random.Generator,
    *,
    texts: int = _TEXTS,
    rows_of_a_label: int = _ROWS_OF_A_LABEL,
) -> Iterator[np.ndarray]:
    """The rows of each step, int [rows], from at least two labels.

    It iterates over all labels in random order, again and again, and takes up to `rows_of_a_label`
    rows of each, until a step holds `texts` or `tokens`. `labels` must hold two or more.
    """
    while True:
        taken: list[np.ndarray] = []
        for label in chance.permutation(np.unique(labels)):
            own = chance.permutation(np.flatnonzero(labels == label))[:rows_of_a_label]
            joined = np.concatenate([*taken, own])
            if len(taken) > 1 and (len(joined) > texts or lengths[joined].sum() > tokens):
                yield np.concatenate(taken)
                taken = []
            taken.append(own)
        if len(taken) > 1:
            yield np.concatenate(taken)


def _plans(steps: list[np.ndarray], lengths: np.ndarray) -> list[PackedPlan]:
    """The steps' rows in packed layouts of one shape, so only one program is compiled."""
    longest = int(lengths.max())
    row_of = [pack(lengths[rows], longest, _MOST_DOCUMENTS) for rows in steps]
    height = max(int(packed_rows.max()) + 1 for packed_rows in row_of)
    width = max(int(np.bincount(packed_rows).max()) for packed_rows in row_of)
    plans = []
    for rows, packed_rows in zip(steps, row_of, strict=True):
        slots, filled = np.full((height, width), -1, np.int64), np.zeros(height, np.int64)
        for row, packed_row in zip(rows, packed_rows, strict=True):
            slots[packed_row, filled[packed_row]] = row
            filled[packed_row] += 1
        plans.append(PackedPlan(slots, longest))
    return plans
