"""Trainings in a process of their own.

The same results, and nothing that can happen to a process is lost on the caller.
"""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from bertcnn.encoders.convert import load_encoder
from bertcnn.errors import BertCNNError, SettingsError, TrainingError
from bertcnn.progress import Silent
from bertcnn.settings import HeadSettings, TrainingSettings
from bertcnn.training.features import TokenizedRows
from bertcnn.workflows.repeated import FullTrials, HeadTrials, Trial
from bertcnn.workflows.worker import OwnProcess

HEAD = HeadSettings(window_sizes=(2,), filters=8)
SETTINGS = TrainingSettings(epochs=2, batch_size=8, compiled_shapes=1)


class Script:
    """Trials that do as they are told, and answer with their process."""

    def __call__(self, attempt, progress):
        if attempt == "fail":
            raise TrainingError("a loss", expected="a smaller one", fix="train again")
        if attempt == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt == "break":
            raise ZeroDivisionError("no number")
        os.write(1, b"a library prints this\n")
        progress.stage("counting", 3, "things")
        for number in range(3):
            progress.advance(1, number=float(number))
        progress.note("counted")
        return os.getpid()


class Listener:
    def __init__(self, error=None):
        self.told, self._error = [], error

    def stage(self, *given):
        self.told.append(("stage", *given))

    def advance(self, done, **figures):
        self.told.append(("advance", done, figures))
        if self._error is not None:
            raise self._error

    def note(self, message):
        self.told.append(("note", message))


@pytest.mark.parametrize("recipe", ["frozen", "full"])
def test_the_results_are_those_of_this_process(shallow_encoder_folder, tmp_path, recipe):
    generator = np.random.default_rng(1)
    token_ids = [
        np.array([2, *generator.integers(60, 120, generator.integers(4, 20)), 3], np.int32)
        for _ in range(30)
    ]
    encoder, rows = (
        load_encoder(shallow_encoder_folder, seed=7),
        TokenizedRows(token_ids, np.arange(30) % 3),
    )
    attempts = (
        FullTrials(encoder, rows)
        if recipe == "full"
        else HeadTrials(encoder, rows, None, tmp_path / "features", Silent())
    )
    attempt = Trial(np.arange(24), np.arange(24, 30), HEAD, SETTINGS, seed=7)
    with OwnProcess(attempts, trainings=2) as apart:
        for one in (attempt, replace(attempt, seed=8)):
            there, here = apart(one, Silent()), attempts(one, Silent())
            np.testing.assert_array_equal(there.valid_logits, here.valid_logits)
            assert there.epochs == here.epochs


def test_a_fresh_process_takes_over_after_so_many_trainings():
    with OwnProcess(Script(), trainings=2) as apart:
        first, second, third = (apart("count", Silent()) for _ in range(3))
    assert first == second
    assert len({first, third, os.getpid()}) == 3
    for number in (first, third):
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_progress_is_told_here():
    listener = Listener()
    with OwnProcess(Script(), trainings=1) as apart:
        apart("count", listener)
    advances = [("advance", 1, {"number": float(number)}) for number in range(3)]
    assert listener.told == [("stage", "counting", 3, "things"), *advances, ("note", "counted")]


def test_what_progress_raises_stops_the_training_and_the_process_takes_the_next_one():
    stop = Listener(SettingsError("too late", expected="earlier", fix="wait"))
    with OwnProcess(Script(), trainings=9) as apart:
        before = apart("count", Silent())
        with pytest.raises(SettingsError, match="too late"):
            apart("count", stop)
        assert len(stop.told) == 2
        assert apart("count", Silent()) == before


def test_ctrl_c_ends_the_process():
    with OwnProcess(Script(), trainings=9) as apart:
        before = apart("count", Silent())
        with pytest.raises(KeyboardInterrupt):
            apart("count", Listener(KeyboardInterrupt()))
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)
        assert apart("count", Silent()) != before


def test_its_errors_are_raised_here():
    with OwnProcess(Script(), trainings=9) as apart:
        before = apart("count", Silent())
        with pytest.raises(
            TrainingError, match=r"a loss; expected a smaller one. What to do: train again\."
        ):
            apart("fail", Silent())
        assert apart("count", Silent()) == before
        with pytest.raises(BertCNNError, match=r"ended by SIGKILL; .*free memory and rerun"):
            apart("die", Silent())
        with pytest.raises(BertCNNError, match="ended with code 1: ZeroDivisionError: no number;"):
            apart("break", Silent())
        assert apart("count", Silent()) != before
