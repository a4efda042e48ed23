"""Distils a saved model into a smaller one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertcnn.bundle import check_bundle_target, local_folder, read_config
from bertcnn.data import NO
from bertcnn.progress import Progress
from bertcnn.settings import PrecisionTargets
from bertcnn.tables import read_labelled, rejects_of
from bertcnn.workflows.train import TrainingReport, train_csv


def distill_csv(  # noqa: PLR0913 - options that callers name
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    layers: int = 3,
    texts: str | Path | None = None,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    valid: str | Path | None = None,
    min_rows: int = 0,
    seed: int = 0,
    training: Mapping[str, Any] | None = None,
    auto_precision: float | str | PrecisionTargets = 0.95,
    overwrite: bool = False,
    command: str = "",
    progress: Progress | None = None,
) -> TrainingReport:
    """Train a model with fewer layers on a saved model's predictions, and save it.

    Confidence, thresholds and figures come from held-out rows. A repeated call resumes.

    Args:
        model: the teacher's folder or URL.
        data: the teacher's training file, or another labelled file with all its labels.
        out: the folder to save the new model in.
        layers: number of layers, fewer than the teacher's.
        texts: a file of unlabelled texts with the same text columns; more texts bring the
            predictions closer to the teacher's.
        text: the text column or columns; by default the teacher's.
        label: the label column; by default the teacher's.
        valid: see `train_csv`.
        min_rows: see `train_csv`; use the teacher's value.
        seed: makes a run repeat exactly on the same machine.
        training: changes to the settings of the recipe "full".
        auto_precision: target precision of automatic predictions; see `BertCNNClassifier`.
        overwrite: overwrite an existing model in `out`.
        command: the command line, for the report and the card.
        progress: progress callback.

    Raises:
        SettingsError: `layers` is not less than the teacher's.
        LabelError: the labels are not the teacher's.
        TableError: a file cannot be read, or lacks the columns.
        BundleError: the teacher is not a model.
        OutputError: `out` exists or cannot be written.
    """
    from bertcnn.classifier import BertCNNClassifier  # imports Keras, which takes seconds
    from bertcnn.training import check_layers

    check_bundle_target(out := Path(out), overwrite)
    folder = local_folder(model, progress=progress)
    config = read_config(folder)
    check_layers(layers, config.encoder.layers)
    rows = read_labelled(
        data,
        text=text or config.text_columns or None,
        label=label or config.label_column,
        multi_label=config.label_separator or NO,
        rejects=rejects_of(out),
        progress=progress,
    )
    classifier = BertCNNClassifier(
        teacher=folder,
        layers=layers,
        seed=seed,
        training=training,
        auto_precision=auto_precision,
        levels=config.label_levels,
        progress=progress,
    )
    return train_csv(
        rows,
        out,
        classifier,
        valid=valid,
        unlabelled=texts,
        min_rows=min_rows,
        overwrite=overwrite,
        command=command,
    )
