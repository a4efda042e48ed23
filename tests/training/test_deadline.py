"""Steps that are skipped when a training would miss its deadline."""

from dataclasses import dataclass

import pytest

from bertcnn.training.deadline import Deadline, OutOfTime, seconds_of_epoch
from bertcnn.training.fit import fit
from bertcnn.training.training_data import RunOptions
from tests.listener import Listener
from tests.tickets import tickets
from tests.training.test_fit import SETTINGS, head
from tests.training.test_refit import assert_same_weights, trained

NEVER, AT_ONCE = 60.0, 1e-9  # minutes
BATCHES = 8  # per epoch
TINY = {"epochs": 1}


class Hurry(Listener):
    """A progress that ends the time budget after `after` batches."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    def advance(self, done, **figures):  # noqa: ARG002
        self.left -= done


@dataclass(frozen=True)
class Shortened(Deadline):
    """Hours, until `Hurry` ends them."""

    hurry: Hurry = None

    def is_missed_after(self, seconds):
        given = Deadline(AT_ONCE if self.hurry.left <= 0 else self.minutes)
        return given.is_missed_after(seconds)

    def __str__(self):
        return str(Deadline(AT_ONCE))


@pytest.fixture(scope="module")
def rows(make_rows, vector_examples):
    return vector_examples(make_rows(60, 0)), vector_examples(make_rows(20, 1))


def trained_until(rows, hurry, like=None):
    deadline = Shortened(NEVER, hurry=hurry)
    settings = SETTINGS.model_copy(update={"epochs": 4})
    run = RunOptions(0, hurry, like=like, deadline=deadline)
    return fit(head(), *rows, settings, run, layers=0)


@pytest.fixture(scope="module")
def unbroken(rows):
    return trained_until(rows, Hurry(10 * BATCHES))


def test_minutes_are_counted_from_when_it_is_made_and_a_tenth_more_is_allowed():
    deadline = Deadline(1.0)
    assert not deadline.is_missed_after(65)
    assert deadline.is_missed_after(66.1)
    assert Deadline(AT_ONCE).is_missed_after(0)


def test_an_epoch_is_as_long_as_its_batches_without_those_that_may_have_compiled():
    assert seconds_of_epoch([9.0, 1.0, 2.0, 7.0, 3.0], steps=10, shapes=2) == 20.0
    assert seconds_of_epoch([4.0], steps=3, shapes=2) == 12.0


@pytest.mark.parametrize(("after", "epochs"), [(1, 1), (BATCHES, 1), (BATCHES + 1, 2)])
def test_training_ends_with_the_epoch_that_is_over(rows, after, epochs):
    hurry = Hurry(after)
    result = trained_until(rows, hurry)
    assert len(result.epochs) == epochs
    assert hurry.notes == [
        f"training ends with epoch {epochs} of 4, since another one would end after the 1e-09 min"
        " that are allowed"
    ]


def test_with_time_enough_nothing_is_left_out(rows, unbroken):
    hurry = Hurry(5 * BATCHES)
    result = trained_until(rows, hurry)
    assert len(result.epochs) == len(unbroken.epochs) == 4
    assert hurry.notes == []


def test_a_training_that_repeats_another_one_is_whole_or_not_at_all(rows, unbroken):
    with pytest.raises(OutOfTime):
        trained_until(rows, Hurry(1), unbroken)
    result = trained_until(rows, Hurry(unbroken.kept_epoch * BATCHES), unbroken)
    assert result.kept_epoch == unbroken.kept_epoch


def test_held_out_rows_are_not_learned_from_where_the_time_is_over(shallow_encoder_folder):
    listener = Listener()
    late, plain = (
        trained(shallow_encoder_folder, *tickets(40), progress=listener, **TINY, **changes)
        for changes in ({"time_budget": AT_ONCE}, {"refit": False})
    )
    told = [note for note in listener.notes if "held-out rows" in note]
    assert told == [
        "the model is not trained again with the held-out rows, since that would end after the"
        " 1e-09 min that are allowed"
    ]
    assert_same_weights(late, plain)
    assert late.metrics_["macro_f1"] == plain.metrics_["macro_f1"]
