"""Searches for the training settings that suit a labelled file best: an Optuna study."""

from __future__ import annotations

import math
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from keras.callbacks import LambdaCallback
from scipy.stats import norm
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from bertcnn.data.label_sets import AUTO, numbered
from bertcnn.data.labels import check_labels
from bertcnn.data.packing import Packing
from bertcnn.data.same_labels import KnownLabels
from bertcnn.data.splits import assign_folds, duplicate_key
from bertcnn.errors import (
    LabelError,
    OutputError,
    SettingsError,
    TrainingError,
    explain_missing_packages,
)
from bertcnn.evaluation.macro_f1 import macro_f1_score
from bertcnn.inference.keras_embeddings import fastest_embed
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress, Silent
from bertcnn.settings import FULL, HeadSettings
from bertcnn.storage.files import as_json, check_file_target, companion, write_whole
from bertcnn.storage.folders import held_folder
from bertcnn.training.cross_fitting import computed_once
from bertcnn.training.features import TokenizedRows
from bertcnn.training.recipe_choice import choose_recipe
from bertcnn.training.recipes import recipe_settings, train
from bertcnn.training.savepoints import digest
from bertcnn.training.start import SEEDS, Start, check_seed, load_start
from bertcnn.training.training_data import RunOptions, TrainingData
from bertcnn.wording import count, duration
from bertcnn.workflows.labelled import labelled_rows
from bertcnn.workflows.space import LONGEST, defaults, suggest
from bertcnn.workflows.tuned import TunedSettings

with explain_missing_packages():
    import optuna
    from optuna.trial import FixedTrial, FrozenTrial, TrialState

# validation rows: the standard error of their accuracy is at most 1.6 points, 0.9 where it is 90%
_ENOUGH = 1000
_SIGNIFICANT = 0.05  # p-value up to which the best trial is chosen
_DRAWS = 500  # of the bootstrap, whose standard deviation they give to within 3%
_COMPARED = 4  # trials that have come as far, before one is stopped for being worse


class TimeIsUp(Exception):  # noqa: N818 - no error
    """The time limit has come."""


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
    most_trainings: float = math.inf,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TunedSettings:
    """Search the settings that suit a labelled file best, by macro-F1 on validation rows.

    Trial 0 has the recipe's defaults. The best trial is chosen if it is better at p <= 0.05
    (`p_value`), else the defaults are kept.

    Args:
        data: a labelled file, as for training, without the rows kept for testing.
        out: the file for the result, written after each trial. The folder `OUT.study` beside it
            keeps the search until it is finished, so that the same call resumes it.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        valid: a file of validation rows; by default folds of `data` (`divide`).
        multi_label: "no" takes every cell for one label; rows with several are refused.
        encoder: name of a published encoder, or a folder that holds one.
        recipe: "frozen" or "full"; "auto" chooses, as for training.
        seed: of search and trainings. If `trials` fit into the time, a search repeats exactly.
        minutes: time limit, which also ends a trial in progress.
        trials: most trials; no limit by default.
        most_trainings: this call stops after them, unfinished; those of an encoder count fivefold.
            XLA's compiled code stays in memory until the process ends: 45 MB for each training of a
            head, 240 MB with the encoder.
        overwrite: overwrite existing output, and discard a study that does not fit.
        progress: progress callback; none by default.

    Raises:
        SettingsError: a setting is invalid, or the time is too short for one trial.
        OutputError: `out` or the study is taken or cannot be written, or the study does not fit.
        TableError: a file cannot be read, or has no columns or labels to learn from.
        EncoderError: the encoder cannot be had.
        TrainingError: the defaults cannot be trained.
    """
    started, progress = time.time(), progress or Silent()
    _check(recipe, seed, minutes, trials)
    place = companion(Path(out).expanduser().absolute(), ".study")
    target = check_file_target(out, overwrite or place.exists(), others=[data, valid])
    read = partial(
        labelled_rows, text=text, label=label, multi_label=multi_label, progress=progress
    )
    texts, labels, parts = divide(read(data), None if valid is None else read(valid))
    start = load_start(encoder, FULL.max_tokens, seed=seed, progress=progress)
    rows = TokenizedRows(start.tokenizer.encode(texts).token_ids, numbered(labels)[1])
    chosen = _recipe(recipe, start, rows.of(parts[0][0]), progress)
    about = {
        "data file": digest([*rows.arrays(), *(part for pair in parts for part in pair)]),
        "encoder": digest(extract(start.encoder.weights)),
        "recipe": chosen,
        "seed": str(seed),
    }
    run = RunOptions(
        seed,
        progress,
        embed_with=lambda encoder: fastest_embed(encoder, start.tokenizer.pad_id),
    )
    once: AbstractContextManager[RunOptions] = nullcontext(run)
    if chosen == "frozen":
        once = computed_once(
            start.encoder, TrainingData(rows.of(parts[0][0]), rows.of(parts[0][1])), run
        )
    with held_folder(place, does="is tuning with") as folder:
        study = _open(folder / "trials.db", about, overwrite)
        started -= study.user_attrs.get("seconds", 0.0)
        search = _Search(study, chosen, start, texts, rows, parts, run, started + 60 * minutes)
        if search.finished:
            progress.note(f"resuming after {count(len(search.finished), 'trial')}")
        each = len(parts) * (5 if chosen == "full" else 1)
        wanted, most = trials or math.inf, len(search.finished) + most_trainings / each
        try:
            with once as search.run:
                left = max(1, int(search.deadline - time.time()))
                progress.stage("tuning", left, "seconds at most")
                while len(search.finished) < min(wanted, most):
                    search.run_trial()
                    study.set_user_attr("seconds", time.time() - started)
                    search.write(target, str(encoder), finished=False)
        except TimeIsUp:
            wanted = 0
            if not search.finished:
                shutil.rmtree(folder)
                raise SettingsError(
                    f"{minutes:g} minutes, in which not even the defaults could be tried",
                    expected="time for several trials",
                    fix="give more --minutes" + ", or --recipe frozen" * (chosen == "full"),
                ) from None
        tuned = search.write(target, str(encoder), finished=len(search.finished) >= wanted)
        if tuned.finished:
            shutil.rmtree(folder)
    return tuned


