"""Searches the settings that suit a labelled file best, within a time limit."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from bertcnn.classifier import embed_on_cpu
from bertcnn.data.label_sets import AUTO, numbered
from bertcnn.errors import SettingsError, TrainingError
from bertcnn.evaluation.macro_f1 import macro_f1_score
from bertcnn.evaluation.reality_check import chance_of_best
from bertcnn.layers.device import on_gpu
from bertcnn.models.weights import extract
from bertcnn.progress import Progress, Silent
from bertcnn.settings import FULL, Recipe
from bertcnn.storage.files import check_file_target
from bertcnn.training.features import TokenizedRows
from bertcnn.training.recipe_choice import choose_recipe
from bertcnn.training.savepoints import digest
from bertcnn.training.start import Start, load_start
from bertcnn.wording import count
from bertcnn.workflows.folds import DividedRows, divided_rows
from bertcnn.workflows.repeated import FullTrials, HeadTrials, Trial, Trials
from bertcnn.workflows.space import Parameters, Space
from bertcnn.workflows.study import Record, Study, need_optuna, study_path
from bertcnn.workflows.tuned import TrialFigures, TunedSettings, write_tuned
from bertcnn.workflows.worker import OwnProcess

if TYPE_CHECKING:
    import optuna

_CHANCE = 0.05  # of looking so good by luck, above which the defaults are kept
_SEEDS = 2**31
_TRAININGS = {"full": 6, "frozen": 32}  # of a process: it grows by about 1 GB


class TuningInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a search.

    What was found is written, and the same call goes on from there.

    Attributes:
        tuned: what was found so far.
    """

    def __init__(self, tuned: TunedSettings) -> None:
        super().__init__(f"{len(tuned.trials)} trials are finished")
        self.tuned = tuned


class _TimeIsUp(Exception):  # noqa: N818 - no error
    """The time limit has come."""


class _Clock:
    """Progress that ends the work at a deadline.

    It passes on what is told of the preparations, then tells of the seconds gone.
    """

    def __init__(self, progress: Progress, started: float, deadline: float) -> None:
        self._progress, self._started, self.deadline = progress, started, deadline
        self._in_seconds, self._told, self._best = False, 0, -1.0

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """A stage of the preparations starts."""
        self._progress.stage(name, total, unit)

    def advance(self, done: int, **figures: float) -> None:
        """Part of the work is done.

        Raises:
            _TimeIsUp: the deadline has come.
        """
        if self.left() <= 0:
            raise _TimeIsUp
        if self._in_seconds:
            self._tell()
        else:
            self._progress.advance(done, **figures)

    def note(self, message: str) -> None:
        """A finding of the search."""
        self._progress.note(message)

    def tell_seconds(self) -> None:
        """From now on tell of the seconds gone."""
        self._in_seconds, self._started = True, time.monotonic()
        self._progress.stage("tuning", max(1, int(self.left())), "seconds at most")

    def tell_trial(self, number: int, record: Record) -> None:
        """A trial is finished."""
        best = record.outcome == "complete" and record.macro_f1 > self._best
        if best:
            self._best = record.macro_f1
        what = "the defaults" if number == 0 else "the best so far" if best else ""
        if record.outcome != "complete":
            what = {
                "pruned": "given up: behind the others",
                "diverged": "its loss became infinite",
            }[record.outcome]
        after = f"{record.epochs} epochs, {record.seconds:.0f} s"
        self._progress.note(
            f"trial {number}: macro-F1 {record.macro_f1:.3f} ({after}){', ' if what else ''}{what}"
        )
        self._tell()

    def _tell(self) -> None:
        seconds = int(time.monotonic() - self._started) - self._told
        self._told += seconds
        self._progress.advance(
            seconds, **({"best_macro_f1": self._best} if self._best >= 0 else {})
        )


