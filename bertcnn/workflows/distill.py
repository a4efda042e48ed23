"""Distils a saved model into a smaller one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Unpack

from bertcnn.bundle import check_bundle_target, local_folder, read_config
from bertcnn.data import NO
from bertcnn.tables import read_labelled, rejects_of
from bertcnn.workflows.options import DistillationKeywords, DistillationOptions
from bertcnn.workflows.train import TrainingReport, train_csv


def distill_csv(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    options: DistillationOptions | None = None,
    **changes: Unpack[DistillationKeywords],
) -> TrainingReport:
    """Train a model with fewer layers on a saved model's predictions, and save it.

    Confidence, thresholds and figures come from held-out rows. A repeated call resumes.

    Args:
        model: the teacher's folder or URL.
        data: the teacher's training file, or another labelled file with all its labels.
        out: the folder to save the new model in.
        options: all options; by default `DistillationOptions()`.
        changes: single options by name, such as `layers=2`: see `DistillationOptions`.

    Raises:
        SettingsError: `layers` is not less than the teacher's.
        LabelError: the labels are not the teacher's.
        TableError: a file cannot be read, or lacks the columns.
        BundleError: the teacher is not a model.
        OutputError: `out` exists or cannot be written.
    """
    from bertcnn.classifier import BertCNNClassifier  # imports Keras, which takes seconds
    from bertcnn.training import check_layers

    options = replace(options or DistillationOptions(), **changes)
    check_bundle_target(out := Path(out), options.overwrite)
    folder = local_folder(model, progress=options.progress)
    config = read_config(folder)
    check_layers(options.layers, config.encoder.layers)
    rows = read_labelled(
        data,
        text=options.text or config.text_columns or None,
        label=options.label or config.label_column,
        multi_label=config.label_separator or NO,
        rejects=rejects_of(out),
        progress=options.progress,
    )
    classifier = BertCNNClassifier(
        teacher=folder,
        layers=options.layers,
        seed=options.seed,
        training=options.training,
        auto_precision=options.auto_precision,
        levels=config.label_levels,
        progress=options.progress,
    )
    return train_csv(
        rows,
        out,
        classifier,
        valid=options.valid,
        unlabelled=options.unlabelled,
        min_rows=options.min_rows,
        overwrite=options.overwrite,
        command=options.command,
    )
