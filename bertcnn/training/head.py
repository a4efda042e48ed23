"""Trains only the head, on precomputed token embeddings."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from bertcnn.data import Packing
from bertcnn.errors import TrainingError
from bertcnn.inference import Embed
from bertcnn.models import CnnHead, Forward, assign, extract
from bertcnn.settings import TrainingSettings
from bertcnn.training.batches import Examples, class_weights, positive_weights
from bertcnn.training.devices import compute_policy
from bertcnn.training.features import Features, TokenizedRows
from bertcnn.training.fit import fit
from bertcnn.training.linear_probe import start_from_probe
from bertcnn.training.state import FitResult
from bertcnn.training.training_data import RunOptions, TrainingData


def packed_head(
    head: CnnHead, lengths: np.ndarray, others: np.ndarray, settings: TrainingSettings
) -> tuple[Packing | None, CnnHead]:
    """The packing of these texts (None if not packed), and a copy of the head for it."""
    policy = compute_policy(settings.precision)
    if not settings.packed:
        return None, head.rebuilt(None, policy)
    packing = Packing(lengths, settings.batch_size, int(others.max()))
    return packing, head.rebuilt(packing.documents, policy)


def fit_head(
    head: CnnHead, train: Examples, valid: Examples, settings: TrainingSettings, run: RunOptions
) -> FitResult:
    """Train a head on stored token embeddings, as in the recipe `frozen`; see `fit`."""
    packing, learning = packed_head(head, train.lengths, valid.lengths, settings)
    rows, run = replace(train, packing=packing), replace(run, deadline=None)
    result = fit(learning, rows, valid, settings, run, layers=0)
    assign(head.weights, extract(learning.weights), error=TrainingError)
    return result


def train_head(
    embed: Embed,
    head: CnnHead,
    data: TrainingData,
    settings: TrainingSettings,
    run: RunOptions,
    *,
    probe: bool = False,
    refit_labels: np.ndarray | None = None,
) -> FitResult:
    """Compute all token embeddings once, then train the head on them, in place.

    Savepoints cover the first training only. With `run.refit` the head is trained again from the
    start, on the validation rows too; the rest of the result is from the first training. `probe`
    starts from a linear probe. `refit_labels`, int [training rows], are other labels for the second
    training.
    """
    rows, first, progress = data.train.with_rows(data.valid), len(data.train.labels), run.progress
    with tempfile.TemporaryDirectory(prefix="bertcnn-features-") as folder:
        progress.stage("computing encoder features", len(rows.labels))
        features = Features(embed, head.width, rows.token_ids, Path(folder) / "features", progress)

        def examples(rows: TokenizedRows, indices: np.ndarray) -> Examples:
            part = rows.of(indices)
            return Examples(
                features.of(indices).collate,
                part.lengths,
                part.labels,
                multi_hot=part.multi_hot,
                weights=part.weights,
            )

        def learn(rows: TokenizedRows, indices: np.ndarray, run: RunOptions) -> FitResult:
            if probe:
                weighted = _weighted(rows.of(indices), head.classes, settings)
                start_from_probe(head, features.means(indices), *weighted)
            return fit_head(head, examples(rows, indices), held_out, settings, run)

        held_out = examples(rows, np.arange(first, len(rows.labels)))
        untrained = extract(head.weights)
        result = learn(rows, np.arange(first), run)
        if (detector_rows := data.detector_rows) is not None:
            logits = Forward(head, result.padded_lengths).rows(
                features.of(detector_rows).collate, rows.lengths[detector_rows]
            )
            result = replace(
                result,
                detector_outputs=(logits, features.means(detector_rows)),
                valid_means=features.means(np.arange(first, len(rows.labels))),
            )
        if run.refit:
            progress.note(
                "training again from the start, now with the"
                f" {len(data.valid.labels):,} held-out rows too"
            )
            assign(head.weights, untrained, error=TrainingError)
            if refit_labels is not None:
                rows = replace(rows, labels=np.concatenate([refit_labels, data.valid.labels]))
            again = learn(
                rows, np.arange(len(rows.labels)), replace(run, savepoints=None, like=result)
            )
            result = replace(result, refit_logits=again.valid_logits)
        return result


def _weighted(
    rows: TokenizedRows, classes: int, settings: TrainingSettings
) -> tuple[np.ndarray, np.ndarray]:
    if rows.multi_hot is None:
        weights = class_weights(rows.labels, classes, settings.class_weight)[rows.labels]
        return rows.labels, weights * rows.row_weights
    weights = np.where(
        rows.multi_hot, positive_weights(rows.multi_hot, settings.class_weight), np.float32(1)
    )
    return rows.multi_hot, weights * rows.row_weights[:, None]