def _check(recipe: str, seed: int, minutes: float, trials: int | None) -> None:
    """Refuse invalid settings."""
    check_seed(seed)
    if (
        recipe not in ("auto", "full", "frozen")
        or not 0 < minutes < math.inf
        or (trials is not None and trials < 1)
    ):
        raise SettingsError(
            f"recipe {recipe!r}, {minutes:g} minutes, {trials} trials",
            expected="recipe auto, full or frozen, more than 0 minutes and at least 1 trial",
            fix="change the one that is wrong",
        )


def _recipe(
    recipe: str, start: Start, rows: TokenizedRows, progress: Progress
) -> Literal["frozen", "full"]:
    """The recipe to tune; "frozen" where `auto` selects few-shot, which has nothing to tune."""
    if recipe != "auto":
        return "full" if recipe == "full" else "frozen"
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
    progress.note(
        f"recipe {choice.recipe}: {choice.reason}{better * (choice.recipe == 'few-shot')}"
    )
    return "full" if choice.recipe == "full" else "frozen"


def divide(
    rows: Sequence[tuple[str, str]], valid: Sequence[tuple[str, str]] | None = None
) -> tuple[list[str], list[str], list[tuple[np.ndarray, np.ndarray]]]:
    """All texts, all labels, and of each fold the rows to learn from and to validate, int64 each.

    With fewer than 5,000 rows, as many of 5 folds are validated as hold 1,000 rows, or all. With
    more rows it is one fold, a tenth of the rows at least. Duplicates stay together, and every
    label is learned.

    Args:
        rows: text and label of each.
        valid: validation rows; those with a label that `rows` do not have are left out.

    Raises:
        LabelError: no row can be validated.

    Example:
        >>> rows = [(f"{a} {b}", a) for a in ("router", "invoice") for b in ("old", "new", "lost")]
        >>> [len(valid) for _, valid in divide(rows)[2]]
        [2, 1, 1, 1, 1]
    """
    names = [name for _, name in rows]
    check_labels(names)
    known = KnownLabels(names)
    found = [(text, own) for text, name in valid or () if (own := known.find(name)) is not None]
    texts, labels = zip(*rows, *found, strict=True)
    if valid is None:
        folds = min(max(5, len(rows) // _ENOUGH), 10)
        fold_of = assign_folds([duplicate_key(text) for text in texts], labels, texts, folds)
        codes = numbered(labels)[1]
        wanted = range(min(folds, math.ceil(_ENOUGH * folds / len(rows))))
        held_out = [(fold_of == fold) & np.isin(codes, codes[fold_of != fold]) for fold in wanted]
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


def _open(path: Path, about: dict[str, str], overwrite: bool) -> optuna.Study:
    """Open the study in SQLite: a kill during a write can break Optuna's journal file."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # not by a URL, in which some characters of a path have a meaning
    connect = partial(sqlite3.connect, path, check_same_thread=False)
    options = {"creator": connect, "poolclass": NullPool}
    try:
        storage = optuna.storages.RDBStorage("sqlite:///study", engine_kwargs=options)
        study = optuna.create_study(
            study_name="tune", storage=storage, direction="maximize", load_if_exists=True
        )
        kept = study.user_attrs.get("about", about)
        changed = [name for name in about if kept.get(name) != about[name]]
        reason = f"belongs to a search with another {' and another '.join(changed)}"
        for trial in study.get_trials(states=(TrialState.RUNNING,)):  # at a kill
            study.tell(trial.number, state=TrialState.FAIL)
    except (SQLAlchemyError, RuntimeError, AssertionError) as error:
        changed = [str(getattr(error, "orig", error)).partition("\n")[0]]
        reason = f"cannot be read ({changed[0]})"
    if changed and overwrite:
        path.unlink()
        return _open(path, about, overwrite=False)
    if changed:
        raise OutputError(
            f"{path.parent}, a saved search, {reason}",
            expected="the saved state of this search, or none",
            fix="repeat the earlier command, start again with --force, or choose another --out",
        )
    study.set_user_attr("about", about)
    return study


def p_value(
    labels: np.ndarray, default: np.ndarray, best: np.ndarray, groups: np.ndarray, tried: int
) -> float:
    """How likely the best of many trials gains so much macro-F1 on the defaults by luck.

    A one-sided z-test with the gain's standard deviation in a paired bootstrap, times the number of
    trials (Bonferroni), since the best of many is often only the luckiest.

    Args:
        labels: int [rows].
        default: predicted with the defaults, int [rows].
        best: predicted with the best settings, int [rows].
        groups: int [rows]; duplicates have equal numbers, and are drawn together.
        tried: trials beside the defaults.
    """
    classes = int(max(labels.max(), best.max(), default.max())) + 1
    members = int(groups.max()) + 1

    def macro_f1(found: np.ndarray, times: np.ndarray) -> float:
        right = np.bincount(labels, times * (labels == found), classes)
        either = np.bincount(labels, times, classes) + np.bincount(found, times, classes)
        return float(np.mean(2 * right[either > 0] / either[either > 0]))

    drawn = np.random.default_rng(0).multinomial(members, np.full(members, 1 / members), _DRAWS)
    every = np.vstack([np.ones(members), drawn])[:, groups]  # the rows as they are, and each draw
    gains = [macro_f1(best, times) - macro_f1(default, times) for times in every]
    return min(1.0, tried * float(norm.sf(gains[0] / max(float(np.std(gains[1:])), 1e-9))))


@dataclass(eq=False)
class _Search(Silent):
    """The trials of a study; the progress callback of their trainings."""

    study: optuna.Study
    recipe: Literal["frozen", "full"]
    start: Start
    texts: list[str]
    rows: TokenizedRows
    parts: list[tuple[np.ndarray, np.ndarray]]
    run: RunOptions
    deadline: float  # of `time.time()`

    def __post_init__(self) -> None:
        settings = recipe_settings(self.recipe, self.start.changes)
        steps = Packing(self.rows.lengths[self.parts[0][0]], settings.batch_size).steps
        self.epochs, self.weights = settings.epochs_of(steps), extract(self.start.encoder.weights)
        self.validated = np.concatenate([valid for _, valid in self.parts])
        others = {"n_startup_trials": _COMPARED, "n_min_trials": _COMPARED}
        self.study.pruner = optuna.pruners.MedianPruner(n_warmup_steps=self.epochs // 3, **others)

    @property
    def finished(self) -> list[FrozenTrial]:
        """The trials that ended by themselves, in order."""
        return self.study.get_trials(False, (TrialState.COMPLETE, TrialState.PRUNED))

    def run_trial(self) -> None:
        """Run the next trial, which depends on the seed and the finished trials alone."""
        study, number = self.study, len(self.finished)
        if not number and not study.get_trials(states=(TrialState.WAITING,)):
            study.enqueue_trial(defaults(self.recipe, self.epochs))
        seed = int(np.random.SeedSequence([self.run.seed, number]).generate_state(1)[0])
        study.sampler, self._now = optuna.samplers.TPESampler(seed=seed), time.time()
        study.optimize(self._macro_f1, n_trials=1)
        trial = self._figures(number, self.finished[number])
        if number == 0 and trial["outcome"] != "complete":
            raise TrainingError(
                "the loss became infinite with the recipe's defaults",
                expected="a training that works",
                fix="check the encoder",
            )
        ended = "" if trial["outcome"] == "complete" else f" ({trial['outcome']})"
        self.run.progress.note(
            f"trial {number}: macro-F1 {trial['macro_f1']:.3f}{ended}, {trial['epochs']} epochs in"
            f" {duration(trial['seconds'])}; best {study.best_value:.3f},"
            f" {duration(max(0.0, self.deadline - time.time()))} left"
        )

    def _macro_f1(self, trial: optuna.Trial) -> float:
        """The macro-F1 that a trial's settings give on the validation rows of all folds."""
        training, head = suggest(trial, self.recipe, self.epochs)
        settings = recipe_settings(self.recipe, {**self.start.changes, **training})
        self._trial = trial
        self._best: list[float] = []
        predicted: list[int] = []
        for fold, (learned, held_out) in enumerate(self.parts):
            assign(self.start.encoder.weights, self.weights, error=TrainingError)
            self._step, self._best = fold * LONGEST * self.epochs, [*self._best, 0.0]
            seed, report = (self.run.seed + fold) % SEEDS, LambdaCallback(on_epoch_end=self._report)
            run = replace(self.run, seed=seed, progress=self, callbacks=[report])
            data = TrainingData(self.rows.of(learned), self.rows.of(held_out))
            try:
                result = train(self.start.encoder, data, head, self.recipe, settings, run)[1]
            except TrainingError:  # the loss became infinite
                trial.set_user_attr("diverged", True)
                raise optuna.TrialPruned from None
            predicted += result.valid_logits.argmax(axis=1).tolist()
        trial.set_user_attr("predicted", predicted)
        return macro_f1_score(self.rows.labels[self.validated], np.array(predicted))

    def _report(self, epoch: int, logs: Mapping[str, float]) -> None:  # noqa: ARG002
        """End a trial early that is worse than others were after so many epochs."""
        self._best[-1] = max(self._best[-1], logs["val_macro_f1"])
        self._trial.report(float(np.mean(self._best)), self._step)
        self._step += 1
        if self._trial.should_prune():
            raise optuna.TrialPruned

    def advance(self, done: int, **figures: float) -> None:  # noqa: ARG002
        """A batch of a training is done."""
        now = time.time()
        if now > self.deadline:
            raise TimeIsUp
        if seconds := int(now - self._now):
            self.run.progress.advance(seconds)
            self._now += seconds

    def _figures(self, number: int, trial: FrozenTrial) -> dict[str, Any]:
        """A finished trial, as the settings file has it."""
        outcome = "diverged" if "diverged" in trial.user_attrs else trial.state.name.lower()
        training, head = suggest(FixedTrial(trial.params), self.recipe, self.epochs)
        return {
            "number": number,
            "outcome": outcome,
            "macro_f1": trial.value or 0.0,
            "epochs": len(trial.intermediate_values),
            "seconds": trial.duration.total_seconds() if trial.duration else 0.0,
            "training": training,
            "head": head.model_dump(mode="json"),
        }

    def write(self, target: Path, encoder: str, *, finished: bool) -> TunedSettings:
        """Write what was found so far; at least one trial is finished."""
        trials = [self._figures(*numbered) for numbered in enumerate(self.finished)]
        complete = [trial["number"] for trial in trials if trial["outcome"] == "complete"]
        best = max(complete, key=lambda number: trials[number]["macro_f1"])  # of equals the first
        default, found = (
            np.array(self.finished[number].user_attrs["predicted"]) for number in (0, best)
        )
        groups = numbered([duplicate_key(self.texts[row]) for row in self.validated])[1]
        labels, tried = self.rows.labels[self.validated], len(complete) - 1
        chance = p_value(labels, default, found, groups, tried) if best else 1.0
        chosen = best if chance <= _SIGNIFICANT else 0
        measured = [trials[number]["macro_f1"] for number in (0, best, chosen)]
        gain = (
            f"trial {best} has the best macro-F1 of {count(len(trials), 'trial')}:"
            f" {measured[1]:.3f}, the defaults {measured[0]:.3f}, on {len(labels):,} validation"
            f" rows; p = {chance:.2g}, so "
        )
        tuned = TunedSettings(
            recipe=self.recipe,
            encoder=encoder,
            training=trials[chosen]["training"] if chosen else {},
            head=HeadSettings(**trials[chosen]["head"]) if chosen else None,
            verdict=gain + ("its settings are chosen" if chosen else "the defaults are kept"),
            macro_f1=measured[2],
            default_macro_f1=measured[0],
            best_trial=best,
            chance=chance,
            validation_rows=len(labels),
            folds=len(self.parts),
            seed=self.run.seed,
            seconds=self.study.user_attrs.get("seconds", 0.0),
            finished=finished,
            trials=tuple(trials),
        )
        write_whole(target, as_json(tuned.model_dump(mode="json")), overwrite=True)
        return tuned
