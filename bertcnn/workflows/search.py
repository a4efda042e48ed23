"""Searches for the best training settings for a labelled file: an Optuna study."""

from __future__ import annotations

import math
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from keras.callbacks import LambdaCallback
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from bertcnn.data import (
    AUTO,
    KnownLabels,
    Packing,
    assign_folds,
    check_labels,
    duplicate_key,
    numbered,
)
from bertcnn.errors import (
    LabelError,
    OutputError,
    SettingsError,
    TrainingError,
    explain_missing_packages,
)
from bertcnn.evaluation import macro_f1_score, p_value
from bertcnn.inference import fastest_embed
from bertcnn.models import assign, extract
from bertcnn.progress import Progress, Silent
from bertcnn.settings import FULL, HeadSettings
from bertcnn.storage import as_json, check_file_target, companion, held_folder, write_whole
from bertcnn.training import (
    SEEDS,
    RunOptions,
    Start,
    TokenizedRows,
    TrainingData,
    check_seed,
    choose_recipe,
    computed_once,
    digest,
    load_start,
    recipe_settings,
    train,
)
from bertcnn.wording import count, duration
from bertcnn.workflows.labelled import labelled_rows
from bertcnn.workflows.space import LONGEST, defaults, suggest
from bertcnn.workflows.tuned import TunedSettings

with explain_missing_packages():
    import optuna
    from optuna.trial import FixedTrial, FrozenTrial, TrialState

# validation rows: the standard error of accuracy is at most 1.6 points, or 0.9 at 90% accuracy
_ENOUGH = 1000
_SIGNIFICANT = 0.05  # p-value up to which the best trial is chosen
_COMPARED = 4  # trials that must have reached the same step before one is pruned
_FULL_COUNTS = 5  # memory of a training with the encoder, in trainings of a head

Folds = list[tuple[np.ndarray, np.ndarray]]  # training and validation rows, int64 each


