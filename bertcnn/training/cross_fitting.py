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
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.models.bert import Bert
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.training.features import Features, TokenizedRows, stored_embed
from bertcnn.training.refit import Train
from bertcnn.training.training_data import Answered, OutsideRows, RunOptions, TrainingData
from bertcnn.wording import count


@dataclass(frozen=True, eq=False)
class FoldAnswers:
    """The answers of a model that was trained on the rows of the other folds.

    Attributes:
        held_out: int [H], the training rows that it did not learn from.
        answered: its answers to them.
        known: int [K], rows that it learned from, by which it knows what is in scope.
        known_answered: its answers to these.
    """

    held_out: np.ndarray
    answered: Answered
    known: np.ndarray
    known_answered: Answered


def cross_fit(
    train: Train,
    encoder: Bert,
    untrained: dict[str, np.ndarray],
    data: TrainingData,
    run: RunOptions,
    *,
    seconds: float,
    trains_encoder: bool,
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
        trains_encoder: whether the recipe changes the encoder; if not, its output is computed once.

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
        f" {_duration(more)} more; --folds 0 leaves it out"
    )
    learned = extract(encoder.weights)
    found = []
    with tempfile.TemporaryDirectory(prefix="bertcnn-features-") as folder:
        if not trains_encoder:
            run = _with_stored_features(encoder, data, run, Path(folder))
        for number, held_out in enumerate(folds):
            point = None if run.savepoints is None else run.savepoints.part(f"fold{number}")
            kept = None if point is None else point.kept()
            if kept is None:
                assign(encoder.weights, untrained, error=TrainingError)
                progress = _FoldProgress(run.progress, f"fold {number + 1} of {len(folds)}")
                once = replace(run, progress=progress, savepoints=None, refit=False, deadline=None)
                tensors = _answers(train, encoder, data, once, held_out)
                if point is not None:
                    point.keep({}, tensors)
            else:
                tensors = kept[1]
            found.append(_of_tensors(tensors))
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
    train: Train,
    encoder: Bert,
    data: TrainingData,
    run: RunOptions,
    held_out: np.ndarray,
) -> dict[str, np.ndarray]:
    """The answers of a model that is trained without some rows, by the names of `FoldAnswers`."""
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
        answers = (result.valid_logits, result.valid_means), result.known
    else:
        engine = KerasEngine(model, pad_id=0)  # which is masked
        answers = tuple(  # type: ignore[assignment]
            (output.logits, output.found.means)
            for output in (
                engine.run(rows.token_ids, evidence=True)
                for rows in (part.valid, data.train.of(known))
            )
        )
    (logits, means), (known_logits, known_means) = answers
    return {
        "held_out": held_out,
        "logits": logits,
        "means": means,
        "known": known,
        "known_logits": known_logits,
        "known_means": known_means,
    }


def _of_tensors(tensors: dict[str, np.ndarray]) -> FoldAnswers:
    """What `_answers` gave."""
    return FoldAnswers(
        tensors["held_out"],
        (tensors["logits"], tensors["means"]),
        tensors["known"],
        (tensors["known_logits"], tensors["known_means"]),
    )


def _with_stored_features(
    encoder: Bert, data: TrainingData, run: RunOptions, folder: Path
) -> RunOptions:
    """A run whose encoder's output is computed once, here."""
    token_ids = data.train.token_ids
    run.progress.stage("computing encoder features", len(token_ids))
    features = Features(
        run.embed_with(encoder), encoder.settings.width, token_ids, folder / "all", run.progress
    )
    embed = stored_embed(features, token_ids)
    return replace(run, embed_with=lambda _: embed)


def _duration(seconds: float) -> str:
    return f"about {max(1, round(seconds / 60))} min" if seconds >= 60 else "less than a minute"


@dataclass
class _FoldProgress:
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

    def note(self, message: str) -> None:
        pass
