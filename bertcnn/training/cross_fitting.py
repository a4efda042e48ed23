"""Cross-fitting: each training row is answered by a model that did not learn it.

The rows are dealt out to folds, and for each fold a model is trained on the others, as the final
one was (out-of-fold predictions, Wolpert 1992, "Stacked generalization"). So all rows set the
thresholds, the temperature and the limits of what is out of scope, not only the tenth that is held
out. These models learn from fewer rows than the final one, so precision errs to the safe side. What
it gains is in docs/benchmarks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.models.bert import Bert
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress, Silent
from bertcnn.training.features import Features, TokenizedRows, stored_embed
from bertcnn.training.refit import Train
from bertcnn.training.training_data import OutsideRows, RunOptions, TrainingData
from bertcnn.wording import count, duration


@dataclass(frozen=True, eq=False)
class FoldAnswers:
    """The answers of a model that was trained on the rows of the other folds.

    Attributes:
        held_out: int [H], the training rows that it did not learn from.
        logits: its answers to them, float32 [H, C].
        means: of their token embeddings, float32 [H, D].
        known: int [K], rows that it learned from, by which it knows what is in scope.
        known_logits: its answers to these, float32 [K, C].
        known_means: of their token embeddings, float32 [K, D].
    """

    held_out: np.ndarray
    logits: np.ndarray
    means: np.ndarray
    known: np.ndarray
    known_logits: np.ndarray
    known_means: np.ndarray


@contextmanager
def computed_once(encoder: Bert, data: TrainingData, run: RunOptions) -> Iterator[RunOptions]:
    """A run in which an encoder that stays as it is computes its output once for all trainings."""
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
    """Train once without each fold, and answer its rows.

    Args:
        train: trains an encoder and a new head.
        encoder: of the final model; it ends with the weights that it has now.
        untrained: the encoder's weights before any training.
        data: the training rows are dealt out.
        run: with the fold of each row, and the final model's result, which says how many epochs
            each fold is trained. A row stays with the others where none of these has its label.
        seconds: that the final model's training took.

    Returns:
        The answers of each fold, in order. Nothing where the deadline leaves no time.
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
        f"training {len(folds)} times without a part of the rows, each of which is then answered:"
        f" thresholds come from all {len(fold_of) + len(data.valid.labels):,} rows. This takes"
        f" about {duration(more)} more; --folds 0 leaves it out"
    )
    learned = extract(encoder.weights)
    found = []
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
        found.append(answers)
    assign(encoder.weights, learned, error=TrainingError)
    return tuple(found)


def _divided(rows: TokenizedRows, fold_of: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of each fold whose labels other rows have too, int [H]."""
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
    """The answers of a model that is trained without some rows."""
    others = np.setdiff1d(np.arange(len(data.train.labels)), held_out)
    known = np.intersect1d(others, np.arange(0) if data.known is None else data.known)
    part = replace(
        data,
        train=data.train.of(others),
        valid=data.train.of(held_out),
        known=np.searchsorted(others, known),
        outside=OutsideRows(),
    )
    model, result = train(encoder, part, run)
    if result.known is not None and result.valid_means is not None:
        return FoldAnswers(held_out, result.valid_logits, result.valid_means, known, *result.known)
    engine = KerasEngine(model, pad_id=0)  # which is masked
    both = (part.valid, data.train.of(known))
    asked, learned = (engine.run(rows.token_ids, evidence=True) for rows in both)
    means, known_means = asked.found.means, learned.found.means
    return FoldAnswers(held_out, asked.logits, means, known, learned.logits, known_means)


@dataclass
class _FoldProgress(Silent):
    """Shows the trainings of a fold; what is worth a note was said of the final model."""

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