def tune(  # noqa: PLR0913 - what a search is made of
    data: str | Path,
    out: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    valid: str | Path | None = None,
    multi_label: str = AUTO,
    encoder: str | Path = "minilm-l6",
    recipe: Recipe = "auto",
    seed: int = 0,
    minutes: float = 30.0,
    trials: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TunedSettings:
    """Search the settings that suit a labelled file best, by macro-F1 on validation rows.

    The first trial is of the recipe's defaults. One division of some hundred rows cannot choose
    among settings, so with fewer than 5,000 rows trials are validated in as many of 5 folds as make
    1,000 rows, or in all; from there on once, on a share that makes 1,000 rows, a tenth at least.
    The best trial is chosen only if luck is an unlikely reason (at most 5%, `chance_of_best`); else
    the defaults are.

    Args:
        data: a labelled file, as for training. Rows for testing should not be in it.
        out: the file for what is found. `OUT.study` beside it keeps the search until it is
            finished: after a kill or Ctrl-C the same call goes on, with what is left of the time.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        valid: a file of validation rows; by default rows of `data`, as above.
        multi_label: "no" takes every cell for one label; rows with several are refused.
        encoder: name of a published encoder, or a folder that holds one.
        recipe: whose settings; "auto" chooses, as for training.
        seed: of the search and its trainings. With a number of trials that fits into the time, the
            outcome is the same each time.
        minutes: after which the search stops, in the middle of a trial if need be.
        trials: after how many it stops; by default when the time is up.
        overwrite: replace what is there, and forget a search that is about something else.
        progress: told of the time gone, and of each trial.

    Raises:
        SettingsError: a setting is not what it should be, Optuna is missing, or the time is too
            short for the defaults alone.
        OutputError: `out` or the search beside it exists and may not be used, or cannot be written.
        TableError: a file cannot be read, or has no columns or labels to learn from.
        EncoderError: the encoder cannot be had.
        TuningInterrupted: Ctrl-C, once the defaults have been tried.

    Example:
        tuned = tune("tickets.csv", "settings.json", minutes=10) BertCNNClassifier(tuned.encoder,
        recipe=tuned.recipe, training=tuned.training, head=tuned.head)
    """
    started = time.monotonic()
    progress = progress or Silent()
    _check(recipe, seed, minutes, trials)
    need_optuna()
    target = check_file_target(
        out,
        overwrite or study_path(Path(out).expanduser().absolute()).exists(),
        others=[data, valid],
    )
    rows = divided_rows(data, valid, text, label, multi_label, progress)
    start = load_start(encoder, FULL.max_tokens, seed=seed, progress=progress)
    tokenized = TokenizedRows(
        start.tokenizer.encode(rows.texts).token_ids, numbered(rows.labels)[1]
    )
    chosen = _recipe(recipe, start, tokenized, rows.parts[0][0], progress)
    space = Space.of(chosen, rows.labels, tokenized.lengths[rows.parts[0][0]])
    header = {
        "data file": _of_text(
            json.dumps(
                [rows.texts, rows.labels, [part.tolist() for pair in rows.parts for part in pair]]
            )
        ),
        "encoder": digest(extract(start.encoder.weights)),
        "recipe": chosen,
        "seed": str(seed),
        "space of settings": _of_text(space.in_words()),
    }
    clock = _Clock(progress, started, started + 60 * minutes)
    with (
        tempfile.TemporaryDirectory(prefix="bertcnn-tuning-") as folder,
        Study(
            study_path(target), header, seed=seed, warmup=space.epochs // 3, replace=overwrite
        ) as study,
    ):
        search = _Search(study, space, rows, tokenized.labels, seed, clock)
        finished = search.run(
            lambda: _attempts(start, tokenized, chosen, Path(folder) / "features", clock), trials
        )
        if not study.finished:
            study.forget()
            if not finished:
                raise KeyboardInterrupt
            raise SettingsError(
                f"{minutes:g} minutes, in which not even the defaults could be trained and"
                " validated",
                expected="time for several trainings",
                fix="give more --minutes" + (", or --recipe frozen" if chosen == "full" else ""),
            )
        tuned = search.result(str(encoder), finished)
        write_tuned(target, tuned)
        if not finished:
            raise TuningInterrupted(tuned)
        study.forget()
    return tuned


class _Epochs(Silent):
    """Progress of a single training: keeps the clock, and tells of the end of each epoch."""

    def __init__(self, clock: _Clock, epoch_done: Callable[[float], None]) -> None:
        self._clock, self._epoch_done = clock, epoch_done

    def advance(self, done: int, **figures: float) -> None:
        """A batch or an epoch is done."""
        self._clock.advance(done)
        if not done:
            self._epoch_done(figures["macro_f1"])


class _Search:
    """A search under way."""

    def __init__(
        self,
        study: Study,
        space: Space,
        rows: DividedRows,
        labels: np.ndarray,
        seed: int,
        clock: _Clock,
    ) -> None:
        self._study, self._space, self._rows, self._labels, self._seed, self._clock = (
            study,
            space,
            rows,
            labels,
            seed,
            clock,
        )

    def run(
        self, prepare: Callable[[], AbstractContextManager[Trials]], trials: int | None
    ) -> bool:
        """Try settings until the time is up or there are so many trials.

        False if it was interrupted.
        """
        clock, before = self._clock, sum(record.seconds for record in self._study.records)
        clock.deadline -= before
        if self._study.finished:
            tried = len(self._study.finished)
            clock.note(f"resuming after {count(tried, 'trial')}, which took {before:.0f} s")
        try:
            if self._has_time() and self._wants(trials):
                with prepare() as attempts:
                    clock.tell_seconds()
                    while self._has_time() and self._wants(trials):
                        self._try_next(attempts)
                if self._wants(trials):
                    clock.note(
                        f"the {max(0.0, clock.left()):.0f} s left are less than the quickest"
                        " complete trial took"
                    )
        except _TimeIsUp:
            pass
        except KeyboardInterrupt:
            return False
        return True

    def _wants(self, trials: int | None) -> bool:
        return trials is None or len(self._study.finished) < trials

    def _has_time(self) -> bool:
        """Whether the quickest of the complete trials would be done in time."""
        took = [record.seconds for record in self._study.finished if record.outcome == "complete"]
        return self._clock.left() > min(took, default=0.0)

    def _try_next(self, attempts: Trials) -> None:
        """One trial, and what became of it."""
        number, started = len(self._study.finished), time.monotonic()
        trial = self._study.ask(self._space.defaults())
        told = _Told(self._space.suggest(trial), self._space.most_epochs + 1)
        stop: BaseException | None = None
        try:
            macro_f1, predicted = self._measure(attempts, trial, told, may_stop=number > 0)
            outcome = "complete"
        except _GivenUp:
            outcome, macro_f1, predicted = "pruned", told.running, []
        except TrainingError:
            outcome, macro_f1, predicted = "diverged", 0.0, []
        except (_TimeIsUp, KeyboardInterrupt) as error:
            outcome, macro_f1, predicted, stop = "ended", told.running, [], error
        record = Record(
            outcome, macro_f1, told.epochs, time.monotonic() - started, told.point, predicted
        )
        self._study.tell(trial, record)
        if stop is not None:
            raise stop
        if number == 0 and outcome != "complete":
            raise TrainingError(
                "the loss became infinite with the recipe's defaults",
                expected="a training that works",
                fix="check the encoder",
            )
        self._clock.tell_trial(number, record)

    def _measure(
        self, attempts: Trials, trial: optuna.Trial, told: _Told, *, may_stop: bool
    ) -> tuple[float, list[int]]:
        """Macro-F1 on all validated rows together, and their predicted labels."""
        changes, head = self._space.changes(told.point)
        predicted: list[np.ndarray] = []

        def epoch_done(macro_f1: float) -> None:
            told.epoch(macro_f1)
            trial.report(told.running, told.step)
            if may_stop and trial.should_prune():
                raise _GivenUp

        for fold, (train, valid) in enumerate(self._rows.parts):
            told.fold(fold)
            attempt = Trial(
                train, valid, head, self._space.settings(changes), (self._seed + fold) % _SEEDS
            )
            predicted.append(
                attempts(attempt, _Epochs(self._clock, epoch_done)).valid_logits.argmax(axis=1)
            )
        codes = np.concatenate(predicted)
        return macro_f1_score(self._labels[self._rows.validated], codes), codes.tolist()

    def result(self, encoder: str, finished: bool) -> TunedSettings:
        """What was found."""
        records = self._study.finished
        complete = [number for number, record in enumerate(records) if record.outcome == "complete"]
        # of equal ones the first, so the defaults are beaten or kept
        best = max(complete, key=lambda number: records[number].macro_f1)
        predictions = [np.array(records[number].predicted) for number in complete]
        chance = chance_of_best(
            self._labels[self._rows.validated], predictions, self._rows.groups()
        )
        chosen = best if chance <= _CHANCE else 0
        training, head = self._space.changes(records[chosen].point) if chosen else ({}, None)
        return TunedSettings(
            recipe=self._space.recipe,
            encoder=encoder,
            training=training,
            head=head,
            verdict=_verdict(records, best, chance, len(self._rows.validated)),
            macro_f1=records[chosen].macro_f1,
            default_macro_f1=records[0].macro_f1,
            best_trial=best,
            chance=chance,
            validation_rows=len(self._rows.validated),
            folds=len(self._rows.parts),
            seed=self._seed,
            seconds=sum(record.seconds for record in self._study.records),
            finished=finished,
            trials=tuple(self._figures(number, record) for number, record in enumerate(records)),
        )

    def _figures(self, number: int, record: Record) -> TrialFigures:
        training, head = self._space.changes(record.point)
        return TrialFigures(
            number=number,
            outcome=record.outcome,
            macro_f1=record.macro_f1,
            epochs=record.epochs,
            seconds=record.seconds,
            training=training,
            head=head,
        )


class _GivenUp(Exception):  # noqa: N818 - no error
    """The trial is worse than half of the others."""


class _Told:
    """How far a trial is: the epochs of its folds in one row, with the mean of the folds' best macro-F1 so far."""

    def __init__(self, point: Parameters, fold_steps: int) -> None:
        self.point, self.epochs, self.step = point, 0, 0
        self._fold_steps, self._best = fold_steps, [0.0]

    def fold(self, number: int) -> None:
        """A fold starts."""
        self.step, self._best = number * self._fold_steps, [*self._best[:number], 0.0]

    def epoch(self, macro_f1: float) -> None:
        """An epoch of the fold is done."""
        self.epochs, self.step = self.epochs + 1, self.step + 1
        self._best[-1] = max(self._best[-1], macro_f1)

    @property
    def running(self) -> float:
        """The mean so far."""
        return sum(self._best) / len(self._best)


def _verdict(records: Sequence[Record], best: int, chance: float, rows: int) -> str:
    """What is chosen, and why."""
    default, found = records[0].macro_f1, records[best].macro_f1
    measured = f"macro-F1 {default:.3f} on {rows:,} validation rows"
    if len(records) == 1:
        return f"only the defaults were tried, with {measured}: they are kept"
    if best == 0:
        return (
            f"none of {len(records)} trials was better than the defaults' {measured}: the defaults"
            " are kept"
        )
    complete = sum(record.outcome == "complete" for record in records)
    luck = (
        f"the luckiest of {complete} complete trials no better than the defaults would look so good"
        f" in {chance:.1%} of cases"
    )
    what = (
        "its settings are chosen"
        if chance <= _CHANCE
        else "this is within the noise, the defaults are kept"
    )
    return (
        f"trial {best} has macro-F1 {found:.3f}, {100 * (found - default):+.1f} points on the"
        f" defaults' {measured}; {luck}: {what}"
    )


def _check(recipe: str, seed: int, minutes: float, trials: int | None) -> None:
    if recipe not in ("auto", "full", "frozen"):
        raise SettingsError(
            f"recipe {recipe!r}", expected="'auto', 'full' or 'frozen'", fix="choose one of them"
        )
    if not isinstance(seed, int | np.integer) or not 0 <= seed < _SEEDS:
        raise SettingsError(
            f"seed {seed!r}", expected=f"a whole number from 0 to {_SEEDS - 1}", fix="choose one"
        )
    if not 0 < minutes < math.inf:
        raise SettingsError(
            f"{minutes:g} minutes", expected="more than 0", fix="give for example --minutes 30"
        )
    if trials is not None and trials < 1:
        raise SettingsError(
            f"{trials} trials",
            expected="at least 1, the defaults",
            fix="give more, or leave it to the time limit",
        )


def _recipe(
    recipe: Recipe, start: Start, rows: TokenizedRows, train: np.ndarray, progress: Progress
) -> Literal["frozen", "full"]:
    """The recipe to tune."""
    if recipe == "auto":
        tokens, classes = int(rows.lengths[train].sum()), int(rows.labels.max()) + 1
        known = start.sentence_encoder
        choice = choose_recipe(
            start.encoder,
            tokens,
            len(train),
            classes,
            fewest_epochs=FULL.epochs,
            sentence_encoder=known,
        )
        found: Literal["frozen", "full"] = "full" if choice.recipe == "full" else "frozen"
        reason = choice.reason
        if choice.recipe == "few-shot":
            reason = (
                "few-shot, which `train` takes for so few rows, has nothing to tune; it is usually"
                " better than what can be found here"
            )
        progress.note(f"recipe {found}: {reason}")
        return found
    return "full" if recipe == "full" else "frozen"


def _attempts(
    start: Start, rows: TokenizedRows, recipe: str, path: Path, clock: _Clock
) -> AbstractContextManager[Trials]:
    attempts: Trials
    if recipe == "full":
        attempts = FullTrials(start.encoder, rows)
    else:
        attempts = HeadTrials(
            start.encoder, rows, embed_on_cpu(start.encoder, start.tokenizer.pad_id), path, clock
        )
    if on_gpu():  # whose memory this process has taken
        return nullcontext(attempts)
    return OwnProcess(attempts, trainings=_TRAININGS[recipe])


def _of_text(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