def tune(  # noqa: PLR0913 - what a search is made of
    data: str | Path,
    out: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    valid: str | Path | None = None,
    multi_label: str = AUTO,
    encoder: str | Path = "minilm-l6",
    recipe: str = "auto",
    seed: int = 0,
    minutes: float = 30.0,
    trials: int | None = None,
    most_trainings: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TunedSettings:
    """Search for the best settings for a labelled file, by macro-F1 on validation rows.

    Trial 0 has the recipe's defaults. The best trial is chosen if it is better at p <= 0.05
    (`p_value`); else the defaults are kept.

    Args:
        data: a labelled file, as for training, without the test rows.
        out: the result file, written after each trial. The folder `OUT.study` keeps an unfinished
            search, and the same call resumes it.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        valid: a file of validation rows; by default folds of `data` (`divide`).
        multi_label: "no" takes every cell as one label; multi-label rows are refused.
        encoder: name of a published encoder, or its folder.
        recipe: "frozen", "full" or "auto".
        seed: seed of search and trainings. A search repeats exactly if `trials` fit the time.
        minutes: time limit, which also ends a trial in progress.
        trials: maximum number of trials; no limit by default.
        most_trainings: this call stops unfinished after this many trainings, since XLA keeps
            compiled code in memory until the process ends; a training of the encoder counts as
            five. No limit by default.
        overwrite: overwrite existing output, and discard a study that does not match.
        progress: progress callback; none by default.

    Raises:
        SettingsError: a setting is invalid, or the time is too short for one trial.
        OutputError: `out` or the study exists or cannot be written, or the study does not match.
        TableError: a file cannot be read, or lacks columns or labels.
        EncoderError: the encoder cannot be loaded.
        TrainingError: the defaults cannot be trained.
    """
    started, progress = time.time(), progress or Silent()
    check_seed(seed)
    _check_limits(recipe, minutes, trials)
    study_folder = companion(Path(out).expanduser().absolute(), ".study")
    target = check_file_target(out, overwrite or study_folder.exists(), others=[data, valid])
    read = partial(
        labelled_rows, text=text, label=label, multi_label=multi_label, progress=progress
    )
    texts, labels, folds = divide(read(data), None if valid is None else read(valid))
    start = load_start(encoder, FULL.max_tokens, seed=seed, progress=progress)
    rows = TokenizedRows(start.tokenizer.encode(texts).token_ids, numbered(labels)[1])
    first = TrainingData(rows.of(folds[0][0]), rows.of(folds[0][1]))
    tuned_recipe = _recipe(recipe, start, first.train, progress)
    embed = partial(fastest_embed, pad_id=start.tokenizer.pad_id)
    run = RunOptions(seed, progress, embed_with=embed)
    is_frozen = tuned_recipe == "frozen"
    once = computed_once(start.encoder, first, run) if is_frozen else nullcontext(run)
    parts = digest([*rows.arrays(), *(part for fold in folds for part in fold)])
    name = f"{tuned_recipe} {seed} {parts} {digest(extract(start.encoder.weights))}"
    with held_folder(study_folder, does="is tuning with") as folder:
        study = _open(folder / "trials.db", name, overwrite)
        search = _Search(study, tuned_recipe, str(encoder), start, texts, rows, folds, run, target)
        search.started = started - study.user_attrs.get("seconds", 0.0)
        search.deadline = search.started + 60 * minutes
        if done := len(search.finished):
            progress.note(f"resuming after {count(done, 'trial')}")
        else:
            study.enqueue_trial(defaults(tuned_recipe, search.epochs))
        with once as search.run:
            search.optimize(trials, most_trainings)
        is_over = time.time() >= search.deadline
        if is_over and not search.finished:
            shutil.rmtree(folder)
            raise SettingsError(
                f"{minutes:g} minutes, in which not even the defaults could be tried",
                expected="time for several trials",
                fix="give more --minutes" + ", or --recipe frozen" * (not is_frozen),
            )
        tuned = search.write(finished=is_over or len(search.finished) >= (trials or math.inf))
        if tuned.finished:
            shutil.rmtree(folder)
    return tuned


def _check_limits(recipe: str, minutes: float, trials: int | None) -> None:
    is_recipe = recipe in ("auto", "full", "frozen")
    if not (is_recipe and 0 < minutes < math.inf and (trials is None or trials > 0)):
        raise SettingsError(
            f"recipe {recipe!r}, {minutes:g} minutes, {trials} trials",
            expected="recipe auto, full or frozen, more than 0 minutes and at least 1 trial",
            fix="change the one that is wrong",
        )


def _recipe(
    recipe: str, start: Start, rows: TokenizedRows, progress: Progress
) -> Literal["frozen", "full"]:
    """The recipe to tune; "frozen" if `auto` selects few-shot, which has nothing to tune."""
    if recipe == "auto":
        choice = choose_recipe(
            start.encoder,
            int(rows.lengths.sum()),
            len(rows.labels),
            int(rows.labels.max()) + 1,
            recipe_settings("full", start.changes),
            fewest_epochs=FULL.epochs,
            sentence_encoder=start.sentence_encoder,
        )
        better = "; tuning frozen instead, though few-shot is usually better for so few rows"
        recipe = choice.recipe
        progress.note(f"recipe {recipe}: {choice.reason}{better * (recipe == 'few-shot')}")
    return "full" if recipe == "full" else "frozen"


def divide(
    rows: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]] | None = None
) -> tuple[list[str], list[str], Folds]:
    """All texts, all labels, and the folds.

    Without `valid` there are five folds, and only as many are used as hold 1,000 rows. With more
    than 5,000 rows, one fold of at least a tenth is used. Duplicates stay in one fold, and every
    label is trained.

    Raises:
        LabelError: no row can be validated.
    """
    check_labels([name for _, name in rows])
    known_labels = KnownLabels(name for _, name in rows)
    spelled = [(text, known_labels.find(name)) for text, name in valid or ()]
    texts, labels = zip(*rows, *((text, own) for text, own in spelled if own), strict=True)
    if valid is None:
        folds = min(max(5, len(rows) // _ENOUGH), 10)
        fold_of = assign_folds([duplicate_key(text) for text in texts], labels, texts, folds)
        codes = numbered(labels)[1]
        used = range(min(folds, math.ceil(_ENOUGH * folds / len(rows))))
        held_out = [(fold_of == fold) & np.isin(codes, codes[fold_of != fold]) for fold in used]
    else:
        held_out = [np.arange(len(texts)) >= len(rows)]
    parts = [(np.flatnonzero(~part), np.flatnonzero(part)) for part in held_out if part.any()]
    if not parts:
        raise LabelError(
            "no row that can be validated",
            expected="rows with a label that is learned, whose texts are not all the same",
            fix="add rows, or give a file of validation rows with the same labels",
        )
    return list(texts), list(labels), parts


def _open(path: Path, name: str, overwrite: bool) -> optuna.Study:
    """Open the study in SQLite; a kill during a write can break Optuna's journal file."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # not by URL, where some characters of a path are special
    connect = partial(sqlite3.connect, path, check_same_thread=False)
    engine = {"creator": connect, "poolclass": NullPool}
    try:
        storage = optuna.storages.RDBStorage("sqlite:///study", engine_kwargs=engine)
        if optuna.get_all_study_names(storage) in ([], [name]):
            return optuna.create_study(
                study_name=name, storage=storage, direction="maximize", load_if_exists=True
            )
        problem = "belongs to a search with another data file, encoder, recipe or seed"
    except (SQLAlchemyError, RuntimeError, AssertionError) as error:
        reason = str(getattr(error, "orig", error)).partition("\n")[0]
        problem = f"cannot be read ({reason})"
    if overwrite:
        path.unlink()
        return _open(path, name, overwrite=False)
    raise OutputError(
        f"{path.parent}, a saved search, {problem}",
        expected="the saved state of this search, or none",
        fix="repeat the earlier command, start again with --force, or choose another --out",
    )


@dataclass(eq=False)
class _Search(Silent):
    """The trials of a study; also the progress callback of its trainings."""

    study: optuna.Study
    recipe: Literal["frozen", "full"]
    encoder: str
    start: Start
    texts: list[str]
    rows: TokenizedRows
    folds: Folds
    run: RunOptions
    target: Path
    started: float = 0.0  # `time.time()` minus the seconds of earlier calls
    deadline: float = math.inf
    now: float = 0.0

    def __post_init__(self) -> None:
        settings = recipe_settings(self.recipe, self.start.changes)
        steps = Packing(self.rows.lengths[self.folds[0][0]], settings.batch_size).steps
        self.epochs, self.weights = settings.epochs_of(steps), extract(self.start.encoder.weights)
        self.validated = np.concatenate([valid for _, valid in self.folds])
        others = {"n_startup_trials": _COMPARED, "n_min_trials": _COMPARED}
        self.study.pruner = optuna.pruners.MedianPruner(n_warmup_steps=self.epochs // 3, **others)

    @property
    def finished(self) -> list[FrozenTrial]:
        return self.study.get_trials(False, (TrialState.COMPLETE, TrialState.PRUNED))

    def optimize(self, trials: int | None, most_trainings: int | None) -> None:
        """Run trials until the deadline, or until `trials` or `most_trainings` is reached."""
        limits = [] if trials is None else [max(trials - len(self.finished), 0)]
        if most_trainings is not None:
            each = len(self.folds) * (_FULL_COUNTS if self.recipe == "full" else 1)
            limits.append(math.ceil(most_trainings / each))
        self.now = time.time()
        left = self.deadline - self.now
        self.run.progress.stage("tuning", max(1, int(left)), "seconds at most")
        self.study.optimize(
            self.objective,
            n_trials=min(limits, default=None),
            timeout=left,
            catch=TimeoutError,
            callbacks=[self.end_trial],
        )

    def objective(self, trial: optuna.Trial) -> float:
        """The macro-F1 of a trial's settings on the validation rows of all folds."""
        number = len(self.finished)
        # seeded by trial number, so that a resumed search repeats an uninterrupted one
        self.study.sampler = optuna.samplers.TPESampler(seed=self.run.seed + number)
        training, head = suggest(trial, self.recipe, self.epochs)
        settings = recipe_settings(self.recipe, {**self.start.changes, **training})
        best, predicted = list[float](), list[int]()

        def report(epoch: int, logs: Mapping[str, float]) -> None:
            best[-1] = max(best[-1], logs["val_macro_f1"])
            step = (len(best) - 1) * LONGEST * self.epochs + epoch
            trial.report(float(np.mean(best)), step)
            if trial.should_prune():
                raise optuna.TrialPruned

        for fold, (learned, valid) in enumerate(self.folds):
            assign(self.start.encoder.weights, self.weights, error=TrainingError)
            best.append(0.0)
            seed = (self.run.seed + fold) % SEEDS
            callbacks = [LambdaCallback(on_epoch_end=report)]
            run = replace(self.run, seed=seed, progress=self, callbacks=callbacks)
            data = TrainingData(self.rows.of(learned), self.rows.of(valid))
            try:
                result = train(self.start.encoder, data, head, self.recipe, settings, run)[1]
            except TrainingError:  # the loss became infinite
                if number == 0:
                    raise
                trial.set_user_attr("diverged", True)
                raise optuna.TrialPruned from None
            predicted += result.valid_logits.argmax(axis=1).tolist()
        trial.set_user_attr("predicted", predicted)
        return macro_f1_score(self.rows.labels[self.validated], np.array(predicted))

    def advance(self, done: int, **figures: float) -> None:  # noqa: ARG002
        """Show the time after a training step, and end the trial when it is up."""
        before, self.now = self.now, time.time()
        if self.now > self.deadline:
            raise TimeoutError
        self.run.progress.advance(int(self.now) - int(before))

    def end_trial(self, study: optuna.Study, ended: FrozenTrial) -> None:
        """Write and report the result up to now; end the study if the time is up."""
        if ended.state == TrialState.FAIL:
            study.stop()
            return
        trial = self.write(finished=False).trials[-1]
        outcome = "" if trial["outcome"] == "complete" else f" ({trial['outcome']})"
        self.run.progress.note(
            f"trial {trial['number']}: macro-F1 {trial['macro_f1']:.3f}{outcome},"
            f" {trial['epochs']} epochs in {duration(trial['seconds'])}; best"
            f" {study.best_value:.3f}, {duration(max(0.0, self.deadline - time.time()))} left"
        )

    def write(self, *, finished: bool) -> TunedSettings:
        """Write the result up to now; requires a finished trial."""
        self.study.set_user_attr("seconds", time.time() - self.started)
        ended = self.finished
        trials = [self._figures(*one) for one in enumerate(ended)]
        complete = [trial for trial in trials if trial["outcome"] == "complete"]
        best = max(complete, key=lambda trial: trial["macro_f1"])["number"]  # the first of equals
        labels, chance = self.rows.labels[self.validated], 1.0
        if best:
            of_default, of_best = (np.array(ended[at].user_attrs["predicted"]) for at in (0, best))
            groups = numbered([duplicate_key(self.texts[row]) for row in self.validated])[1]
            chance = p_value(labels, of_default, of_best, groups, len(complete) - 1)
        selected = best if chance <= _SIGNIFICANT else 0
        tuned = TunedSettings(
            recipe=self.recipe,
            encoder=self.encoder,
            training=trials[selected]["training"] if selected else {},
            head=HeadSettings(**trials[selected]["head"]) if selected else None,
            verdict=(
                f"trial {best} has the best macro-F1 of {count(len(trials), 'trial')}:"
                f" {trials[best]['macro_f1']:.3f}, the defaults {trials[0]['macro_f1']:.3f}, on"
                f" {len(labels):,} validation rows; p = {chance:.2g}, so "
                + ("its settings are chosen" if selected else "the defaults are kept")
            ),
            macro_f1=trials[selected]["macro_f1"],
            default_macro_f1=trials[0]["macro_f1"],
            best_trial=best,
            chance=chance,
            validation_rows=len(labels),
            folds=len(self.folds),
            seed=self.run.seed,
            seconds=time.time() - self.started,
            finished=finished,
            trials=tuple(trials),
        )
        write_whole(self.target, as_json(tuned.model_dump(mode="json")), overwrite=True)
        return tuned

    def _figures(self, number: int, trial: FrozenTrial) -> dict[str, Any]:
        training, head = suggest(FixedTrial(trial.params), self.recipe, self.epochs)
        return {
            "number": number,
            "outcome": "diverged" if "diverged" in trial.user_attrs else trial.state.name.lower(),
            "macro_f1": trial.value or 0.0,
            "epochs": len(trial.intermediate_values),
            "seconds": trial.duration.total_seconds() if trial.duration else 0.0,
            "training": training,
            "head": head.model_dump(mode="json"),
        }
