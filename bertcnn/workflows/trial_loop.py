"""The trials of a search, one after the other, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np

from bertcnn.errors import TrainingError
from bertcnn.evaluation.macro_f1 import macro_f1_score
from bertcnn.evaluation.reality_check import chance_of_best
from bertcnn.training.start import SEEDS
from bertcnn.wording import count
from bertcnn.workflows.clock import Clock, EpochProgress, TimeIsUp
from bertcnn.workflows.folds import DividedRows
from bertcnn.workflows.repeated import Trial, Trials
from bertcnn.workflows.space import Parameters, Space
from bertcnn.workflows.study import Record, Study
from bertcnn.workflows.tuned import TrialFigures, TunedSettings

if TYPE_CHECKING:
    import optuna

_CHANCE = 0.05  # of looking so good by luck, above which the defaults are kept


class TrialPruned(Exception):  # noqa: N818 - no error
    """The trial is stopped early: it is worse than half of the others."""


class TrialProgress:
    """How far a trial is: its epochs in all folds, and the mean of the folds' best macro-F1."""

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


class TrialLoop:
    """Runs the trials of a search until its time is up, and chooses among them."""

    def __init__(
        self,
        study: Study,
        space: Space,
        rows: DividedRows,
        labels: np.ndarray,
        seed: int,
        clock: Clock,
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
                with prepare() as trainings:
                    clock.tell_seconds()
                    while self._has_time() and self._wants(trials):
                        self._try_next(trainings)
                if self._wants(trials):
                    clock.note(
                        f"the {max(0.0, clock.left()):.0f} s left are less than the quickest"
                        " complete trial took"
                    )
        except TimeIsUp:
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

    def _try_next(self, trainings: Trials) -> None:
        """One trial, and what became of it."""
        number, started = len(self._study.finished), self._clock.now()
        trial = self._study.ask(self._space.defaults())
        state = TrialProgress(self._space.suggest(trial), self._space.most_epochs + 1)
        stop: BaseException | None = None
        try:
            macro_f1, predicted = self._measure(trainings, trial, state, may_stop=number > 0)
            outcome = "complete"
        except TrialPruned:
            outcome, macro_f1, predicted = "pruned", state.running, []
        except TrainingError:
            outcome, macro_f1, predicted = "diverged", 0.0, []
        except (TimeIsUp, KeyboardInterrupt) as error:
            outcome, macro_f1, predicted, stop = "ended", state.running, [], error
        record = Record(
            outcome, macro_f1, state.epochs, self._clock.now() - started, state.point, predicted
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
        self, trainings: Trials, trial: optuna.Trial, state: TrialProgress, *, may_stop: bool
    ) -> tuple[float, list[int]]:
        """Macro-F1 on all validated rows together, and their predicted labels."""
        changes, head = self._space.changes(state.point)
        predicted: list[np.ndarray] = []

        def epoch_done(macro_f1: float) -> None:
            state.epoch(macro_f1)
            trial.report(state.running, state.step)
            if may_stop and trial.should_prune():
                raise TrialPruned

        for fold, (train, valid) in enumerate(self._rows.parts):
            state.fold(fold)
            part = Trial(
                train, valid, head, self._space.settings(changes), (self._seed + fold) % SEEDS
            )
            predicted.append(
                trainings(part, EpochProgress(self._clock, epoch_done)).valid_logits.argmax(axis=1)
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
