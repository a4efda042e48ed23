"""Cross-fitting: a model that did not see a training row predicts it.

For each fold a model is trained on the other folds, in the same way as the final model (out-of-fold
predictions, Wolpert 1992, "Stacked generalization"). All rows then set the thresholds, the
temperature and the out-of-scope limits, not only the held-out tenth. The fold models see fewer rows
than the final one, so precision errs on the safe side. docs/benchmarks has the gain.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.inference import KerasEngine
from bertcnn.models import Bert, assign, extract
from bertcnn.progress import Progress, Silent
from bertcnn.training.features import Features, TokenizedRows, stored_embed
from bertcnn.training.refit import Train
from bertcnn.training.training_data import OutsideRows, RunOptions, TrainingData
from bertcnn.wording import count, duration


@dataclass(frozen=True, eq=False)
class FoldAnswers:
    """The predictions of a model that was trained on the other folds, with mean token embeddings.

    `held_out`, int [H], are the training rows of this fold. `detector_rows`, int [K], are rows it
    was trained on that the out-of-scope detector compares with.
    """

    held_out: np.ndarray
    logits: np.ndarray
    means: np.ndarray
    detector_rows: np.ndarray
    detector_logits: np.ndarray
    detector_means: np.ndarray


@contextmanager
def computed_once(encoder: Bert, data: TrainingData, run: RunOptions) -> Iterator[RunOptions]:
    """Run options with the output of a frozen encoder computed once for all trainings."""
    token_ids = [*data.train.token_ids, *data.valid.token_ids]
    with tempfile.TemporaryDirectory(prefix="bertcnn-features-") as folder:
        run.progress.stage("computing encoder features for all folds", len(token_ids))
        path, width = Path(folder) / "features", encoder.settings.width
        embed = run.embed_with(encoder)
        stored = stored_embed(Features(embed, width, token_ids, path, run.progress), token_ids)
        yield replace(run, embed_with=lambda _: stored)


def cross_fit(
    train: Train,
    encoder: Bert,
    untrained: dict[str, np.ndarray],
    data: TrainingData,
    run: RunOptions,
    *,
    seconds: float,
) -> tuple[FoldAnswers, ...]:
    """Train once without each fold, and predict the fold's rows.

    `train` trains an encoder and a new head. `untrained` are the encoder's weights before any
    training; its current weights are restored at the end. `run` has the fold of each row, and in
    `like` the final model's result, which sets the number of epochs. A row is never held out if no
    other fold has its label. `seconds` is the training time of the final model.

    Returns:
        The predictions of each fold, in order; none if the deadline leaves no time.
    """
    fold_of = np.arange(0) if run.fold_of is None else run.fold_of
    folds = list(_divided(data.train, fold_of))
    more = seconds * (len(folds) - 1)
    if run.deadline is not None and run.deadline.is_missed_after(more):
        run.progress.note(
            f"thresholds come from the {count(len(data.valid.labels), 'held-out row')} alone, since"
            f" {len(folds)} folds would end after {run.deadline}"
        )
        return ()
    run.progress.note(
        f"cross-fitting: {len(folds)} trainings, each without a part of the rows, which it then"
        f" answers, so that all {len(fold_of) + len(data.valid.labels):,} rows set the thresholds."
        f" This takes about {duration(more)} more; --folds 0 leaves it out"
    )
    learned = extract(encoder.weights)
    fold_answers = []
    for number, held_out in enumerate(folds):
        point = None if run.savepoints is None else run.savepoints.part(f"fold{number}")
        kept = None if point is None else point.kept()
        if kept is None:
            assign(encoder.weights, untrained, error=TrainingError)
            progress = _FoldProgress(run.progress, f"fold {number + 1} of {len(folds)}")
            once = replace(
                run, progress=progress, savepoints=None, refit=False, deadline=None, callbacks=()
            )
            answers = _answers(train, encoder, data, once, held_out)
            if point is not None:
                point.keep({}, vars(answers))
        else:
            answers = FoldAnswers(**kept[1])
        fold_answers.append(answers)
    assign(encoder.weights, learned, error=TrainingError)
    return tuple(fold_answers)


def _divided(rows: TokenizedRows, fold_of: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of each fold whose labels also occur in other folds, int [H]."""
    classes = int(rows.labels.max()) + 1
    has = np.eye(classes, dtype=bool)[rows.labels] if rows.multi_hot is None else rows.multi_hot
    for fold in np.unique(fold_of):
        inside = fold_of == fold
        unlearned = ~has[~inside].any(axis=0)
        inside &= ~(has & unlearned).any(axis=1)
        if inside.any():
            yield np.flatnonzero(inside)


def _answers(
    train: Train, encoder: Bert, data: TrainingData, run: RunOptions, held_out: np.ndarray
) -> FoldAnswers:
    others = np.setdiff1d(np.arange(len(data.train.labels)), held_out)
    rows = np.arange(0) if data.detector_rows is None else data.detector_rows
    detector_rows = np.intersect1d(others, rows)
    part = replace(
        data,
        train=data.train.of(others),
        valid=data.train.of(held_out),
        detector_rows=np.searchsorted(others, detector_rows),
        outside=OutsideRows(),
    )
    model, result = train(encoder, part, run)
    if result.detector_outputs is not None and result.valid_means is not None:
        return FoldAnswers(
            held_out,
            result.valid_logits,
            result.valid_means,
            detector_rows,
            *result.detector_outputs,
        )
    engine = KerasEngine(model, pad_id=0)  # [PAD] is masked
    both = (part.valid, data.train.of(detector_rows))
    unseen, seen = (engine.run(rows.token_ids, evidence=True) for rows in both)
    means, detector_means = unseen.requested_evidence.means, seen.requested_evidence.means
    return FoldAnswers(held_out, unseen.logits, means, detector_rows, seen.logits, detector_means)


@dataclass
class _FoldProgress(Silent):
    """Shows the trainings of a fold, but no notes: the final model's notes said the same."""

    progress: Progress
    fold: str
    shown: bool = False

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        self.shown = unit == "batches"
        if self.shown:
            self.progress.stage(f"{self.fold}: {name}", total, unit)

    def advance(self, done: int, **figures: float) -> None:
        if self.shown:
            self.progress.advance(done, **figures)
